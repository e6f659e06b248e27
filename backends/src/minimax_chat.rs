//! `minimax_chat`: MiniMax, with its regions and its way to say how a model thinks.

use skillopt_core::kind::Kind;

use crate::declare::{BackendKey, Declaration, Label, SWITCH, Work, describes_nothing, key};

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
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[
    key(
        "minimax_region",
        Kind::Choice(&[
            ("", &[]),
            ("global_en", &["global-en"]),
            ("cn_zh", &["cn-zh"]),
        ]),
        "global_en",
        "Region of the service.",
    ),
    key(
        "minimax_base_url",
        Kind::Text,
        "by region",
        "Address of the service.",
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
        "Model of the target.",
    ),
    key(
        "minimax_temperature",
        Kind::Text,
        "0.7",
        "Sampling temperature; blank leaves it to the service.",
    ),
    key(
        "minimax_max_tokens",
        Kind::Text,
        "8000",
        "Upper limit of tokens per answer.",
    ),
    key(
        "minimax_enable_thinking",
        SWITCH,
        "false",
        "Whether the model thinks first.",
    ),
];
