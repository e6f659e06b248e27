//! The models of a worker that takes jobs of many runs.
//!
//! A job says which server it wants; which key goes where is this worker's own business. A key is
//! sent to the very address that it was configured for, and to no other.

use std::sync::Arc;

use skillopt_agents::Agent;
use skillopt_agents::installed::Installed;
use skillopt_backends::declare::Options;
use skillopt_backends::http::Transport;
use skillopt_backends::{CallError, ChatModel, Http};
use skillopt_config::{BackendSettings, EnvLookup, Role};
use skillopt_core::job::Profile;
use skillopt_worker::{ModelFactory, Unusable};

use super::agents::Agents;
use super::endpoint::{Pattern, is_loopback, normal};
use super::offer::Offer;
use super::{Means, Simulations, connect, role_of};
use crate::failure::Failure;

/// Makes clients with the credentials of the environment, which never leave this process.
pub(crate) struct Cluster {
    settings: Arc<BackendSettings>,
    allowed: Vec<Pattern>,
    means: Arc<Means>,
    path: String,
}

impl Cluster {
    /// Reads the environment. Servers that need no key are called if their address matches one of
    /// `allowed`, or is this machine's.
    ///
    /// # Errors
    /// A variable of the environment is no setting.
    pub(crate) fn new(env: EnvLookup<'_>, allowed: Vec<Pattern>) -> Result<Self, Failure> {
        Ok(Self {
            settings: Arc::new(BackendSettings::from_env(env).map_err(Failure::from)?),
            allowed,
            means: Means::new(Http::with(Transport::from_env(env))),
            path: env("PATH").unwrap_or_default(),
        })
    }

    /// Finds out which agents can be run here; tries the sandbox out.
    pub(crate) fn offer(&self) -> Offer {
        let told = |found: &Installed| self.means.agents.told(found);
        Offer::of(&self.settings, &self.path, self.means.agents.host(), &told)
    }

    /// Returns what makes the clients.
    pub(crate) fn factory(self) -> ModelFactory {
        let simulations = Simulations::default();
        Arc::new(move |profile: &Profile| {
            if profile.backend == "simulated" {
                return Ok(simulations.model(profile)?);
            }
            self.is_had_here(profile)?;
            self.client(profile)
        })
    }

    /// Leaves an agent to others for which this machine lacks the program or a sandbox.
    fn is_had_here(&self, profile: &Profile) -> Result<(), Unusable> {
        if !Agents::is_for(profile) {
            return Ok(());
        }
        let option = |key: &str| self.settings.get(role_of(profile), key).cloned();
        let lacks = |detail: String| Unusable::Elsewhere {
            endpoint: Agent::name(profile),
            error: Box::new(CallError::Misconfigured {
                endpoint: profile.backend.clone(),
                status: 0,
                detail,
            }),
        };
        let found = Agent::is_installed(profile, Options(&option), &self.path, |found| {
            // Asked when the worker started: what came since is found by its first task.
            self.means.agents.has_told(found)
        });
        found.map_err(|why| lacks(why.to_string()))?;
        let host = self.means.agents.host();
        host.map(|_| ()).map_err(|why| lacks(why.clone()))
    }

    fn client(&self, profile: &Profile) -> Result<Arc<dyn ChatModel>, Unusable> {
        let (settings, means) = (&self.settings, &self.means);
        let known = role_that_knows(profile, settings, &self.allowed);
        let known = known.map_err(|error| Unusable::Elsewhere {
            endpoint: profile.endpoint.clone(),
            error: Box::new(error),
        })?;
        match known {
            Some(role) => Ok(connect(profile, settings, role, means)?),
            None => Ok(connect(profile, settings, role_of(profile), &means.bare())?),
        }
    }
}

/// Returns the backend whose address and credential a profile's calls take: an agent's are those of
/// its provider.
fn provider(profile: &Profile) -> &str {
    let provider = profile.settings.get("provider");
    let provider = provider.and_then(serde_json::Value::as_str);
    provider
        .filter(|_| Agent::is_known(&profile.backend))
        .unwrap_or(&profile.backend)
}

/// Returns the role whose credentials are for the server that a profile names: its own first.
/// `None` if the server may be called without any.
fn role_that_knows(
    profile: &Profile,
    settings: &BackendSettings,
    allowed: &[Pattern],
) -> Result<Option<Role>, CallError> {
    let own = role_of(profile);
    let other = match own {
        Role::Target => Role::Optimizer,
        Role::Optimizer => Role::Target,
    };
    // A program on this machine has no address: what it may do is this machine's business.
    if profile.endpoint.is_empty() {
        return Ok(Some(own));
    }
    let wanted = normal(&profile.endpoint);
    let knows = |role: &Role| {
        let mut known = profile.clone();
        provider(profile).clone_into(&mut known.backend);
        settings.describe(*role, &mut known);
        settings.names_any(*role, provider(profile)) && normal(&known.endpoint) == wanted
    };
    if let Some(role) = [own, other].into_iter().find(knows) {
        return Ok(Some(role));
    }
    if is_loopback(&wanted) || allowed.iter().any(|pattern| pattern.matches(&wanted)) {
        return Ok(None);
    }
    let backend = provider(profile).to_uppercase();
    Err(CallError::Misconfigured {
        endpoint: profile.endpoint.clone(),
        status: 0,
        detail: format!(
            "this worker has no credential for it; start the worker with the address and the key \
             of `{}` in its environment ({backend}_BASE_URL, {backend}_API_KEY or the like; \
             docs/configuration.md), or with --allow-endpoint if it needs no key",
            profile.backend
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(role: &str, endpoint: &str) -> Profile {
        Profile {
            role: role.to_owned(),
            backend: "openai_compatible".to_owned(),
            model: "m".to_owned(),
            endpoint: endpoint.to_owned(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: serde_json::Map::new(),
        }
    }

    /// Which key a worker with these variables sends.
    fn sent(vars: &[(&str, &str)], role: &str, endpoint: &str) -> Result<String, String> {
        let env = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let settings = BackendSettings::from_env(&env).unwrap();
        let allowed = ["http://gpu-*:8000".parse().unwrap()];
        let role = role_that_knows(&profile(role, endpoint), &settings, &allowed);
        let role = role.map_err(|e| e.to_string())?;
        let key = role.and_then(|role| settings.secret(role, "openai_compatible_api_key"));
        Ok(key.map_or_else(String::new, |key| key.expose().to_owned()))
    }

    #[test]
    fn a_key_goes_to_its_own_server_and_to_no_other() {
        let one = [
            ("OPENAI_COMPATIBLE_BASE_URL", "https://a.example/v1/"),
            ("OPENAI_COMPATIBLE_API_KEY", "key-a"),
            (
                "OPTIMIZER_OPENAI_COMPATIBLE_BASE_URL",
                "https://b.example/v1",
            ),
            ("OPTIMIZER_OPENAI_COMPATIBLE_API_KEY", "key-b"),
        ];
        let default = [("OPENAI_COMPATIBLE_API_KEY", "key-o")];
        for (vars, role, endpoint, want) in [
            (&one[..], "target", "https://a.example/v1", Some("key-a")),
            (
                &one[..],
                "optimizer",
                "https://A.example/v1/",
                Some("key-a"),
            ),
            (&one[..], "target", "https://b.example/v1", Some("key-b")),
            (&one[..], "target", "https://b.example/v2", None),
            (&one[..], "target", "http://a.example/v1", None),
            (&one[..], "target", "https://a.example:444/v1", None),
            (
                &one[..],
                "target",
                "https://a.example/v1@evil.example",
                None,
            ),
            (&one[..], "target", "http://127.0.0.1:9/v1", Some("")),
            (
                &one[..],
                "target",
                "http://127.0.0.1:9@evil.example/v1",
                None,
            ),
            (&one[..], "target", "http://gpu-7:8000/v1", Some("")),
            (&one[..], "target", "http://gpu-7.evil/x:8000/v1", None),
            (
                &default[..],
                "target",
                "https://api.openai.com/v1",
                Some("key-o"),
            ),
            (&[], "target", "https://api.openai.com/v1", None),
        ] {
            let sent = sent(vars, role, endpoint);
            assert_eq!(sent.as_deref().ok(), want, "{role} at {endpoint}: {sent:?}");
        }
    }

    #[test]
    fn a_job_for_an_agent_that_is_not_installed_is_for_others() {
        let cluster = Cluster::new(&|_| None, Vec::new()).unwrap();
        let factory = cluster.factory();
        let agent = Profile {
            backend: "codex_exec".to_owned(),
            ..profile("target", "http://127.0.0.1:9/v1")
        };
        match factory(&agent).err() {
            Some(Unusable::Elsewhere { endpoint, .. }) => assert_eq!(endpoint, "codex_exec"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refusal_names_the_server_and_what_helps_and_no_key() {
        let vars = [("OPENAI_COMPATIBLE_API_KEY", "key-o")];
        let refusal = sent(&vars, "target", "https://b.example/v1").unwrap_err();
        assert!(refusal.contains("https://b.example/v1"), "{refusal}");
        assert!(refusal.contains("no credential"), "{refusal}");
        assert!(!refusal.contains("key-o"), "{refusal}");
    }
}
