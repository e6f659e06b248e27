//! `gemini_chat`: Google's Gemini API (`generateContent`).

mod body;
mod client;
mod fault;
mod read;
pub(crate) mod reasoning;
mod signature;

use std::sync::Arc;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};

use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, SWITCH, TEMPERATURE, Work, both, ops,
};
use crate::error::CallError;

/// What the program knows of `gemini_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "gemini_chat",
    about: "Google's Gemini API",
    labels: &[Label {
        name: "gemini_chat",
        aliases: &["gemini", "google"],
        optimizer: "gemini_chat",
        target: "gemini_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some("gemini-3.5-flash"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    both(
        "gemini_base_url",
        Kind::Text,
        BASE_URL,
        "Address up to and without `/models/…`.",
    ),
    both(
        "gemini_api_key",
        Kind::Secret,
        "`GOOGLE_API_KEY`",
        "Key of the API; better given in the environment.",
    ),
    both(
        "gemini_temperature",
        TEMPERATURE,
        "what the provider does",
        "Sampling temperature.",
    ),
    both(
        "gemini_max_tokens",
        int(1),
        "what the call asks for",
        "Upper limit of tokens per answer, thoughts included.",
    ),
    both(
        "gemini_thinking",
        SWITCH,
        "true",
        "Whether the reasoning effort is sent to models that think.",
    ),
    ops(both(
        "gemini_stream",
        SWITCH,
        "false",
        "Whether answers come in pieces, so that a stalled one is noticed early.",
    )),
    ops(both(
        "gemini_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
];

const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base_url = options.text("gemini_base_url");
    profile.endpoint = client::root(base_url.as_deref().unwrap_or(BASE_URL));
    profile.temperature = options.number("gemini_temperature");
    profile.max_tokens = options.count("gemini_max_tokens").unwrap_or(0);
    if options.switch("gemini_thinking") == Some(false) {
        let thinking = ("thinking".to_owned(), false.into());
        profile.settings.extend([thinking]);
    }
}

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    Ok(Arc::new(client::Client::new(profile, local)?))
}
