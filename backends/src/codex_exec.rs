//! `codex_exec`: the Codex CLI, as a text model for the optimizer.

use skillopt_core::kind::{Kind, Word};

use crate::declare::{BackendKey, Declaration, Label, SDK, SWITCH, Work, describes_nothing, key};

/// What the program knows of `codex_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "codex_exec",
    about: "the Codex CLI: an agent, and a text model for the optimizer",
    labels: &[
        Label {
            name: "codex_exec",
            aliases: &[],
            optimizer: "codex_exec",
            target: "codex_exec",
        },
        Label {
            name: "codex",
            aliases: &["openai"],
            optimizer: "codex_exec",
            target: "codex_exec",
        },
    ],
    optimizer: true,
    target: Some(Work::Agent),
    default_model: |_| None,
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[
    key("codex_exec_path", Kind::Path, "codex", "The Codex program."),
    key(
        "codex_exec_sandbox",
        Kind::Choice(SANDBOX),
        "workspace-write",
        "What the program may touch.",
    ),
    key(
        "codex_exec_profile",
        Kind::Text,
        "none",
        "Profile of the program's own configuration.",
    ),
    key(
        "codex_exec_reasoning_effort",
        Kind::Text,
        "none",
        "How hard the model thinks.",
    ),
    key(
        "codex_exec_approval_policy",
        Kind::Text,
        "never",
        "When the program asks back.",
    ),
    key(
        "codex_exec_use_sdk",
        SDK,
        "auto",
        "Use the SDK instead of the program.",
    ),
    key(
        "codex_exec_network_access",
        SWITCH,
        "false",
        "Whether the sandbox has a network.",
    ),
    key(
        "codex_exec_web_search",
        SWITCH,
        "false",
        "Whether the program may search the web.",
    ),
];

const SANDBOX: &[Word] = &[
    ("workspace-write", &[""]),
    ("read-only", &[]),
    ("danger-full-access", &[]),
];
