//! Remembers in a run's folder which run of which cluster it is, so that the same command waits for
//! the same run again.

use std::hash::{BuildHasher as _, RandomState};

use serde::{Deserialize, Serialize};
use skillopt_coordinator::folder::RunFolder;
use skillopt_core::Hash;
use skillopt_runtime::clock::unix_ms;
use skillopt_runtime::files::{self, FileError};

/// Name of the file in a run's private folder.
const FILE: &str = "cluster.json";
/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// A run of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    /// The key that it was submitted under.
    pub(crate) key: String,
    /// The bundle that was submitted under the key.
    pub(crate) bundle: String,
    /// Its id, once the cluster has given one.
    pub(crate) run: String,
    /// Where the cluster was.
    pub(crate) coordinator: String,
}

impl Marker {
    /// Reads the mark of a folder, if it has one.
    pub(crate) fn read(folder: &RunFolder) -> Option<Self> {
        let bytes = files::read_limited(&folder.private().join(FILE), BYTES_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn write(&self, folder: &RunFolder) -> Result<(), FileError> {
        let path = folder.private().join(FILE);
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|e| FileError::new("write", path.clone(), e.into()))?;
        files::write_atomic(&path, &bytes)
    }
}

/// Makes a key that nobody has used.
pub(crate) fn new_key() -> String {
    // The standard library seeds each of these from the system's randomness.
    let random = || RandomState::new().hash_one(0_u8).to_le_bytes();
    let (time, process) = (unix_ms().to_le_bytes(), std::process::id().to_le_bytes());
    let (one, two) = (random(), random());
    let parts: [&[u8]; 4] = [&one, &two, &time, &process];
    Hash::of_parts(parts).to_string()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        assert_eq!(Marker::read(&folder), None);
        std::fs::create_dir(folder.private()).unwrap();
        let marker = Marker {
            key: new_key(),
            run: "3f9c".to_owned(),
            ..Marker::default()
        };
        marker.write(&folder).unwrap();
        assert_eq!(Marker::read(&folder), Some(marker));
    }

    #[test]
    fn keys_differ() {
        let (one, two) = (new_key(), new_key());
        assert_ne!(one, two);
        assert_eq!(one.len(), 32);
    }
}
