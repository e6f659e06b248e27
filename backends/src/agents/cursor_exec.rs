//! `cursor_exec`: the Cursor CLI as an agent.

use skillopt_core::kind::{Kind, Word};

use crate::declare::{BackendKey, Declaration, Label, Work, describes_nothing, key};

/// What the program knows of `cursor_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "cursor_exec",
    about: "the Cursor CLI as an agent",
    labels: &[Label {
        name: "cursor_exec",
        aliases: &["cursor", "cursor_agent"],
        optimizer: "openai_chat",
        target: "cursor_exec",
    }],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: |_| Some("composer-2.5"),
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[
    key(
        "cursor_exec_path",
        Kind::Path,
        "cursor-agent",
        "The Cursor program.",
    ),
    key(
        "cursor_exec_sandbox",
        Kind::Choice(CURSOR_SANDBOX),
        "enabled",
        "Whether the program is confined.",
    ),
];

const CURSOR_SANDBOX: &[Word] = &[("enabled", &["", "true"]), ("disabled", &["false"])];
