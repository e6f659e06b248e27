//! Chooses the implementation of each model backend: the only place that knows them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skillopt_backends::openai_compatible::{OpenAiCompatible, Settings};
use skillopt_backends::{CallError, ChatModel};
use skillopt_config::{Role, RunConfig};
use skillopt_core::job::Profile;
use skillopt_sim::{Simulated, SimulatedModel};
use skillopt_worker::{ModelFactory, Unusable};

/// Backends that can be called; the others are known by name only.
pub(crate) const AVAILABLE: &[&str] = &["openai_compatible", "simulated"];

/// Makes clients with the credentials of `config`, which never leave this process.
pub(crate) fn factory(config: &RunConfig) -> ModelFactory {
    let backends = config.backends.clone();
    // Both roles talk to one simulated model, so that its statistics and attempts are one.
    let simulated: Mutex<HashMap<String, Arc<SimulatedModel>>> = Mutex::default();
    Arc::new(
        move |profile: &Profile| -> Result<Arc<dyn ChatModel>, Unusable> {
            match profile.backend.as_str() {
                "openai_compatible" => {
                    let role = if profile.role == "optimizer" {
                        Role::Optimizer
                    } else {
                        Role::Target
                    };
                    let server = backends.openai_compatible(role);
                    let client = OpenAiCompatible::new(&Settings {
                        base_url: server.base_url,
                        api_key: Some(server.api_key.expose().to_owned()),
                        temperature: server.temperature,
                        max_tokens: server.max_tokens,
                    })?;
                    Ok(Arc::new(client))
                }
                "simulated" => {
                    let settings = serde_json::Value::from(profile.settings.clone());
                    let mut models = simulated.lock().unwrap_or_else(PoisonError::into_inner);
                    let model = match models.entry(settings.to_string()) {
                        std::collections::hash_map::Entry::Occupied(known) => {
                            Arc::clone(known.get())
                        }
                        std::collections::hash_map::Entry::Vacant(new) => {
                            let read = simulated_settings(&profile.settings)
                                .map_err(|e| unusable(profile, e.to_string()))?;
                            Arc::clone(new.insert(Arc::new(SimulatedModel::new(read))))
                        }
                    };
                    Ok(Arc::new(Simulated::new(model)))
                }
                other => Err(Unusable::from(unusable(
                    profile,
                    format!(
                        "backend `{other}` cannot be called by this release; available: {}",
                        AVAILABLE.join(", ")
                    ),
                ))),
            }
        },
    )
}

/// Reads the settings of the simulated model; a configuration may write `_` for `-`.
///
/// # Errors
/// The first setting that cannot be made.
pub(crate) fn simulated_settings(
    settings: &serde_json::Map<String, serde_json::Value>,
) -> Result<skillopt_sim::Settings, skillopt_sim::SettingError> {
    let spelled: serde_json::Map<_, _> = settings
        .iter()
        .map(|(name, value)| (name.replace('_', "-"), value.clone()))
        .collect();
    skillopt_sim::Settings::default().with_json(&spelled.into())
}

fn unusable(profile: &Profile, detail: String) -> CallError {
    CallError::Misconfigured {
        endpoint: format!("{} model", profile.role),
        status: 0,
        detail,
    }
}
