//! What a run writes about its configuration, and how two configurations differ.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value as Json};

use crate::address;
use crate::backend_keys;
use crate::run_config::{KEYS, RunConfig};
use skillopt_core::secret::{REDACTED, is_secret_name};

/// Sizes that follow from the configuration and the train split (training spec 1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Items of the train split that are used.
    pub train_size: usize,
    /// Updates per epoch.
    pub steps_per_epoch: usize,
    /// Micro-batches per epoch.
    pub batches_per_epoch: usize,
    /// Updates of the whole run.
    pub total_steps: usize,
    /// Items per epoch.
    pub samples_per_epoch: usize,
}

/// The configured size of the train split and the real one do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// They differ.
    #[error(
        "`train.train_size` is {configured}, but the train split has {found} items; set it to \
         {found}, or to 0 to take what there is"
    )]
    Differ {
        /// As configured.
        configured: usize,
        /// As found.
        found: usize,
    },
    /// Neither is known.
    #[error(
        "the train split has no items, and `train.train_size` is 0: there is nothing to train on"
    )]
    Unknown,
}

impl Sizes {
    /// Works the sizes out for a train split of `found` items (0 = not known).
    ///
    /// # Errors
    /// The configured size differs from the real one, or neither is known.
    pub fn derive(config: &RunConfig, found: usize) -> Result<Self, SizeError> {
        let train_size = match (config.train_size, found) {
            (0, 0) => return Err(SizeError::Unknown),
            (0, found) => found,
            (configured, 0) => configured,
            (configured, found) if configured == found => found,
            (configured, found) => return Err(SizeError::Differ { configured, found }),
        };
        let per_step = config.batch_size.saturating_mul(config.accumulation).max(1);
        let steps_per_epoch = train_size.div_ceil(per_step);
        Ok(Self {
            train_size,
            steps_per_epoch,
            batches_per_epoch: steps_per_epoch.saturating_mul(config.accumulation),
            total_steps: steps_per_epoch.saturating_mul(config.num_epochs),
            samples_per_epoch: train_size,
        })
    }
}

/// Keys that never stand in `config.json`: where and with how much help a run is made must not
/// change its folder.
const NOT_WRITTEN: &[&str] = &["out_root", "store", "slots", "workers", "analyst_workers"];

/// Returns what `config.json` holds: everything under its flat name, derived sizes included,
/// credentials as `***`. Paths stand as the user wrote them.
#[must_use]
pub fn to_config_json(config: &RunConfig, sizes: Option<&Sizes>) -> Map<String, Json> {
    let mut map = shown(config);
    for key in NOT_WRITTEN {
        map.shift_remove(*key);
    }
    if let Some(sizes) = sizes {
        for (key, value) in [
            ("train_size", sizes.train_size),
            ("steps_per_epoch", sizes.steps_per_epoch),
            ("batches_per_epoch", sizes.batches_per_epoch),
            ("total_steps", sizes.total_steps),
            ("samples_per_epoch", sizes.samples_per_epoch),
        ] {
            map.insert(key.to_owned(), Json::from(value));
        }
    }
    map
}

/// Returns every value under its flat name, credentials as `***`.
#[must_use]
pub fn shown(config: &RunConfig) -> Map<String, Json> {
    let mut map = config.fields();
    for (name, value) in config.backends.to_json() {
        map.insert(name, value);
    }
    for (name, value) in config.env_extra.iter().chain(&config.extra) {
        if !map.contains_key(name) {
            map.insert(name.clone(), redacted(name, value));
        }
    }
    map
}

pub(crate) fn redacted(name: &str, value: &Json) -> Json {
    match value {
        Json::Null => Json::Null,
        Json::Object(map) => Json::Object(
            map.iter()
                .map(|(k, v)| (k.clone(), redacted(k, v)))
                .collect(),
        ),
        _ if is_secret_name(name) => Json::from(REDACTED),
        Json::String(text) if address::has_password(text) => {
            Json::from(address::without_credentials(text))
        }
        Json::Array(items) => Json::Array(items.iter().map(|v| redacted("", v)).collect()),
        other => other.clone(),
    }
}

/// Returns the keys in which two `config.json` differ so that results may differ, with both
/// values (null = absent). Speed, places and credentials do not count.
#[must_use]
pub fn differs(a: &Map<String, Json>, b: &Map<String, Json>) -> Vec<(String, Json, Json)> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names
        .into_iter()
        .filter(|name| changes_results(name))
        .filter_map(|name| {
            let left = a.get(name).cloned().unwrap_or_default();
            let right = b.get(name).cloned().unwrap_or_default();
            (left != right).then(|| (name.clone(), left, right))
        })
        .collect()
}

/// What `config.json` says beside the keys: how models of Qwen were told to think. It repeats keys.
pub const RESOLVED_THINKING: &str = "resolved_qwen_thinking_modes";

/// Returns whether a flat key may change what a run computes.
#[must_use]
pub fn changes_results(name: &str) -> bool {
    if is_secret_name(name) || name == RESOLVED_THINKING {
        return false;
    }
    KEYS.iter()
        .find(|key| key.name == name)
        .map(|key| key.usage.result)
        .or_else(|| backend_keys::find(name).map(|key| key.result))
        .unwrap_or(true)
}

impl fmt::Debug for RunConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunConfig").field(&shown(self)).finish()
    }
}
