//! Which backend and which model serves each role (training spec 7.6, backends spec 1.1–1.5).

use crate::suggest::nearest;

/// Who a model works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Writes edits.
    Optimizer,
    /// Does the tasks.
    Target,
}

impl Role {
    /// Returns the name, as in `optimizer_backend`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Optimizer => "optimizer",
            Self::Target => "target",
        }
    }
}

/// Backends that can serve as optimizer.
pub const OPTIMIZER_BACKENDS: &[&str] = &[
    "openai_chat",
    "openai_compatible",
    "claude_chat",
    "qwen_chat",
    "minimax_chat",
    "copilot_chat",
    "codex_exec",
    "simulated",
];

/// Backends that can serve as target.
pub const TARGET_BACKENDS: &[&str] = &[
    "openai_chat",
    "openai_compatible",
    "claude_chat",
    "qwen_chat",
    "minimax_chat",
    "copilot_chat",
    "codex_exec",
    "claude_code_exec",
    "cursor_exec",
    "copilot_exec",
    "simulated",
];

/// Names that stand for a pair of backends: label, optimizer, target.
pub const LABELS: &[(&str, &str, &str)] = &[
    ("azure_openai", "openai_chat", "openai_chat"),
    ("openai_chat", "openai_chat", "openai_chat"),
    (
        "openai_compatible",
        "openai_compatible",
        "openai_compatible",
    ),
    ("claude_chat", "claude_chat", "claude_chat"),
    ("codex", "codex_exec", "codex_exec"),
    ("codex_exec", "codex_exec", "codex_exec"),
    ("copilot_chat", "copilot_chat", "copilot_chat"),
    ("claude_code_exec", "openai_chat", "claude_code_exec"),
    ("cursor_exec", "openai_chat", "cursor_exec"),
    ("copilot_exec", "openai_chat", "copilot_exec"),
    ("qwen_chat", "openai_chat", "qwen_chat"),
    ("minimax_chat", "openai_chat", "minimax_chat"),
    ("simulated", "simulated", "simulated"),
];

/// Other spellings of backends and labels.
const ALIASES: &[(&str, &str)] = &[
    ("azure", "azure_openai"),
    ("azure-openai", "azure_openai"),
    ("openai", "codex"),
    ("claude", "claude_chat"),
    ("anthropic", "claude_chat"),
    ("cursor", "cursor_exec"),
    ("cursor_agent", "cursor_exec"),
    ("copilot", "copilot_chat"),
    ("copilot_cli", "copilot_chat"),
    ("github_copilot", "copilot_chat"),
    ("qwen", "qwen_chat"),
    ("minimax", "minimax_chat"),
    ("openai-compatible", "openai_compatible"),
    ("openai_compatible_chat", "openai_compatible"),
    ("compat", "openai_compatible"),
    ("sim", "simulated"),
];

/// A backend name that means nothing (D34), or not for this role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBackend {
    /// The name as it was understood.
    pub name: String,
    /// What is allowed.
    pub allowed: Vec<&'static str>,
    /// The name that was probably meant.
    pub nearest: Option<&'static str>,
    /// The role that cannot have it; `None` for a label.
    pub role: Option<Role>,
}

impl std::fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.role {
            None => "backend".to_owned(),
            Some(role) => format!("{} backend", role.as_str()),
        };
        write!(
            f,
            "`{}` is no {what}; allowed: {}",
            self.name,
            self.allowed.join(", ")
        )
    }
}

impl std::error::Error for UnknownBackend {}

/// Trims, lower-cases and replaces other spellings; blank means `azure_openai`.
#[must_use]
pub fn normalize_label(label: &str) -> String {
    let label = label.trim().to_lowercase();
    if label.is_empty() {
        return "azure_openai".to_owned();
    }
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == label)
        .map_or(label, |(_, name)| (*name).to_owned())
}

/// A role's backend as it was set.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoleChoice<'a> {
    /// The value; `None` if there is none.
    pub value: Option<&'a str>,
    /// It was given on the command line, so that even a default value is meant.
    pub explicit: bool,
}

/// Works out the backends of both roles, optimizer first.
///
/// # Errors
/// The label or a role's backend is unknown, or cannot serve in that role.
pub fn resolve_role_backends(
    label: Option<&str>,
    optimizer: RoleChoice<'_>,
    target: RoleChoice<'_>,
) -> Result<(String, String), UnknownBackend> {
    let label = normalize_label(label.unwrap_or_default());
    let Some((_, for_optimizer, for_target)) = LABELS.iter().find(|(name, _, _)| *name == label)
    else {
        let allowed: Vec<&'static str> = LABELS.iter().map(|(name, _, _)| *name).collect();
        return Err(UnknownBackend {
            nearest: nearest_backend(&label, &allowed),
            name: label,
            allowed,
            role: None,
        });
    };
    Ok((
        resolve_role(Role::Optimizer, for_optimizer, optimizer)?,
        resolve_role(Role::Target, for_target, target)?,
    ))
}

fn resolve_role(
    role: Role,
    from_label: &str,
    choice: RoleChoice<'_>,
) -> Result<String, UnknownBackend> {
    let given = choice.value.unwrap_or_default().trim().to_lowercase();
    if given.is_empty() || (given == "openai_chat" && !choice.explicit) {
        return Ok(from_label.to_owned());
    }
    // The two labels that are no backends mean the backend they stand for.
    let name = match normalize_label(&given).as_str() {
        "azure_openai" => "openai_chat".to_owned(),
        "codex" => "codex_exec".to_owned(),
        name => name.to_owned(),
    };
    let allowed = match role {
        Role::Optimizer => OPTIMIZER_BACKENDS,
        Role::Target => TARGET_BACKENDS,
    };
    if allowed.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(UnknownBackend {
        nearest: nearest_backend(&name, allowed),
        name,
        allowed: allowed.to_vec(),
        role: Some(role),
    })
}

fn nearest_backend(name: &str, allowed: &[&'static str]) -> Option<&'static str> {
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    let found = nearest(name, allowed.iter().copied().chain(aliases))?;
    Some(
        ALIASES
            .iter()
            .find(|(alias, _)| *alias == found)
            .map_or(found, |(_, name)| *name),
    )
}

/// Returns the model to use in place of a shipped default that the backend does not know. `None`
/// keeps the name.
#[must_use]
pub fn default_model(role: Role, backend: &str) -> Option<&'static str> {
    match (backend, role) {
        ("claude_chat" | "claude_code_exec", _) => Some("claude-sonnet-4-6"),
        ("qwen_chat", _) => Some("Qwen/Qwen3.5-4B"),
        ("minimax_chat", _) => Some("MiniMax-M3"),
        ("cursor_exec", _) => Some("composer-2.5"),
        // Blank lets the program choose.
        ("copilot_exec", _) => Some(""),
        ("openai_compatible", _) => Some("gpt-4o-mini"),
        ("simulated", Role::Optimizer) => Some("sim-optimizer"),
        ("simulated", Role::Target) => Some("sim-target"),
        _ => None,
    }
}

/// Returns whether `model` is one of the names that the shipped files carry.
#[must_use]
pub fn is_shipped_model(model: &str) -> bool {
    matches!(model, "gpt-5.4" | "gpt-5.5")
}
