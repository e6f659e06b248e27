//! A folder of the worker's own, which goes with the rooms beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::shared::{Shared, make};
use crate::{Error, folder};

/// A folder of the worker's own beside its rooms: no program inside sees it. Dropping it removes it;
/// if the worker is killed, the next one that uses the same place does.
#[derive(Debug)]
pub struct OwnFolder {
    path: PathBuf,
    /// The place is there as long as this is.
    _shared: Arc<Shared>,
}

impl OwnFolder {
    pub(crate) fn new(shared: Arc<Shared>, path: PathBuf) -> Result<Self, Error> {
        make(&path, false)?;
        Ok(Self {
            path,
            _shared: shared,
        })
    }

    /// Returns where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // What stays goes with the place.
        let _ = folder::remove(&self.path);
    }
}
