//! `qwen_chat`: Qwen models behind vLLM, SGLang and the like, with their thinking modes.

use skillopt_core::kind::{Kind, Word, int};

use crate::declare::{
    BackendKey, Declaration, Label, SECONDS, SWITCH, Work, both, describes_nothing, ops,
};

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
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[
    both(
        "qwen_chat_base_url",
        Kind::Text,
        "http://localhost:8000/v1",
        "Address of the server.",
    ),
    both(
        "qwen_chat_api_key",
        Kind::Secret,
        "none",
        "Key; better given in the environment.",
    ),
    both(
        "qwen_chat_temperature",
        Kind::Text,
        "0.7",
        "Sampling temperature; `none` leaves it to the server.",
    ),
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
        "qwen_chat_enable_thinking",
        SWITCH,
        "unset",
        "Older form of `qwen_chat_thinking_mode`.",
    ),
    both(
        "qwen_chat_thinking_mode",
        Kind::Choice(THINKING),
        "server_default",
        "Whether the model thinks first.",
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
