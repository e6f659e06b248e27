//! Settings of single backends.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use skillopt_backends::declare::Options;
use skillopt_backends::registry::{self, BACKENDS};
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

mod document;
#[cfg(test)]
mod tests;

/// Looks a variable of the environment up.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Addresses, credentials and programs of the backends, by flat key name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackendSettings {
    configured: BTreeMap<String, Json>,
    from_env: BTreeMap<String, Json>,
    /// What a shipped base file says: no more than a default, so it ranks below the environment.
    shipped: BTreeMap<String, Json>,
    secrets: BTreeMap<String, Secret>,
    secrets_from_env: BTreeMap<String, Secret>,
}

/// Where a value stands among others.
#[derive(Clone, Copy)]
enum Rank {
    Configured,
    Env,
    Shipped,
}

/// A variable that its setting does not take. It counts only where its backend is used.
pub(crate) struct BadVariable {
    backend: &'static str,
    problem: Problem,
}

impl BadVariable {
    /// Returns what is wrong, if one of the `used` backends reads the variable.
    pub(crate) fn of(self, used: &[&str]) -> Option<Problem> {
        used.contains(&self.backend).then_some(self.problem)
    }
}

/// [`BackendSettings`] as they travel: of credentials the names, and where the configuration says
/// that they stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SettingsWire {
    configured: BTreeMap<String, Json>,
    from_env: BTreeMap<String, Json>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    shipped: BTreeMap<String, Json>,
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
    ) -> (Self, Vec<BadVariable>) {
        let mut settings = Self::default();
        let mut bad = Vec::new();
        for backend in BACKENDS {
            for key in backend.keys {
                for (name, role) in key.places() {
                    if let Some(node) = known.get(&name).filter(|node| !node.is_blank()) {
                        origins.insert(name.clone(), node.origin.clone());
                        let rank = if node.origin.is_shipped_base() {
                            Rank::Shipped
                        } else {
                            Rank::Configured
                        };
                        let path = format!("model.{name}");
                        let taken = settings.take(key, &name, &path, node, rank);
                        problems.extend(taken.err().map(|problem| *problem));
                    }
                    if let Some((variable, text)) = variable(key, role, env) {
                        let origin = Origin::Env(variable.as_str().into());
                        let node = Node {
                            data: cast(&text),
                            raw: Some(text),
                            origin: origin.clone(),
                        };
                        match origins.get_mut(&name) {
                            Some(shipped) if shipped.is_shipped_base() => *shipped = origin,
                            Some(_) => {}
                            None => {
                                origins.insert(name.clone(), origin);
                            }
                        }
                        let taken = settings.take(key, &name, &variable, &node, Rank::Env);
                        bad.extend(taken.err().map(|problem| BadVariable {
                            backend: backend.name,
                            problem: *problem,
                        }));
                    }
                }
            }
        }
        (settings, bad)
    }

    /// Takes what the environment alone says, for a process that has no configuration of its own.
    ///
    /// # Errors
    /// A variable has a value that its setting does not take.
    pub fn from_env(env: EnvLookup<'_>) -> Result<Self, Errors> {
        let mut origins = BTreeMap::new();
        let (settings, bad) = Self::read(&Mapping::default(), env, &mut Vec::new(), &mut origins);
        if bad.is_empty() {
            Ok(settings)
        } else {
            Err(Errors(bad.into_iter().map(|bad| bad.problem).collect()))
        }
    }

    fn take(
        &mut self,
        key: &BackendKey,
        name: &str,
        shown: &str,
        node: &Node,
        rank: Rank,
    ) -> Result<(), Box<Problem>> {
        if key.is_document {
            let value = document::read(node)
                .map_err(|reason| Box::new(Problem::new(shown, node, reason)))?;
            let values = match rank {
                Rank::Configured => &mut self.configured,
                Rank::Env => &mut self.from_env,
                Rank::Shipped => &mut self.shipped,
            };
            values.insert(name.to_owned(), value);
            return Ok(());
        }
        let node = &unquoted(key, node);
        check(&key.kind, node).map_err(|(reason, near)| {
            let mut problem = Problem::new(shown, node, reason);
            problem.allowed = Some(key.kind.allowed());
            problem.nearest = near;
            Box::new(problem)
        })?;
        let text = scalar_text(node).unwrap_or_default();
        if key.kind == Kind::Secret {
            let secrets = match rank {
                Rank::Env => &mut self.secrets_from_env,
                Rank::Configured | Rank::Shipped => &mut self.secrets,
            };
            let secret = Secret::new(text);
            if let Some(fault) = secret.reference().and_then(|place| place.fault()) {
                return Err(Box::new(Problem::at(shown, &node.origin, fault)));
            }
            secrets.insert(name.to_owned(), secret);
            return Ok(());
        }
        let value = match (&key.kind, &node.data) {
            (Kind::Choice(words), _) => Json::from(canonical(words, &text)),
            (Kind::Int { .. }, Data::Int(n)) => Json::from(*n),
            (Kind::FloatOrNone { .. }, Data::Text(_)) => Json::from("none"),
            (Kind::Float { .. } | Kind::FloatOrNone { .. }, _) => Json::from(number(node)),
            _ => Json::from(text),
        };
        let values = match rank {
            Rank::Configured => &mut self.configured,
            Rank::Env => &mut self.from_env,
            Rank::Shipped => &mut self.shipped,
        };
        values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Keeps a credential that a benchmark has among its own keys.
    pub(crate) fn add_secret(&mut self, name: &str, secret: Secret) {
        self.secrets.insert(name.to_owned(), secret);
    }

    /// Returns a setting of a role: the role's own, then the shared one, first from the
    /// configuration, then from the environment, then from a shipped base file.
    #[must_use]
    pub fn get(&self, role: Role, base: &str) -> Option<&Json> {
        [&self.configured, &self.from_env, &self.shipped]
            .into_iter()
            .find_map(|values| of_role(values, role, base))
    }

    /// Has the settings that are configured for a backend of a role judged together. Returns each
    /// finding with its key: a remark or, as an error, why they are refused.
    pub(crate) fn judge(
        &self,
        role: Role,
        backend: &str,
    ) -> Vec<(&'static str, Result<String, String>)> {
        let keys = registry::find(backend).map_or(&[][..], |backend| backend.keys);
        let configured = |key: &str| of_role(&self.configured, role, key).cloned();
        let all = |key: &str| self.get(role, key).cloned();
        let mut findings = Vec::new();
        for key in keys {
            let Some(check) = key.check else { continue };
            match (check(Options(&configured)), check(Options(&all))) {
                (Err(reason), _) => findings.push((key.base, Err(reason))),
                (Ok(_), Ok(Some(remark))) => findings.push((key.base, Ok(remark))),
                // The environment may hold leftovers that the configuration overrules.
                (Ok(_), Ok(None) | Err(_)) => {}
            }
        }
        findings
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
        let own = timeout_key(backend).and_then(|name| self.get(role, name)?.as_f64());
        own.or(registry::find(backend)?.timeout_seconds)
    }

    /// Returns the key by which somebody limited the exchanges of one role alone.
    pub(crate) fn own_timeout(&self, role: Role, backend: &str) -> Option<String> {
        let own = format!("{}_{}", role.as_str(), timeout_key(backend)?);
        let is_set = self.configured.contains_key(&own) || self.from_env.contains_key(&own);
        is_set.then_some(own)
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
            shipped: clean(&self.shipped),
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
            shipped: wire.shipped.clone(),
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
        for (name, value) in (self.shipped.iter())
            .chain(&self.from_env)
            .chain(&self.configured)
        {
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

/// Returns the key of a backend that limits one exchange.
fn timeout_key(backend: &str) -> Option<&'static str> {
    let mut names = registry::find(backend)?.keys.iter().map(|key| key.base);
    names.find(|name| name.ends_with("_timeout_seconds") || name.ends_with("_timeout"))
}

fn of_role<'a>(values: &'a BTreeMap<String, Json>, role: Role, base: &str) -> Option<&'a Json> {
    let own = format!("{}_{base}", role.as_str());
    values.get(&own).or_else(|| values.get(base))
}

/// Returns the variable that sets a key, with what it says; a blank one counts only where that
/// means something.
fn variable(key: &BackendKey, role: Option<Role>, env: EnvLookup<'_>) -> Option<(String, String)> {
    key.variables(role).into_iter().find_map(|name| {
        let text = env(&name)?;
        if !text.trim().is_empty() {
            return Some((name, text));
        }
        let blank = key.blank?.to_owned();
        Some((name, blank))
    })
}

/// Takes a number out of its quotes, in which many files of other programs write it.
fn unquoted(key: &BackendKey, node: &Node) -> Node {
    let mut node = node.clone();
    let is_number = matches!(
        key.kind,
        Kind::Int { .. } | Kind::Float { .. } | Kind::FloatOrNone { .. }
    );
    if is_number && let Data::Text(text) = &node.data {
        node.data = cast(text.trim());
    }
    // A variable that looks like a truth value is a text where a text is wanted.
    if let (Kind::Text | Kind::Path | Kind::Secret, Origin::Env(_), Some(raw)) =
        (&key.kind, &node.origin, &node.raw)
    {
        node.data = Data::Text(raw.clone());
    }
    node
}

fn canonical(words: &[crate::choices::Word], text: &str) -> String {
    let text = text.trim().to_lowercase();
    words
        .iter()
        .find(|(word, aliases)| *word == text || aliases.contains(&text.as_str()))
        .map_or(text, |(word, _)| (*word).to_owned())
}
