//! Keys that are still accepted and no longer do anything.

/// A retired key: path, flat name, and what to tell.
pub const RETIRED: &[(&str, &str, &str)] = &[
    (
        "gradient.max_analyst_rounds",
        "max_analyst_rounds",
        "has no effect any more; remove it",
    ),
    (
        "optimizer.meta_learning_rate",
        "meta_edit_budget",
        "has no effect; remove it",
    ),
    (
        "model.codex_exec_full_auto",
        "codex_exec_full_auto",
        "has no effect any more; use `codex_exec_sandbox`",
    ),
    (
        "model.optimizer_minimax_base_url",
        "optimizer_minimax_base_url",
        "has no effect; `minimax_base_url` serves both roles",
    ),
    (
        "model.target_minimax_base_url",
        "target_minimax_base_url",
        "has no effect; `minimax_base_url` serves both roles",
    ),
    (
        "model.optimizer_minimax_api_key",
        "optimizer_minimax_api_key",
        "has no effect; `minimax_api_key` serves both roles",
    ),
    (
        "model.target_minimax_api_key",
        "target_minimax_api_key",
        "has no effect; `minimax_api_key` serves both roles",
    ),
];

/// Finds a retired key by its flat name.
#[must_use]
pub fn find(name: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    RETIRED.iter().find(|(_, flat, _)| *flat == name)
}

/// Finds a retired key by section and key.
#[must_use]
pub fn find_path(
    section: &str,
    key: &str,
) -> Option<&'static (&'static str, &'static str, &'static str)> {
    RETIRED
        .iter()
        .find(|(path, _, _)| path.split_once('.') == Some((section, key)))
}
