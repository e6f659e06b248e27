//! `qwen_chat`: Qwen models behind vLLM, SGLang and the like, with their thinking modes.

use std::sync::Arc;

use serde_json::{Value, json};
use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, Word, int};

use crate::address::Address;
use crate::auth::Auth;
use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, SWITCH, TEMPERATURE_OR_NONE, Work,
    blank_is, both, checked, ops,
};
use crate::dialect::chat_completions::Server;
use crate::error::CallError;
use crate::exchange::Exchange;

/// What the program knows of `qwen_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "qwen_chat",
    about: "Qwen models behind vLLM, SGLang and the like",
    labels: &[Label {
        name: "qwen_chat",
        aliases: &["qwen"],
        optimizer: "openai_chat",
        target: "qwen_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some("Qwen/Qwen3.5-4B"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    both(
        "qwen_chat_base_url",
        Kind::Text,
        BASE_URL,
        "Address up to and without `/chat/completions`.",
    ),
    both(
        "qwen_chat_api_key",
        Kind::Secret,
        "none",
        "Key; better given in the environment.",
    ),
    blank_is(
        both(
            "qwen_chat_temperature",
            TEMPERATURE_OR_NONE,
            "0.7",
            "Sampling temperature; `none` leaves it to the server.",
        ),
        "none",
    ),
    ops(both(
        "qwen_chat_stream",
        SWITCH,
        "false",
        "Whether answers come in pieces, so that a stalled one is noticed early.",
    )),
    ops(both(
        "qwen_chat_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
    both(
        "qwen_chat_max_tokens",
        int(1),
        "8000",
        "Upper limit of tokens per answer.",
    ),
    both(
        "qwen_chat_use_max_completion_tokens",
        SWITCH,
        "false",
        "Whether the limit is sent as `max_completion_tokens` instead of `max_tokens`.",
    ),
    both(
        "qwen_chat_enable_thinking",
        SWITCH,
        "unset",
        "Older form of `qwen_chat_thinking_mode`.",
    ),
    checked(
        both(
            "qwen_chat_thinking_mode",
            Kind::Choice(THINKING),
            "server_default",
            "Whether the model thinks first.",
        ),
        check_thinking,
    ),
];

const THINKING: &[Word] = &[
    (
        "server_default",
        &["", "unset", "auto", "none", "null", "server-default"],
    ),
    ("enabled", &["1", "true", "yes", "on", "enable"]),
    ("disabled", &["0", "false", "no", "off", "disable"]),
];

const BASE_URL: &str = "http://localhost:8000/v1";
const TEMPERATURE_DEFAULT: f64 = 0.7;
const MAX_TOKENS: u32 = 8_000;

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base_url = options.text("qwen_chat_base_url");
    let base_url = base_url.as_deref().unwrap_or(BASE_URL);
    base_url
        .trim_end_matches('/')
        .clone_into(&mut profile.endpoint);
    profile.temperature = options.number_or_none("qwen_chat_temperature", TEMPERATURE_DEFAULT);
    let limit = options.count("qwen_chat_max_tokens");
    profile.max_tokens = limit.unwrap_or(MAX_TOKENS);
    // Not part of this dialect, so it must not tell two equal calls apart.
    profile.reasoning_effort.clear();
    let settings = &mut profile.settings;
    if let Some(thinks) = thinks(options) {
        settings.insert("enable_thinking".to_owned(), thinks.into());
    }
    if options.switch("qwen_chat_use_max_completion_tokens") == Some(true) {
        settings.insert("limit_field".to_owned(), "max_completion_tokens".into());
    }
}

/// Returns what is said to the server about thinking; nothing leaves it to the server.
fn thinks(options: Options<'_>) -> Option<bool> {
    match options.text("qwen_chat_thinking_mode").as_deref() {
        Some("enabled") => Some(true),
        Some("disabled") => Some(false),
        Some(_) => None,
        // The older switch could only turn it on.
        None => options
            .switch("qwen_chat_enable_thinking")
            .filter(|thinks| *thinks),
    }
}

fn check_thinking(options: Options<'_>) -> Result<Option<String>, String> {
    let mode = options.text("qwen_chat_thinking_mode");
    let older = options.switch("qwen_chat_enable_thinking");
    match (mode.as_deref(), older) {
        (Some(mode), Some(older)) if (mode == "enabled") != older => Err(format!(
            "is `{mode}`, but `qwen_chat_enable_thinking` is `{older}`; set one of them"
        )),
        _ if thinks(options).is_none() => Ok(Some(
            "leaves it to the server whether the model thinks; set `enabled` or `disabled` for \
             runs that can be repeated elsewhere"
                .to_owned(),
        )),
        _ => Ok(None),
    }
}

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    let address = Address::new(&profile.endpoint, "/chat/completions")?;
    let exchange = Exchange::new(
        local.http,
        Auth::bearer_if((local.secret)("qwen_chat_api_key"), &address.shown)?,
        local.options.switch("qwen_chat_stream") == Some(true),
    );
    let mut server = Server::new(profile, address, exchange);
    server.call_prefix = "qwen_tool_";
    let setting = |name: &str| profile.settings.get(name);
    if setting("limit_field").and_then(Value::as_str) == Some("max_completion_tokens") {
        server.limit_field = "max_completion_tokens";
    }
    if let Some(thinks) = setting("enable_thinking").and_then(Value::as_bool) {
        // An extension of vLLM and SGLang; other servers refuse it.
        let words = json!({"enable_thinking": thinks});
        server
            .extra
            .insert("chat_template_kwargs".to_owned(), words);
    }
    Ok(Arc::new(server))
}
