//! `claude_chat`: Anthropic's Messages API.

use crate::declare::{BackendKey, Declaration, Label, Work, describes_nothing};

/// What the program knows of `claude_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "claude_chat",
    about: "Anthropic's Messages API",
    labels: &[Label {
        name: "claude_chat",
        aliases: &["claude", "anthropic"],
        optimizer: "claude_chat",
        target: "claude_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some("claude-sonnet-4-6"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[];
