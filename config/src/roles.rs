//! Which backend and which model serves each role (training spec 7.6, backends spec 1.1–1.5).

use skillopt_backends::registry::{self, BACKENDS};

use crate::suggest::nearest;

pub use skillopt_core::role::Role;

/// Returns the backends that can serve in a role.
#[must_use]
pub fn backends_of(role: Role) -> Vec<&'static str> {
    let serving = BACKENDS.iter().filter(|backend| match role {
        Role::Optimizer => backend.optimizer,
        Role::Target => backend.target.is_some(),
    });
    serving.map(|backend| backend.name).collect()
}

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
    registry::labels()
        .find(|known| known.aliases.contains(&label.as_str()))
        .map_or(label, |known| known.name.to_owned())
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
    let Some(known) = registry::labels().find(|known| known.name == label) else {
        let allowed: Vec<&'static str> = registry::labels().map(|known| known.name).collect();
        return Err(UnknownBackend {
            nearest: nearest_backend(&label, &allowed),
            name: label,
            allowed,
            role: None,
        });
    };
    Ok((
        resolve_role(Role::Optimizer, known.optimizer, optimizer)?,
        resolve_role(Role::Target, known.target, target)?,
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
    let allowed = backends_of(role);
    if allowed.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(UnknownBackend {
        nearest: nearest_backend(&name, &allowed),
        name,
        allowed,
        role: Some(role),
    })
}

fn nearest_backend(name: &str, allowed: &[&'static str]) -> Option<&'static str> {
    let aliases = registry::labels().flat_map(|label| label.aliases.iter().copied());
    let found = nearest(name, allowed.iter().copied().chain(aliases))?;
    let meant = registry::labels().find(|label| label.aliases.contains(&found));
    Some(meant.map_or(found, |label| label.name))
}

/// Returns the model to use in place of a shipped default that the backend does not know. `None`
/// keeps the name.
#[must_use]
pub fn default_model(role: Role, backend: &str) -> Option<&'static str> {
    (registry::find(backend)?.default_model)(role)
}

/// Returns whether `model` is one of the names that the shipped files carry.
#[must_use]
pub fn is_shipped_model(model: &str) -> bool {
    matches!(model, "gpt-5.4" | "gpt-5.5")
}
