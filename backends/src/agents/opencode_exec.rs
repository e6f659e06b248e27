//! `opencode_exec`: opencode as an agent.

use crate::declare::{BackendKey, Declaration, Label, Work, key};
use skillopt_core::kind::Kind;

/// What the program knows of `opencode_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "opencode_exec",
    about: "opencode as an agent",
    labels: &[Label {
        name: "opencode_exec",
        aliases: &[],
        optimizer: "openai_chat",
        target: "opencode_exec",
    }],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: super::no_model,
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: |options, profile| {
        let traits = super::Traits {
            provider: "openai_compatible",
            version: "1.18.33",
            effort: super::Effort::Chosen,
            max_tokens: true,
            own: &[],
        };
        super::describe(options, profile, &traits);
    },
    connect: None,
};

const KEYS: &[BackendKey] = &[key(
    "opencode_exec_path",
    Kind::Path,
    "opencode",
    "The opencode program.",
)];
