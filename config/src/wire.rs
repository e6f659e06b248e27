//! A resolved configuration on its way to another process: everything but the credentials, of
//! which only the names travel.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::backend_settings::{BackendSettings, SettingsWire};
use crate::export::redacted;
use crate::node::{Mapping, Origin};
use crate::problem::Errors;
use crate::run_config::RunConfig;
use crate::setting::Reader;

/// A configuration without credentials. Reading it back gives one that describes the same run and
/// writes the same `config.json`, but cannot call a model that wants a credential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    fields: Map<String, Json>,
    env_extra: Map<String, Json>,
    extra: Map<String, Json>,
    backends: SettingsWire,
    /// Names of values that somebody set.
    set: BTreeSet<String>,
}

impl RunConfig {
    /// Makes what travels.
    #[must_use]
    pub fn to_wire(&self) -> Wire {
        let clean = |map: &Map<String, Json>| -> Map<String, Json> {
            map.iter()
                .map(|(name, value)| (name.clone(), redacted(name, value)))
                .collect()
        };
        let is_set = |(name, origin): (&String, &Origin)| {
            (*origin != Origin::Default && !origin.is_shipped_base()).then(|| name.clone())
        };
        Wire {
            fields: self.fields(),
            env_extra: clean(&self.env_extra),
            extra: clean(&self.extra),
            backends: self.backends.to_wire(),
            set: self.origins.iter().filter_map(is_set).collect(),
        }
    }

    /// Reads what [`Self::to_wire`] made; `place` is what the origins of its values say.
    ///
    /// # Errors
    /// A value that this release does not know, or a key that it does not have.
    pub fn from_wire(wire: &Wire, place: &str) -> Result<Self, Errors> {
        let origin = Origin::Set(place.into());
        let fields = Mapping::from_json(&wire.fields, &origin);
        let mut reader = Reader::new(&fields);
        let mut config = Self::read(&mut reader);
        let mut problems = reader.problems;
        let known = config.fields();
        for (name, node) in fields.iter().filter(|(name, _)| !known.contains_key(*name)) {
            let reason = "is not a key of this release; use the same release on both sides";
            problems.push(crate::Problem::new(name, node, reason));
        }
        if !problems.is_empty() {
            return Err(Errors(problems));
        }
        config.env_extra.clone_from(&wire.env_extra);
        config.extra.clone_from(&wire.extra);
        config.backends = BackendSettings::from_wire(&wire.backends);
        let origins = wire.set.iter().map(|name| (name.clone(), origin.clone()));
        config.origins = origins.collect::<BTreeMap<_, _>>();
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Context, Flat, Role, to_config_json};

    fn resolved(flat: Json, env: &[(&str, &str)]) -> RunConfig {
        let find = |name: &str| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let context = Context {
            benchmarks: None,
            env: &find,
        };
        let flat = Flat::from_json(flat.as_object().unwrap(), &Origin::Set("test".into()));
        RunConfig::resolve(&flat, &context).unwrap().0
    }

    #[test]
    fn it_says_the_same_at_the_other_end_but_for_credentials() {
        let before = resolved(
            json!({
                "env": "searchqa", "model_backend": "openai_compatible", "seed": 7,
                "split_ratio": "1:1:1", "optimizer_timeout": 300.0, "sim": {"p429": 0.25},
                "openai_compatible_base_url": "http://127.0.0.1:9/v1",
                "openai_compatible_api_key": "sk-mine",
                "optimizer_openai_compatible_api_key": "file:/run/secrets/key", "leading_words": ["a", "b"],
                "n_hops": 3, "github_token": "t-mine", "max_turns": 2, "skill_init": "",
            }),
            &[
                ("TARGET_OPENAI_COMPATIBLE_BASE_URL", "http://127.0.0.1:8/v1"),
                ("TARGET_OPENAI_COMPATIBLE_API_KEY", "sk-env"),
            ],
        );
        let text = serde_json::to_string(&before.to_wire()).unwrap();
        for secret in ["sk-mine", "t-mine", "sk-env"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let wire: Wire = serde_json::from_str(&text).unwrap();
        let after = RunConfig::from_wire(&wire, "bundle").unwrap();
        assert_eq!(to_config_json(&before, None), to_config_json(&after, None));
        assert_eq!(before.fields(), after.fields());
        for role in [Role::Target, Role::Optimizer] {
            let server = |config: &RunConfig| config.backends.address(role, "openai_compatible");
            assert_eq!(server(&before), server(&after));
        }
        let key = |config: &RunConfig, role| {
            let secret = config.backends.secret(role, "openai_compatible_api_key");
            secret.map(|secret| secret.expose().to_owned())
        };
        let place = "file:/run/secrets/key".to_owned();
        assert_eq!(key(&after, Role::Optimizer), Some(place));
        for name in ["optimizer_timeout", "exec_timeout"] {
            let is_set = |config: &RunConfig| *config.origin(name) != Origin::Default;
            assert_eq!(is_set(&before), is_set(&after), "{name}");
        }
        assert_eq!(after.to_wire(), before.to_wire());
    }

    #[test]
    fn a_key_of_a_later_release_is_refused() {
        let mut wire = resolved(json!({"env": "searchqa"}), &[]).to_wire();
        wire.fields.insert("warp_factor".to_owned(), 9.into());
        let error = RunConfig::from_wire(&wire, "bundle").unwrap_err();
        assert!(error.to_string().contains("warp_factor"), "{error}");
    }
}
