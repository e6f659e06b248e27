//! `claude_chat`: Anthropic's Messages API, or by choice the Claude program as a text model.

mod api;
mod body;
mod fault;
mod generation;
mod program;
mod read;
mod result;
mod said;
mod stream;

use std::sync::Arc;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};

use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, SWITCH, TEMPERATURE, Work, both, key,
    ops,
};
use crate::error::CallError;

/// What the program knows of `claude_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "claude_chat",
    about: "Anthropic's Messages API, or the Claude program as a text model",
    labels: &[Label {
        name: "claude_chat",
        aliases: &["claude", "anthropic"],
        optimizer: "claude_chat",
        target: "claude_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some("claude-sonnet-4-6"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    both(
        "claude_transport",
        Kind::Choice(&[("api", &["", "http"]), ("cli", &["program"])]),
        "api",
        "`api` calls the Messages API; `cli` asks the Claude program, which also works with a \
         subscription.",
    ),
    both(
        "claude_base_url",
        Kind::Text,
        BASE_URL,
        "Address up to and without `/v1/messages`.",
    ),
    both(
        "claude_api_key",
        Kind::Secret,
        "`ANTHROPIC_API_KEY`",
        "Key of the API; better given in the environment.",
    ),
    both(
        "claude_temperature",
        TEMPERATURE,
        "what the provider does",
        "Sampling temperature of the API. One that is set leaves extended thinking out: the API \
         takes only one of them.",
    ),
    both(
        "claude_max_tokens",
        int(1),
        "what the call asks for",
        "Upper limit of tokens per answer, thoughts included.",
    ),
    both(
        "claude_thinking",
        SWITCH,
        "true",
        "Whether the reasoning effort also turns extended thinking on, where a model has it.",
    ),
    ops(both(
        "claude_stream",
        SWITCH,
        "false",
        "Whether answers of the API come in pieces, so that a stalled one is noticed early.",
    )),
    ops(both(
        "claude_prompt_cache",
        SWITCH,
        "true",
        "Whether long system prompts and conversations are marked for the provider's cache.",
    )),
    ops(both(
        "claude_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
    ops(key(
        "claude_cli_bin",
        Kind::Path,
        "claude",
        "The Claude program.",
    )),
];

const BASE_URL: &str = "https://api.anthropic.com";

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base_url = options.text("claude_base_url");
    profile.max_tokens = options.count("claude_max_tokens").unwrap_or(0);
    if generation::known(&profile.reasoning_effort).is_none() {
        profile.reasoning_effort.clear();
    }
    if options.text("claude_transport").as_deref() == Some("cli") {
        let transport = ("transport".to_owned(), "cli".into());
        profile.settings.extend([transport]);
        profile.endpoint = base_url.map_or_else(String::new, |url| api::root(&url));
        return;
    }
    profile.endpoint = api::root(base_url.as_deref().unwrap_or(BASE_URL));
    profile.temperature = options.number("claude_temperature");
    if options.switch("claude_thinking") == Some(false) {
        let thinking = ("thinking".to_owned(), false.into());
        profile.settings.extend([thinking]);
    }
}

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    if profile
        .settings
        .get("transport")
        .is_some_and(|t| t == "cli")
    {
        return Ok(Arc::new(program::Client::new(profile, local)?));
    }
    Ok(Arc::new(api::Client::new(profile, local)?))
}

/// Returns the key of the API, if there is one.
fn api_key(local: &Local<'_>) -> Option<String> {
    let own = (local.secret)("claude_api_key").map(|secret| secret.expose().trim().to_owned());
    own.or_else(|| (local.env)("ANTHROPIC_API_KEY"))
        .filter(|key| !key.trim().is_empty())
}
