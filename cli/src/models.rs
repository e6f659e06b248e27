//! Chooses the implementation of each model backend: the only place that knows them all.

mod agents;
mod cluster;
mod credentials;
mod endpoint;
mod guarded;
mod offer;
mod tape;
mod way_out;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skillopt_agents::Agent;
use skillopt_agents::installed::Installed;
use skillopt_backends::declare::{Declaration, Local, Options, Work};
use skillopt_backends::http::Transport;
use skillopt_backends::{CallError, ChatModel, Http, registry};
use skillopt_config::{BackendSettings, Role, RunConfig, is_secret_name};
use skillopt_core::job::Profile;
use skillopt_sim::{Simulated, SimulatedModel};
use skillopt_worker::ModelFactory;

pub(crate) use agents::{policy as sandbox_policy, remark as sandbox_remark};
pub(crate) use cluster::Cluster;
pub(crate) use endpoint::Pattern;
pub(crate) use offer::Offer;
pub(crate) use tape::Tape;

use agents::Agents;
use credentials::Credentials;
use guarded::{Guarded, Linked};

/// Returns the backends that can be called in a role; the others are known by name only.
pub(crate) fn available(role: Role) -> Vec<&'static str> {
    let serves = |backend: &&Declaration| match (role, backend.target) {
        (Role::Optimizer, _) => backend.optimizer && backend.connect.is_some(),
        (Role::Target, Some(Work::Agent)) => Agent::is_known(backend.name),
        (Role::Target, Some(Work::Chat)) => backend.connect.is_some(),
        (Role::Target, None) => false,
    };
    let serving = registry::BACKENDS.iter().filter(serves);
    serving
        .map(|backend| backend.name)
        .chain(["simulated"])
        .collect()
}

/// Returns the backends that can be called in some role.
pub(crate) fn available_in_any() -> Vec<&'static str> {
    let mut names = available(Role::Target);
    for name in available(Role::Optimizer) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What clients are made with, and all of a process share.
#[derive(Clone)]
pub(crate) struct Means {
    http: Arc<Http>,
    agents: Arc<Agents>,
    /// Whether the server may be called, but is not one that this process has a credential for.
    is_bare: bool,
}

impl Means {
    fn new(http: Arc<Http>) -> Arc<Self> {
        Arc::new(Self {
            http,
            agents: Arc::default(),
            is_bare: false,
        })
    }

    /// The same without credentials of the environment.
    fn bare(&self) -> Arc<Self> {
        Arc::new(Self {
            is_bare: true,
            ..self.clone()
        })
    }
}

/// Makes clients with the credentials of `config`, which never leave this process.
pub(crate) fn factory(config: &RunConfig, tape: &Tape) -> ModelFactory {
    factory_over(&http(), config, tape)
}

/// Makes a client of the network as the environment says; opens no connection.
pub(crate) fn http() -> Arc<Http> {
    Http::with(Transport::from_env(&|name| std::env::var(name).ok()))
}

/// The same as [`factory`], over a client of the network that the caller keeps.
pub(crate) fn factory_over(http: &Arc<Http>, config: &RunConfig, tape: &Tape) -> ModelFactory {
    let backends = Arc::new(config.backends.clone());
    let simulations = Simulations::default();
    let means = Means::new(Arc::clone(http));
    let tape = tape.clone();
    Arc::new(move |profile: &Profile| {
        let backend = &profile.backend;
        if let Some(replayed) = tape.in_place_of(backend) {
            return Ok(replayed);
        }
        if profile.backend == "simulated" {
            let simulated = simulations.model(profile)?;
            return Ok(tape.beside(backend, simulated, Box::new(str::to_owned)));
        }
        let client = connect(profile, &backends, role_of(profile), &means)?;
        let guard = Arc::clone(&client);
        let scrub = move |text: &str| guard.scrubbed(text);
        Ok(tape.beside(backend, client, Box::new(scrub)))
    })
}

/// Refuses what no call can be made with (no address, no key), before anything is spent.
///
/// # Errors
/// The first role whose client cannot be made.
pub(crate) fn try_connect(config: &RunConfig, roles: &[Role]) -> Result<(), CallError> {
    let backends = Arc::new(config.backends.clone());
    let means = Means::new(Http::new());
    for role in roles {
        let profile = skillopt_coordinator::prepare::profile(config, *role);
        if profile.backend != "simulated" {
            connect(&profile, &backends, *role, &means)?;
        }
        is_of_its_release(&profile, &backends, *role, &means)?;
    }
    Ok(())
}

/// Refuses an agent whose program says that it is of another release than the run wants: before the run,
/// not at its first task.
fn is_of_its_release(
    profile: &Profile,
    settings: &BackendSettings,
    role: Role,
    means: &Means,
) -> Result<(), CallError> {
    if !Agents::is_for(profile) {
        return Ok(());
    }
    let option = |key: &str| settings.get(role, key).cloned();
    let path = std::env::var("PATH").unwrap_or_default();
    let told = |found: &Installed| means.agents.told(found);
    let found = Agent::is_installed(profile, Options(&option), &path, told);
    found.map_err(|why| CallError::Misconfigured {
        endpoint: profile.backend.clone(),
        status: 0,
        detail: why.to_string(),
    })
}

/// Returns whether the target is an agent.
pub(crate) fn has_agent(config: &RunConfig) -> bool {
    Agent::is_known(&config.target_backend)
}

/// Refuses a target that is an agent with settings that no agent can have, for a run that is given to
/// other machines: what they have installed, and which keys, is not known here.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn check_agent(config: &RunConfig) -> Result<(), CallError> {
    let profile = skillopt_coordinator::prepare::profile(config, Role::Target);
    match Agents::is_for(&profile) {
        true => Agent::check(&profile),
        false => Ok(()),
    }
}

/// Returns what is to be said of the target's release if it was not tried.
pub(crate) fn doubt(config: &RunConfig) -> Option<String> {
    Agent::doubt(&skillopt_coordinator::prepare::profile(
        config,
        Role::Target,
    ))
}

/// Refuses a target that is an agent if its program, on this machine, says that it is of another release.
///
/// # Errors
/// What it is, and what to do.
pub(crate) fn check_release(config: &RunConfig) -> Result<(), CallError> {
    let profile = skillopt_coordinator::prepare::profile(config, Role::Target);
    let means = Means::new(Http::new());
    is_of_its_release(&profile, &config.backends, Role::Target, &means)
}

/// Returns the role that a profile is for.
fn role_of(profile: &Profile) -> Role {
    match profile.role.as_str() {
        "optimizer" => Role::Optimizer,
        _ => Role::Target,
    }
}

/// Makes a client with the settings and credentials that `settings` have for `role`.
fn connect(
    profile: &Profile,
    settings: &Arc<BackendSettings>,
    role: Role,
    means: &Arc<Means>,
) -> Result<Arc<Guarded>, CallError> {
    let (profile, settings, means) = (profile.clone(), Arc::clone(settings), Arc::clone(means));
    let make = move || link(&profile, &settings, role, &means);
    Ok(Arc::new(Guarded::new(Box::new(make))?))
}

/// Makes a client with the credentials as they are now.
fn link(
    profile: &Profile,
    settings: &BackendSettings,
    role: Role,
    means: &Means,
) -> Result<Linked, CallError> {
    let credentials = Credentials::new(settings, role);
    let option = |key: &str| match means.is_bare {
        // Where a program lies is this machine's business, whatever server it asks.
        true if !key.ends_with("_exec_path") => None,
        _ => settings.get(role, key).cloned(),
    };
    let local = Local {
        options: Options(&option),
        secret: &|key| match means.is_bare {
            true => None,
            false => credentials.secret(key),
        },
        env: &|name| match means.is_bare {
            // A server that is called without a key gets none that lies around, either.
            true if is_secret_name(name) => None,
            _ => credentials.env(name),
        },
        http: &means.http,
    };
    let client = if Agents::is_for(profile) {
        means.agents.model(profile, &local)
    } else {
        registry::connect(profile, &local)
    };
    // A credential that could not be had is the cause of whatever else is wrong.
    let given = credentials.given(&format!("{} model", profile.role))?;
    Ok(Linked {
        client: client?,
        secrets: given.secrets,
        may_change: given.may_change,
    })
}

/// Most simulated models that are kept; without one, its statistics begin anew.
const SIMULATIONS_MAX: usize = 64;

/// The simulated models by their settings. Both roles of a run talk to one, so that its statistics
/// and attempts are one.
#[derive(Default)]
struct Simulations(Mutex<HashMap<String, Arc<SimulatedModel>>>);

impl Simulations {
    fn model(&self, profile: &Profile) -> Result<Arc<dyn ChatModel>, CallError> {
        let settings = serde_json::Value::from(profile.settings.clone()).to_string();
        let mut models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = models.get(&settings) {
            return Ok(Arc::new(Simulated::new(Arc::clone(known))));
        }
        let read =
            simulated_settings(&profile.settings).map_err(|e| unusable(profile, e.to_string()))?;
        if models.len() >= SIMULATIONS_MAX {
            models.clear();
        }
        let new = Arc::new(SimulatedModel::new(read));
        models.insert(settings, Arc::clone(&new));
        Ok(Arc::new(Simulated::new(new)))
    }
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
