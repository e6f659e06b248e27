//! `cursor_exec`: the Cursor CLI as an agent.
//!
//! It speaks an interface of its own to servers of its vendor, and cannot be given another address.
//! So it has no provider and no relay: it is let out to named hosts, with its key in the sandbox,
//! and only where the operator of the machine says so.

use skillopt_core::kind::{Kind, Word};

use crate::declare::{BackendKey, Declaration, Label, Work, key, ops};

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
    describe: |options, profile| {
        let traits = super::Traits {
            provider: "",
            version: "2026.1.28",
            effort: super::Effort::Never,
            max_tokens: false,
            own: &[("cursor_exec_sandbox", "enabled")],
        };
        super::describe(options, profile, &traits);
    },
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
        "Whether the program confines its commands by itself, inside the sandbox.",
    ),
    ops(key(
        "cursor_exec_egress",
        Kind::Text,
        "none",
        "Hosts that the program may reach, with commas between them, e.g. `*.cursor.sh:443`. Without it \
         the backend is refused: the program asks its vendor, not a provider, so that its key lies \
         in the sandbox and nothing but itself counts its tokens.",
    )),
    ops(key(
        "cursor_api_key",
        Kind::Secret,
        "",
        "Key of the program's vendor. Commands of the agent can read it.",
    )),
];

const CURSOR_SANDBOX: &[Word] = &[("enabled", &["", "true"]), ("disabled", &["false"])];
