//! Settings of single backends.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::address;
use crate::backend_keys::BackendKey;
use crate::cast::cast;
use crate::key::Kind;
use crate::node::{Data, Mapping, Node, Origin};
use crate::problem::{Errors, Problem};
use crate::roles::Role;
use crate::secret::{REDACTED, Secret};
use crate::setting::{check, number, scalar_text};

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

/// [`BackendSettings`] as they travel: of credentials only the names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SettingsWire {
    configured: BTreeMap<String, Json>,
    from_env: BTreeMap<String, Json>,
    secrets: BTreeSet<String>,
    secrets_from_env: BTreeSet<String>,
}

/// Where and how one role reaches an OpenAI-compatible server.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAiCompatible {
    /// Address without `/chat/completions`.
    pub base_url: String,
    /// Key; empty if none was given.
    pub api_key: Secret,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Upper limit of tokens per answer.
    pub max_tokens: u32,
    /// Seconds for one exchange.
    pub timeout_seconds: f64,
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
        for key in crate::backend_keys::BACKEND_KEYS {
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
            secrets.insert(name.to_owned(), Secret::new(text));
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

    /// Returns the settings of an OpenAI-compatible server for `role`.
    #[must_use]
    pub fn openai_compatible(&self, role: Role) -> OpenAiCompatible {
        let get = |what: &str| self.get(role, &format!("openai_compatible_{what}"));
        OpenAiCompatible {
            base_url: get("base_url")
                .and_then(Json::as_str)
                .unwrap_or("https://api.openai.com/v1")
                .trim()
                .trim_end_matches('/')
                .to_owned(),
            api_key: self
                .secret(role, "openai_compatible_api_key")
                .cloned()
                .unwrap_or_default(),
            temperature: get("temperature").and_then(Json::as_f64),
            max_tokens: get("max_tokens")
                .and_then(Json::as_u64)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(8000),
            timeout_seconds: get("timeout_seconds")
                .and_then(Json::as_f64)
                .unwrap_or(300.0),
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
        }
    }

    /// Reads what travelled; each credential is [`REDACTED`].
    pub(crate) fn from_wire(wire: &SettingsWire) -> Self {
        let hidden = |names: &BTreeSet<String>| -> BTreeMap<String, Secret> {
            let names = names.iter();
            names.map(|n| (n.clone(), Secret::new(REDACTED))).collect()
        };
        Self {
            configured: wire.configured.clone(),
            from_env: wire.from_env.clone(),
            secrets: hidden(&wire.secrets),
            secrets_from_env: hidden(&wire.secrets_from_env),
        }
    }

    /// Returns what is set, credentials as [`REDACTED`] and addresses without any.
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
        for name in self.secrets_from_env.keys().chain(self.secrets.keys()) {
            all.insert(name, Json::from(REDACTED));
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
