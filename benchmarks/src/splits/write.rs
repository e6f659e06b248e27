//! Writing a split folder, so that a crash never leaves half a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use skillopt_runtime::files::{self, FileError};

use super::{Item, Part, Splits};
use crate::error::LoadError;

/// A split folder that is not written yet: loading changes nothing, since the folder may turn out
/// to belong to somebody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    files: Vec<(PathBuf, Arc<[u8]>)>,
}

impl Generated {
    /// Renders `<part>/items.json` for every part, then `split_manifest.json`.
    pub(crate) fn new(folder: &Path, splits: &Splits, manifest: &Value) -> Result<Self, LoadError> {
        let mut files = Vec::new();
        for part in Part::ALL {
            let rows: Vec<&Value> = splits.part(part).iter().map(value).collect();
            let path = folder.join(part.folder()).join("items.json");
            files.push(json(path, &rows)?);
        }
        files.push(json(folder.join("split_manifest.json"), manifest)?);
        Ok(Self { files })
    }

    /// Takes files as they are: those that [`Self::files`] gave, at their new place.
    #[must_use]
    pub const fn from_files(files: Vec<(PathBuf, Arc<[u8]>)>) -> Self {
        Self { files }
    }

    /// Returns the files with their paths.
    #[must_use]
    pub fn files(&self) -> &[(PathBuf, Arc<[u8]>)] {
        &self.files
    }

    /// Writes the files. Those that already hold the same bytes are left alone.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self) -> Result<(), FileError> {
        for (path, bytes) in &self.files {
            if !std::fs::read(path).is_ok_and(|old| *old == **bytes) {
                files::write_atomic(path, bytes)?;
            }
        }
        Ok(())
    }
}

fn value(item: &Item) -> &Value {
    &item.value
}

fn json<T: Serialize>(path: PathBuf, content: &T) -> Result<(PathBuf, Arc<[u8]>), LoadError> {
    let mut bytes =
        serde_json::to_vec_pretty(content).map_err(|e| LoadError::io("write", &path, e.into()))?;
    bytes.push(b'\n');
    Ok((path, bytes.into()))
}
