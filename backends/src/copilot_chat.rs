//! `copilot_chat`: the Copilot CLI as a text model.

use skillopt_core::kind::{Kind, int};

use crate::declare::{BackendKey, Declaration, Label, Work, describes_nothing, key, ops};

/// What the program knows of `copilot_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "copilot_chat",
    about: "the Copilot CLI as a text model",
    labels: &[Label {
        name: "copilot_chat",
        aliases: &["copilot", "copilot_cli", "github_copilot"],
        optimizer: "copilot_chat",
        target: "copilot_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| None,
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[
    key(
        "copilot_chat_optimizer_model",
        Kind::Text,
        "none",
        "Model of the optimizer.",
    ),
    key(
        "copilot_chat_target_model",
        Kind::Text,
        "none",
        "Model of the target.",
    ),
    ops(key(
        "copilot_chat_timeout",
        int(1),
        "600",
        "Seconds for one exchange.",
    )),
];
