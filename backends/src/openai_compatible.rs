//! `openai_compatible`: Chat Completions over HTTP, as spoken by most servers.
//!
//! Body: `model`, `messages`, `max_tokens` (never `max_completion_tokens`), `temperature` only if
//! set, `response_format` only in schema-bound mode (backends spec 2.5). Reasoning effort is not
//! part of this dialect and is left out.

use std::sync::Arc;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};
use skillopt_core::role::Role;
use skillopt_core::secret::Secret;

use crate::address::Address;
use crate::auth::Auth;
use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, SWITCH, TEMPERATURE, Work, both, ops,
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

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base_url = options.text("openai_compatible_base_url");
    let base_url = base_url.as_deref().unwrap_or(BASE_URL);
    base_url
        .trim_end_matches('/')
        .clone_into(&mut profile.endpoint);
    profile.temperature = options.number("openai_compatible_temperature");
    let limit = options.count("openai_compatible_max_tokens");
    profile.max_tokens = limit.unwrap_or(MAX_TOKENS);
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
    Ok(Arc::new(Server::new(profile, address, exchange)))
}
