//! The model behind an agent: the one that its relay will ask.

use serde_json::Value;
use skillopt_config::{Role, RunConfig};
use skillopt_core::job::Profile;

/// Says why the model of an agent is not asked.
pub(super) const NO_PROVIDER: &str =
    "not asked: the agent asks its vendor's servers by itself, which only its program can do";
/// The same where nobody has named the model.
pub(super) const NO_MODEL: &str =
    "not asked: no model is named, so that the agent's program chooses one";

/// Returns how the provider of an agent's profile is asked without the agent.
///
/// # Errors
/// Why it cannot be, in words.
pub(super) fn of_agent(config: &RunConfig, agent: &Profile) -> Result<Profile, &'static str> {
    let provider = agent.settings.get("provider").and_then(Value::as_str);
    let provider = provider.ok_or(NO_PROVIDER)?;
    if agent.model.is_empty() {
        return Err(NO_MODEL);
    }
    let mut profile = Profile::bare(&agent.role, provider, &agent.model);
    config.backends.describe(Role::Target, &mut profile);
    profile.endpoint.clone_from(&agent.endpoint);
    if agent.backend == "codex_exec" && provider == "openai_chat" {
        // Its program speaks nothing else, and the relay translates for other providers only.
        let interface = ("azure_openai_interface".to_owned(), "responses".into());
        profile.settings.extend([interface]);
    }
    Ok(profile)
}
