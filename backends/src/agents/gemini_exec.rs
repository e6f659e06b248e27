//! `gemini_exec`: the Gemini CLI as an agent.

use crate::declare::{BackendKey, Declaration, Label, Work, key};
use skillopt_core::kind::Kind;

/// What the program knows of `gemini_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "gemini_exec",
    about: "the Gemini CLI as an agent",
    labels: &[Label {
        name: "gemini_exec",
        aliases: &[],
        optimizer: "gemini_chat",
        target: "gemini_exec",
    }],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: |_| Some("gemini-3.8-flash"),
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: |options, profile| {
        let traits = super::Traits {
            provider: "gemini_chat",
            version: "0.61.0",
            effort: super::Effort::Chosen,
            max_tokens: true,
            own: &[],
        };
        super::describe(options, profile, &traits);
    },
    connect: None,
};

const KEYS: &[BackendKey] = &[key(
    "gemini_exec_path",
    Kind::Path,
    "gemini",
    "The Gemini program.",
)];
