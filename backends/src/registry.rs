//! The backends: one line each.

use std::sync::Arc;

use skillopt_core::job::Profile;

use crate::contract::ChatModel;
use crate::declare::{BackendKey, Declaration, Label, Local};
use crate::error::CallError;
use crate::{
    agents, claude_chat, codex_exec, copilot_chat, cursor_chat, gemini_chat, minimax_chat,
    openai_chat, openai_compatible, opencode_chat, pi_chat, qwen_chat, simulated,
};

/// All of them, in the order in which people see them.
pub const BACKENDS: &[Declaration] = &[
    openai_chat::DECLARATION,
    openai_compatible::DECLARATION,
    claude_chat::DECLARATION,
    gemini_chat::DECLARATION,
    qwen_chat::DECLARATION,
    minimax_chat::DECLARATION,
    copilot_chat::DECLARATION,
    cursor_chat::DECLARATION,
    opencode_chat::DECLARATION,
    pi_chat::DECLARATION,
    codex_exec::DECLARATION,
    agents::claude_code_exec::DECLARATION,
    agents::cursor_exec::DECLARATION,
    agents::copilot_exec::DECLARATION,
    agents::opencode_exec::DECLARATION,
    agents::gemini_exec::DECLARATION,
    agents::qwen_code_exec::DECLARATION,
    agents::declared_exec::DECLARATION,
    simulated::DECLARATION,
];

/// Returns a backend by its canonical name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Declaration> {
    BACKENDS.iter().find(|backend| backend.name == name)
}

/// Returns the keys of all backends.
pub fn keys() -> impl Iterator<Item = &'static BackendKey> {
    BACKENDS.iter().flat_map(|backend| backend.keys)
}

/// Returns the names that stand for pairs of backends.
pub fn labels() -> impl Iterator<Item = &'static Label> {
    BACKENDS.iter().flat_map(|backend| backend.labels)
}

/// Returns the names of the backends that [`connect`] can make a client of.
pub fn callable() -> impl Iterator<Item = &'static str> {
    let callable = BACKENDS.iter().filter(|backend| backend.connect.is_some());
    callable.map(|backend| backend.name)
}

/// Makes a client; makes no call.
///
/// # Errors
/// [`CallError::Misconfigured`] for a backend that cannot be called, or settings that it refuses.
pub fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    match find(&profile.backend).and_then(|backend| backend.connect) {
        Some(connect) => connect(profile, local),
        None => Err(CallError::Misconfigured {
            endpoint: format!("{} model", profile.role),
            status: 0,
            detail: format!(
                "backend `{}` cannot be called by this release; available: {}",
                profile.backend,
                callable().collect::<Vec<_>>().join(", ")
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_mean_one_thing() {
        let mut seen = BTreeSet::new();
        for label in labels() {
            for name in label.aliases.iter().chain([&label.name]) {
                assert!(seen.insert(*name), "`{name}` stands for two things");
            }
        }
        for backend in BACKENDS {
            assert!(
                seen.contains(backend.name),
                "`{}` has no label",
                backend.name
            );
        }
        let keys: BTreeSet<&str> = keys().map(|key| key.base).collect();
        assert_eq!(keys.len(), super::keys().count());
    }

    #[test]
    fn a_label_names_backends_that_serve() {
        for label in labels() {
            assert!(
                find(label.optimizer).is_some_and(|b| b.optimizer),
                "{label:?}"
            );
            assert!(
                find(label.target).is_some_and(|b| b.target.is_some()),
                "{label:?}"
            );
        }
    }
}
