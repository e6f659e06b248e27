//! Settings of single backends.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::secret::Secret;

/// Addresses, credentials and programs of the backends, by flat key name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackendSettings {
    pub(crate) values: BTreeMap<String, Json>,
    pub(crate) secrets: BTreeMap<String, Secret>,
}
