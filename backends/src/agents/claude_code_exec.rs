//! `claude_code_exec`: the Claude Code CLI as an agent.

use skillopt_core::kind::{Kind, int};

use crate::declare::{BackendKey, Declaration, Label, SDK, Work, checked, key};

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
        let traits = super::Traits {
            provider: "claude_chat",
            version: "2.1.197",
            effort: super::Effort::Key("claude_code_exec_effort"),
            max_tokens: true,
            own: &[
                ("claude_code_exec_profile", ""),
                ("claude_code_exec_max_thinking_tokens", "16384"),
            ],
        };
        super::describe(options, profile, &traits);
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
        "Name of a profile, which the agent is told.",
    ),
    checked(
        key(
            "claude_code_exec_use_sdk",
            SDK,
            "auto",
            "Without effect: the program itself is always run.",
        ),
        |options| {
            let key = "claude_code_exec_use_sdk";
            super::no_sdk(options.text(key), key)
        },
    ),
    key(
        "claude_code_exec_effort",
        Kind::Text,
        "`reasoning_effort`, else medium",
        "How hard the model thinks: low, medium, high, max, or none, which leaves it to the program.",
    ),
    key(
        "claude_code_exec_max_thinking_tokens",
        int(0),
        "16384",
        "Most tokens of thinking; 0 leaves it to the program.",
    ),
];
