//! The models of a worker that takes jobs of many runs.
//!
//! A job says which server it wants; which key goes where is this worker's own business. A key is
//! sent to the very address that it was configured for, and to no other.

use std::sync::Arc;

use skillopt_backends::openai_compatible::{OpenAiCompatible, Settings};
use skillopt_backends::{CallError, ChatModel};
use skillopt_config::{BackendSettings, EnvLookup, Role, Secret};
use skillopt_core::job::Profile;
use skillopt_worker::ModelFactory;

use super::endpoint::{Pattern, is_loopback, normal};
use super::{Simulations, unknown};
use crate::failure::Failure;

/// The servers that this worker has keys for, or was told of.
struct Known {
    role: Role,
    address: String,
    key: Secret,
}

/// Makes clients with the credentials of the environment, which never leave this process. Servers
/// that need no key are called if their address matches one of `allowed`, or is this machine's.
///
/// # Errors
/// A variable of the environment is no setting.
pub(crate) fn cluster_factory(
    env: EnvLookup<'_>,
    allowed: Vec<Pattern>,
) -> Result<ModelFactory, Failure> {
    let settings = BackendSettings::from_env(env).map_err(Failure::from)?;
    let known: Vec<Known> = [Role::Target, Role::Optimizer]
        .into_iter()
        .filter_map(|role| known(&settings, role))
        .collect();
    let simulations = Simulations::default();
    Ok(Arc::new(move |profile: &Profile| {
        match profile.backend.as_str() {
            "openai_compatible" => Ok(client(profile, &known, &allowed)?),
            "simulated" => Ok(simulations.model(profile)?),
            _ => Err(unknown(profile).into()),
        }
    }))
}

/// Returns the server of a role, unless nothing is said of one.
fn known(settings: &BackendSettings, role: Role) -> Option<Known> {
    let is_named = settings.get(role, "openai_compatible_base_url").is_some();
    let server = settings.openai_compatible(role);
    (is_named || !server.api_key.is_empty()).then(|| Known {
        role,
        address: normal(&server.base_url),
        key: server.api_key,
    })
}

fn client(
    profile: &Profile,
    known: &[Known],
    allowed: &[Pattern],
) -> Result<Arc<dyn ChatModel>, CallError> {
    let key = key(profile, known, allowed)?;
    let limit = profile.max_tokens;
    Ok(Arc::new(OpenAiCompatible::new(&Settings {
        base_url: profile.endpoint.clone(),
        api_key: Some(key.expose().to_owned()),
        temperature: profile.temperature,
        max_tokens: if limit == 0 { u32::MAX } else { limit },
    })?))
}

/// Returns the key for the server that a profile names, empty if it needs none.
fn key(profile: &Profile, known: &[Known], allowed: &[Pattern]) -> Result<Secret, CallError> {
    let wanted = normal(&profile.endpoint);
    let is_own_role = |server: &&Known| server.role.as_str() == profile.role;
    let mut fitting: Vec<&Known> = known.iter().filter(|s| s.address == wanted).collect();
    fitting.sort_by_key(|server| !is_own_role(server));
    if let Some(server) = fitting.first() {
        return Ok(server.key.clone());
    }
    if is_loopback(&wanted) || allowed.iter().any(|pattern| pattern.matches(&wanted)) {
        return Ok(Secret::default());
    }
    Err(CallError::Misconfigured {
        endpoint: profile.endpoint.clone(),
        status: 0,
        detail: "this worker has no credential for it; start the worker with \
            OPENAI_COMPATIBLE_BASE_URL and OPENAI_COMPATIBLE_API_KEY, or with --allow-endpoint if \
            it needs no key"
            .to_owned(),
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
        let known: Vec<Known> = [Role::Target, Role::Optimizer]
            .into_iter()
            .filter_map(|role| known(&settings, role))
            .collect();
        let allowed = ["http://gpu-*:8000".parse().unwrap()];
        key(&profile(role, endpoint), &known, &allowed)
            .map(|key| key.expose().to_owned())
            .map_err(|e| e.to_string())
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
    fn a_refusal_names_the_server_and_what_helps_and_no_key() {
        let vars = [("OPENAI_COMPATIBLE_API_KEY", "key-o")];
        let refusal = sent(&vars, "target", "https://b.example/v1").unwrap_err();
        assert!(refusal.contains("https://b.example/v1"), "{refusal}");
        assert!(refusal.contains("no credential"), "{refusal}");
        assert!(!refusal.contains("key-o"), "{refusal}");
    }
}
