//! Which backends a run asks, as far as it is known where a failure is told.

use serde_json::{Map, Value};
use skillopt_backends::declare::{Declaration, Work};
use skillopt_backends::registry;
use skillopt_config::{Role, RunConfig};
use skillopt_coordinator::prepare::profile;
use skillopt_core::job::Profile;

/// The backend of each role whose address and credential its calls take.
#[derive(Clone, Copy, Default)]
pub(crate) struct Roles {
    target: Option<&'static Declaration>,
    optimizer: Option<&'static Declaration>,
}

impl Roles {
    /// Returns those of a configuration.
    pub(crate) fn of(config: &RunConfig) -> Self {
        let of = |role| provider_of(&profile(config, role));
        Self {
            target: of(Role::Target),
            optimizer: of(Role::Optimizer),
        }
    }

    /// Returns those that the facts of a run tell of.
    pub(crate) fn of_facts(facts: &Map<String, Value>) -> Self {
        let named = |key: &str| facts.get(key).and_then(Value::as_str);
        let chat = |backend: &&Declaration| backend.target != Some(Work::Agent);
        let target = named("target_backend").and_then(registry::find);
        // An agent asks another backend; which one it does by itself, the facts do not tell.
        let provider = || named("agent_provider").and_then(registry::find);
        Self {
            target: target.filter(chat).or_else(provider),
            optimizer: named("optimizer_backend").and_then(registry::find),
        }
    }

    /// Returns whom a call asked that is told of in `cause`.
    pub(super) fn asked(&self, cause: &str) -> Option<&'static Declaration> {
        // As `Job::label` names jobs.
        if cause.contains("rollout of item `") {
            return self.target;
        }
        if cause.contains("` call: ") {
            return self.optimizer;
        }
        let (target, optimizer) = (self.target?, self.optimizer?);
        (target.name == optimizer.name).then_some(target)
    }
}

/// Returns the backend whose address and credential the calls of a profile take: of an agent its
/// provider, if it has one.
pub(super) fn provider_of(profile: &Profile) -> Option<&'static Declaration> {
    let provider = profile.settings.get("provider").and_then(Value::as_str);
    registry::find(provider.unwrap_or(&profile.backend))
}
