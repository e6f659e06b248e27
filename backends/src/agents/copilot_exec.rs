//! `copilot_exec`: the Copilot CLI as an agent.

use skillopt_core::kind::Kind;

use crate::declare::{BackendKey, Declaration, Label, SWITCH, Work, key};

/// What the program knows of `copilot_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "copilot_exec",
    about: "the Copilot CLI as an agent",
    labels: &[
        Label {
            name: "copilot_exec",
            aliases: &[],
            optimizer: "openai_chat",
            target: "copilot_exec",
        },
    ],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: // Blank lets the program choose.
    |_| Some(""),
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: |options, profile| {
        super::describe(options, profile, "openai_compatible", "1.0.102", &[]);
    },
    connect: None,
};

const KEYS: &[BackendKey] = &[
    key(
        "copilot_exec_path",
        Kind::Path,
        "copilot",
        "The Copilot program.",
    ),
    key(
        "copilot_exec_home",
        Kind::Path,
        "none",
        "Home folder of the program.",
    ),
    key(
        "copilot_exec_allow_all_tools",
        SWITCH,
        "false",
        "Whether the agent may use every tool.",
    ),
];
