//! The blob that names the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skillopt_config::{RunConfig, Wire};
use skillopt_core::Hash;
use skillopt_queue::Store;

use crate::payers::Payers;

use super::{UnpackError, VERSION, What, code};

/// Largest root once it is unpacked, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The root of a bundle.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Root {
    pub(super) version: u32,
    pub(super) what: What,
    pub(super) config: Wire,
    /// The suite.
    pub(super) suite: Hash,
    /// The first skill, encoded.
    pub(super) initial: Hash,
    /// Templates that replace built-in ones.
    pub(super) prompts: BTreeMap<String, String>,
    /// Who pays, at the prices that the submitter knows.
    #[serde(default)]
    pub(super) payers: Payers,
    /// Name of the run as the submitter worked it out.
    pub(super) run: String,
}

impl Root {
    /// Reads the configuration.
    pub(super) fn config(&self) -> Result<RunConfig, UnpackError> {
        RunConfig::from_wire(&self.config, "bundle")
            .map_err(|e| UnpackError::Damaged(e.to_string()))
    }
}

/// Read before the rest, which another version may write otherwise.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

pub(super) async fn read(store: &dyn Store, hash: Hash) -> Result<Root, UnpackError> {
    let bytes = store.blobs(&[hash]).await?.pop().flatten();
    let bytes = bytes.ok_or(UnpackError::Missing(hash))?;
    // Megabytes of JSON would hold up the async threads.
    let read = tokio::task::spawn_blocking(move || decode(&bytes)).await;
    read.map_err(|e| UnpackError::Damaged(e.to_string()))?
}

fn decode(bytes: &[u8]) -> Result<Root, UnpackError> {
    let head: Head = code::decode("its root", bytes, BYTES_MAX)?;
    if head.version > VERSION {
        return Err(UnpackError::Newer {
            found: head.version,
        });
    }
    code::decode("its root", bytes, BYTES_MAX)
}
