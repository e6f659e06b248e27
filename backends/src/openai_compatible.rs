//! `openai_compatible`: Chat Completions over HTTP, as spoken by most servers.
//!
//! Body: `model`, `messages`, `max_tokens` (never `max_completion_tokens`), `temperature` only if
//! set, `response_format` only in schema-bound mode (backends spec 2.5). Reasoning effort is not
//! part of this dialect and is left out.

use std::sync::Arc;

use serde_json::{Map, Value};
use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};
use skillopt_core::role::Role;
use skillopt_core::secret::Secret;

use crate::address::Address;
use crate::auth::Auth;
use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, SWITCH, TEMPERATURE, Work, both,
    checked, ops,
};
use crate::dialect::chat_completions::Server;
use crate::error::CallError;
use crate::exchange::Exchange;

/// What the program knows of it.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "openai_compatible",
    about: "any server that speaks Chat Completions",
    labels: &[Label {
        name: "openai_compatible",
        aliases: &["openai-compatible", "openai_compatible_chat", "compat"],
        optimizer: "openai_compatible",
        target: "openai_compatible",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_: Role| Some("gpt-4o-mini"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    both(
        "openai_compatible_base_url",
        Kind::Text,
        BASE_URL,
        "Address up to and without `/chat/completions`.",
    ),
    both(
        "openai_compatible_api_key",
        Kind::Secret,
        "none",
        "Key sent as bearer token; better given in the environment.",
    ),
    both(
        "openai_compatible_temperature",
        TEMPERATURE,
        "what the provider does",
        "Sampling temperature.",
    ),
    both(
        "openai_compatible_max_tokens",
        int(1),
        "8000",
        "Upper limit of tokens per answer.",
    ),
    checked(
        both(
            EXTRA_BODY,
            Kind::Text,
            "none",
            "Further fields of each request of a chat, as one JSON object, e.g. \
             `{\"thinking\": {\"type\": \"enabled\"}}`.",
        ),
        |options| match options.text(EXTRA_BODY) {
            Some(text) => fields_of(&text).map(|_| None),
            None => Ok(None),
        },
    ),
    ops(both(
        "openai_compatible_stream",
        SWITCH,
        "false",
        "Whether answers come in pieces, so that a stalled one is noticed early.",
    )),
    ops(both(
        "openai_compatible_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
];

const BASE_URL: &str = "https://api.openai.com/v1";
const MAX_TOKENS: u32 = 8_000;
const EXTRA_BODY: &str = "openai_compatible_extra_body";
/// Fields that have a setting of their own, or are the call itself.
const OWN_FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "temperature",
    "tools",
    "tool_choice",
    "response_format",
    "stream",
    "stream_options",
    // A second limit, and answers that are paid for and not read.
    "max_completion_tokens",
    "n",
];
/// Fields that hold a credential, which would lie in every artefact of the run.
const CREDENTIALS: &[&str] = &[
    "api_key",
    "apikey",
    "authorization",
    "token",
    "access_token",
    "password",
    "secret",
];

/// Reads further fields from their text.
fn fields_of(text: &str) -> Result<Map<String, Value>, String> {
    let fields: Map<String, Value> =
        serde_json::from_str(text).map_err(|e| format!("`{EXTRA_BODY}` is no JSON object: {e}"))?;
    let own = fields
        .keys()
        .find(|name| OWN_FIELDS.contains(&name.as_str()));
    let is_credential = |name: &&String| {
        let name = name.to_ascii_lowercase().replace('-', "_");
        CREDENTIALS.contains(&name.as_str())
    };
    match (own, fields.keys().find(is_credential)) {
        (Some(name), _) => Err(format!(
            "`{EXTRA_BODY}` holds `{name}`, which other settings write"
        )),
        (_, Some(name)) => Err(format!(
            "`{EXTRA_BODY}` holds `{name}`, and is kept with the run; a credential is named by \
             `openai_compatible_api_key`"
        )),
        (None, None) => Ok(fields),
    }
}

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base_url = options.text("openai_compatible_base_url");
    let base_url = base_url.as_deref().unwrap_or(BASE_URL);
    base_url
        .trim_end_matches('/')
        .clone_into(&mut profile.endpoint);
    profile.temperature = options.number("openai_compatible_temperature");
    let limit = options.count("openai_compatible_max_tokens");
    profile.max_tokens = limit.unwrap_or(MAX_TOKENS);
    if let Some(text) = options.text(EXTRA_BODY) {
        // What cannot be read stays what it is, and is refused where a client is made.
        let fields = fields_of(&text).map_or_else(|_| Value::from(text), Value::from);
        profile.settings.insert("extra_body".to_owned(), fields);
    }
    // Not part of this dialect, so it must not tell two equal calls apart.
    profile.reasoning_effort.clear();
}

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    let address = Address::new(&profile.endpoint, "/chat/completions")?;
    let key = (local.secret)("openai_compatible_api_key");
    // Local servers want something there, and take anything.
    let key = key
        .filter(|key| !key.expose().trim().is_empty())
        .unwrap_or_else(|| Secret::new("dummy"));
    let exchange = Exchange::new(
        local.http,
        Auth::bearer(key, &address.shown)?,
        local.options.switch("openai_compatible_stream") == Some(true),
    );
    let mut server = Server::new(profile, address, exchange);
    match profile.settings.get("extra_body") {
        Some(Value::Object(fields)) => server.extra.clone_from(fields),
        Some(Value::String(text)) => {
            let endpoint = profile.endpoint.clone();
            server.extra = fields_of(text).map_err(|detail| CallError::Misconfigured {
                endpoint,
                status: 0,
                detail,
            })?;
        }
        _ => {}
    }
    Ok(Arc::new(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_fields_are_an_object_of_others() {
        let fields = fields_of(r#"{"thinking": {"type": "enabled"}}"#).unwrap();
        assert_eq!(fields["thinking"]["type"], "enabled");
        for (text, word) in [
            ("[1]", "no JSON object"),
            (r#"{"model": "m"}"#, "`model`"),
            (r#"{"n": 4}"#, "`n`"),
            (r#"{"API-Key": "sk"}"#, "`API-Key`"),
        ] {
            let refused = fields_of(text).unwrap_err();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
