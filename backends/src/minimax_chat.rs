//! `minimax_chat`: MiniMax, with its regions and its way to say how a model thinks.

mod hidden;

use std::sync::Arc;

use serde_json::json;
use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};

use crate::address::Address;
use crate::auth::Auth;
use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, SWITCH, TEMPERATURE_OR_NONE, Work,
    blank_is, key, ops,
};
use crate::dialect::chat_completions::Server;
use crate::error::CallError;
use crate::exchange::Exchange;

/// What the program knows of `minimax_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "minimax_chat",
    about: "MiniMax",
    labels: &[Label {
        name: "minimax_chat",
        aliases: &["minimax"],
        optimizer: "openai_chat",
        target: "minimax_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some("MiniMax-M3"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    key(
        "minimax_region",
        Kind::Choice(&[("", &[]), (GLOBAL, &["global-en"]), (CHINA, &["cn-zh"])]),
        GLOBAL,
        "Region of the service.",
    ),
    key(
        "minimax_base_url",
        Kind::Text,
        "by region",
        "Address up to and without `/chat/completions`; it wins over the region.",
    ),
    key(
        "minimax_api_key",
        Kind::Secret,
        "none",
        "Key; better given in the environment.",
    ),
    key(
        "minimax_model",
        Kind::Text,
        "MiniMax-M3",
        "Model of a role that names none.",
    ),
    blank_is(
        key(
            "minimax_temperature",
            TEMPERATURE_OR_NONE,
            "0.7",
            "Sampling temperature; `none` leaves it to the service.",
        ),
        "none",
    ),
    key(
        "minimax_max_tokens",
        int(1),
        "8000",
        "Upper limit of tokens per answer.",
    ),
    ops(key(
        "minimax_stream",
        SWITCH,
        "false",
        "Whether answers come in pieces, so that a stalled one is noticed early.",
    )),
    ops(key(
        "minimax_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
    key(
        "minimax_enable_thinking",
        SWITCH,
        "false",
        "Whether the model thinks first; models of the M2 family always do.",
    ),
];

const GLOBAL: &str = "global_en";
const CHINA: &str = "cn_zh";
const TEMPERATURE_DEFAULT: f64 = 0.7;
const MAX_TOKENS: u32 = 8_000;

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base_url = options.text("minimax_base_url").unwrap_or_else(|| {
        match options.text("minimax_region").as_deref() {
            Some(CHINA) => "https://api.minimaxi.com/v1".to_owned(),
            _ => "https://api.minimax.io/v1".to_owned(),
        }
    });
    base_url
        .trim_end_matches('/')
        .clone_into(&mut profile.endpoint);
    profile.temperature = options.number_or_none("minimax_temperature", TEMPERATURE_DEFAULT);
    let limit = options.count("minimax_max_tokens");
    profile.max_tokens = limit.unwrap_or(MAX_TOKENS);
    // Not part of this dialect, so it must not tell two equal calls apart.
    profile.reasoning_effort.clear();
    let is_wanted = options.switch("minimax_enable_thinking") == Some(true);
    let thinking = if is_wanted || always_thinks(&profile.model) {
        "adaptive"
    } else {
        "disabled"
    };
    let settings = &mut profile.settings;
    settings.insert("thinking".to_owned(), thinking.into());
}

/// The M2 family cannot be told not to think.
fn always_thinks(model: &str) -> bool {
    model.to_lowercase().starts_with("minimax-m2")
}

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    let address = Address::new(&profile.endpoint, "/chat/completions")?;
    let exchange = Exchange::new(
        local.http,
        Auth::bearer_if((local.secret)("minimax_api_key"), &address.shown)?,
        local.options.switch("minimax_stream") == Some(true),
    );
    let mut server = Server::new(profile, address, exchange);
    server.call_prefix = "minimax_tool_";
    server.hidden = hidden::error;
    if let Some(thinking) = profile.settings.get("thinking") {
        let thinking = json!({ "type": thinking });
        server.extra.insert("thinking".to_owned(), thinking);
    }
    Ok(Arc::new(server))
}
