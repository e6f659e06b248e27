//! `qwen_code_exec`: Qwen Code as an agent.

use crate::declare::{BackendKey, Declaration, Label, Work, key};
use skillopt_core::kind::Kind;

/// What the program knows of `qwen_code_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "qwen_code_exec",
    about: "Qwen Code as an agent",
    labels: &[Label {
        name: "qwen_code_exec",
        aliases: &[],
        optimizer: "openai_chat",
        target: "qwen_code_exec",
    }],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: |_| Some("Qwen/Qwen3.5-4B"),
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: |options, profile| {
        let traits = super::Traits {
            provider: "qwen_chat",
            version: "0.15.10",
            effort: super::Effort::Chosen,
            max_tokens: true,
            own: &[],
        };
        super::describe(options, profile, &traits);
    },
    connect: None,
};

const KEYS: &[BackendKey] = &[key(
    "qwen_code_exec_path",
    Kind::Path,
    "qwen",
    "The Qwen Code program.",
)];
