//! Agents: coding CLIs that do a task in a workspace. What they are called with is declared here; the
//! crate `agents` runs them.
//!
//! An agent's model calls go through a relay to a *provider*: one of the chat backends, with its
//! address and its credential (`agent_provider`).

pub(crate) mod claude_code_exec;
pub(crate) mod copilot_exec;
pub(crate) mod cursor_exec;
pub(crate) mod gemini_exec;
pub(crate) mod opencode_exec;
pub(crate) mod qwen_code_exec;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};
use skillopt_core::role::Role;

use crate::declare::{BackendKey, Declaration, Options, key};
use crate::{claude_chat, gemini_chat, minimax_chat, openai_chat, openai_compatible, qwen_chat};

/// The chat backends that an agent's model calls may go to.
const PROVIDERS: &[Declaration] = &[
    openai_chat::DECLARATION,
    openai_compatible::DECLARATION,
    qwen_chat::DECLARATION,
    minimax_chat::DECLARATION,
    claude_chat::DECLARATION,
    gemini_chat::DECLARATION,
];

/// Whose address and credential an agent takes.
pub(crate) const PROVIDER: BackendKey = key(
    "agent_provider",
    Kind::Text,
    "by agent",
    "Chat backend whose address and credential an agent's model calls take: `openai_chat`, \
     `openai_compatible`, `qwen_chat`, `minimax_chat`, `claude_chat` or `gemini_chat`.",
);
/// Most model calls of a task.
pub(crate) const MAX_REQUESTS: BackendKey = key(
    "agent_max_requests",
    int(0),
    "0",
    "Most model calls of one task of an agent; 0 is no limit.",
);
/// Most tokens of a task.
pub(crate) const MAX_TOKENS: BackendKey = key(
    "agent_max_tokens",
    int(0),
    "0",
    "Most tokens of one task of an agent, sent and received; 0 is no limit.",
);

/// Fills in what may change the answers of an agent.
pub(crate) fn describe(
    options: Options<'_>,
    profile: &mut Profile,
    provider: &str,
    version: &str,
    own: &[&str],
) {
    let provider = options
        .text("agent_provider")
        .unwrap_or_else(|| provider.to_owned());
    let mut upstream = Profile {
        backend: provider.clone(),
        reasoning_effort: String::new(),
        ..profile.clone()
    };
    if let Some(backend) = PROVIDERS.iter().find(|backend| backend.name == provider) {
        (backend.describe)(options, &mut upstream);
    }
    profile.endpoint = upstream.endpoint;
    let mut put = |name: &str, value: serde_json::Value| {
        profile.settings.insert(name.to_owned(), value);
    };
    put("provider", provider.into());
    // Flags and events change between releases: an answer of another one is another answer.
    put("version", version.into());
    for name in ["agent_max_requests", "agent_max_tokens"].iter().chain(own) {
        if let Some(value) = options.get(name) {
            put(name, value);
        }
    }
}

/// Fills in nothing that depends on the role.
pub(crate) const fn no_model(_: Role) -> Option<&'static str> {
    None
}
