//! Settings of single backends.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use skillopt_backends::declare::Options;
use skillopt_backends::registry;
use skillopt_core::job::Profile;

use crate::address;
use crate::backend_keys::BackendKey;
use crate::cast::cast;
use crate::key::Kind;
use crate::node::{Data, Mapping, Node, Origin};
use crate::problem::{Errors, Problem};
use crate::roles::Role;
use crate::setting::{check, number, scalar_text};
use skillopt_core::secret::{REDACTED, Secret};

/// Looks a variable of the environment up.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Addresses, credentials and programs of the backends, by flat key name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackendSettings {
    configured: BTreeMap<String, Json>,
    from_env: BTreeMap<String, Json>,
    secrets: BTreeMap<String, Secret>,
    secrets_from_env: BTreeMap<String, Secret>,
}

/// [`BackendSettings`] as they travel: of credentials the names, and where the configuration says
/// that they stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SettingsWire {
    configured: BTreeMap<String, Json>,
    from_env: BTreeMap<String, Json>,
    secrets: BTreeSet<String>,
    secrets_from_env: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    references: BTreeMap<String, String>,
}

impl BackendSettings {
    /// Takes the backend keys out of the flat mapping and the environment.
    pub(crate) fn read(
        known: &Mapping,
        env: EnvLookup<'_>,
        problems: &mut Vec<Problem>,
        origins: &mut BTreeMap<String, Origin>,
    ) -> Self {
        let mut settings = Self::default();
        for key in crate::backend_keys::backend_keys() {
            for name in key.names() {
                if let Some(node) = known.get(&name).filter(|node| !node.is_blank()) {
                    origins.insert(name.clone(), node.origin.clone());
                    let path = format!("model.{name}");
                    settings.take(key, &name, &path, node, false, problems);
                }
                let variable = name.to_uppercase();
                if let Some(text) = env(&variable).filter(|text| !text.trim().is_empty()) {
                    let origin = Origin::Env(variable.as_str().into());
                    let node = Node {
                        data: cast(&text),
                        raw: Some(text),
                        origin: origin.clone(),
                    };
                    origins.entry(name.clone()).or_insert(origin);
                    settings.take(key, &name, &variable, &node, true, problems);
                }
            }
        }
        settings
    }

    /// Takes what the environment alone says, for a process that has no configuration of its own.
    ///
    /// # Errors
    /// A variable has a value that its setting does not take.
    pub fn from_env(env: EnvLookup<'_>) -> Result<Self, Errors> {
        let mut problems = Vec::new();
        let mut origins = BTreeMap::new();
        let settings = Self::read(&Mapping::default(), env, &mut problems, &mut origins);
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(Errors(problems))
        }
    }

    fn take(
        &mut self,
        key: &BackendKey,
        name: &str,
        shown: &str,
        node: &Node,
        env: bool,
        problems: &mut Vec<Problem>,
    ) {
        if let Err((reason, near)) = check(&key.kind, node) {
            let mut problem = Problem::new(shown, node, reason);
            problem.allowed = Some(key.kind.allowed());
            problem.nearest = near;
            problems.push(problem);
            return;
        }
        let text = scalar_text(node).unwrap_or_default();
        if key.kind == Kind::Secret {
            let secrets = if env {
                &mut self.secrets_from_env
            } else {
                &mut self.secrets
            };
            let secret = Secret::new(text);
            if let Some(fault) = secret.reference().and_then(|place| place.fault()) {
                problems.push(Problem::at(shown, &node.origin, fault));
                return;
            }
            secrets.insert(name.to_owned(), secret);
            return;
        }
        let value = match (&key.kind, &node.data) {
            (Kind::Choice(words), _) => Json::from(canonical(words, &text)),
            (Kind::Int { .. }, Data::Int(n)) => Json::from(*n),
            (Kind::Float { .. }, _) => Json::from(number(node)),
            _ => Json::from(text),
        };
        let values = if env {
            &mut self.from_env
        } else {
            &mut self.configured
        };
        values.insert(name.to_owned(), value);
    }

    /// Keeps a credential that a benchmark has among its own keys.
    pub(crate) fn add_secret(&mut self, name: &str, secret: Secret) {
        self.secrets.insert(name.to_owned(), secret);
    }

    /// Returns a setting of a role: the role's own, then the shared one, each first from the
    /// configuration and then from the environment.
    #[must_use]
    pub fn get(&self, role: Role, base: &str) -> Option<&Json> {
        let own = format!("{}_{base}", role.as_str());
        [&self.configured, &self.from_env]
            .into_iter()
            .find_map(|values| values.get(&own).or_else(|| values.get(base)))
    }

    /// Returns a credential of a role, in the same order.
    #[must_use]
    pub fn secret(&self, role: Role, base: &str) -> Option<&Secret> {
        let own = format!("{}_{base}", role.as_str());
        [&self.secrets, &self.secrets_from_env]
            .into_iter()
            .find_map(|values| values.get(&own).or_else(|| values.get(base)))
    }

    /// Returns the limit of one exchange with the backend of a role, in seconds; `None` if the
    /// backend knows of none.
    #[must_use]
    pub fn timeout_seconds(&self, role: Role, backend: &str) -> Option<f64> {
        let backend = registry::find(backend)?;
        let mut names = backend.keys.iter().map(|key| key.base);
        let is_limit = |name: &&str| {
            let ends = ["_timeout_seconds", "_timeout"];
            ends.iter().any(|end| name.ends_with(end))
        };
        let own = names
            .find(is_limit)
            .and_then(|name| self.get(role, name)?.as_f64());
        own.or(backend.timeout_seconds)
    }

    /// Returns the address that is set for the backend of a role, with the key that holds it.
    pub(crate) fn address(&self, role: Role, backend: &str) -> Option<(&'static str, String)> {
        let mut keys = registry::find(backend)?.keys.iter().map(|key| key.base);
        let is_address = |key: &&str| key.ends_with("_base_url") || key.ends_with("_endpoint");
        let key = keys.find(is_address)?;
        let address = self.get(role, key)?.as_str()?.trim();
        Some((key, address.trim_end_matches('/').to_owned()))
    }

    /// Returns whether anything is set for the backend of a role.
    #[must_use]
    pub fn names_any(&self, role: Role, backend: &str) -> bool {
        let keys = registry::find(backend).map_or(&[][..], |backend| backend.keys);
        keys.iter()
            .any(|key| self.get(role, key.base).is_some() || self.secret(role, key.base).is_some())
    }

    /// Fills in what of the settings of a profile's backend may change its answers.
    pub fn describe(&self, role: Role, profile: &mut Profile) {
        if let Some(backend) = registry::find(&profile.backend) {
            let get = |key: &str| self.get(role, key).cloned();
            (backend.describe)(Options(&get), profile);
        }
    }

    /// Leaves the credentials out.
    pub(crate) fn to_wire(&self) -> SettingsWire {
        let clean = |values: &BTreeMap<String, Json>| -> BTreeMap<String, Json> {
            let clean = |value: &Json| match value {
                Json::String(text) => Json::from(address::without_credentials(text)),
                other => other.clone(),
            };
            let pairs = values.iter();
            pairs.map(|(name, v)| (name.clone(), clean(v))).collect()
        };
        SettingsWire {
            configured: clean(&self.configured),
            from_env: clean(&self.from_env),
            secrets: self.secrets.keys().cloned().collect(),
            secrets_from_env: self.secrets_from_env.keys().cloned().collect(),
            references: self
                .secrets
                .iter()
                .filter_map(|(name, secret)| Some((name.clone(), secret.reference()?.to_string())))
                .collect(),
        }
    }

    /// Reads what travelled; each credential that is no reference is [`REDACTED`].
    pub(crate) fn from_wire(wire: &SettingsWire) -> Self {
        let place = |name: &String| wire.references.get(name).map_or(REDACTED, String::as_str);
        let own = wire.secrets.iter();
        let from_env = wire.secrets_from_env.iter();
        Self {
            configured: wire.configured.clone(),
            from_env: wire.from_env.clone(),
            secrets: own.map(|n| (n.clone(), Secret::new(place(n)))).collect(),
            secrets_from_env: from_env
                .map(|n| (n.clone(), Secret::new(REDACTED)))
                .collect(),
        }
    }

    /// Returns what is set, credentials as [`REDACTED`] or as the place where they stand, and
    /// addresses without any.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Json> {
        let mut all: BTreeMap<&str, Json> = BTreeMap::new();
        for (name, value) in self.from_env.iter().chain(&self.configured) {
            let value = match value {
                Json::String(text) => Json::from(address::without_credentials(text)),
                other => other.clone(),
            };
            all.insert(name, value);
        }
        for name in self.secrets_from_env.keys() {
            all.insert(name, Json::from(REDACTED));
        }
        for (name, secret) in &self.secrets {
            let shown = match secret.reference() {
                Some(place) => place.to_string(),
                None => REDACTED.to_owned(),
            };
            all.insert(name, Json::from(shown));
        }
        all.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

fn canonical(words: &[crate::choices::Word], text: &str) -> String {
    let text = text.trim().to_lowercase();
    words
        .iter()
        .find(|(word, aliases)| *word == text || aliases.contains(&text.as_str()))
        .map_or(text, |(word, _)| (*word).to_owned())
}
