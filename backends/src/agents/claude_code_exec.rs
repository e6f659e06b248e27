//! `claude_code_exec`: the Claude Code CLI as an agent.

use skillopt_core::kind::{Kind, int};

use crate::declare::{BackendKey, Declaration, Label, SDK, Work, key};

/// What the program knows of `claude_code_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "claude_code_exec",
    about: "the Claude Code CLI as an agent",
    labels: &[Label {
        name: "claude_code_exec",
        aliases: &[],
        optimizer: "openai_chat",
        target: "claude_code_exec",
    }],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: |_| Some("claude-sonnet-4-6"),
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: |options, profile| {
        let own = [
            "claude_code_exec_effort",
            "claude_code_exec_max_thinking_tokens",
        ];
        super::describe(options, profile, "claude_chat", "2.1.197", &own);
    },
    connect: None,
};

const KEYS: &[BackendKey] = &[
    key(
        "claude_code_exec_path",
        Kind::Path,
        "claude",
        "The Claude Code program.",
    ),
    key(
        "claude_code_exec_profile",
        Kind::Text,
        "none",
        "Profile of the program's own configuration.",
    ),
    key(
        "claude_code_exec_use_sdk",
        SDK,
        "auto",
        "Use the SDK instead of the program.",
    ),
    key(
        "claude_code_exec_effort",
        Kind::Text,
        "medium",
        "How hard the model thinks.",
    ),
    key(
        "claude_code_exec_max_thinking_tokens",
        int(0),
        "16384",
        "Most tokens of thinking.",
    ),
];
