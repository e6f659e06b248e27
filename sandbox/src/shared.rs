//! What a host and its rooms share, as long as one of them is there.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;

use crate::cleaner::Cleaner;
use crate::level::Level;
use crate::probe::Probe;
use crate::settings::Settings;
use crate::starter::Starter;
use crate::{Error, folder};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) folder: PathBuf,
    pub(crate) probe: Probe,
    pub(crate) level: Level,
    pub(crate) starter: Starter,
    pub(crate) cleaner: Option<Cleaner>,
    /// Held as long as the worker lives, whatever ends it.
    pub(crate) lock: (PathBuf, Flock<File>),
}

impl Shared {
    pub(crate) fn etc(&self) -> PathBuf {
        self.folder.join("etc")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Waits for what rooms have left it.
        self.cleaner = None;
        // What stays is removed by the next worker.
        let _ = folder::remove(&self.folder);
        let _ = std::fs::remove_file(&self.lock.0);
    }
}

/// Makes a folder that only this user can enter.
pub(crate) fn make(folder: &Path, is_shared: bool) -> Result<(), Error> {
    std::fs::DirBuilder::new()
        .recursive(is_shared)
        .mode(0o700)
        .create(folder)
        .map_err(Error::io("make", folder))
}
