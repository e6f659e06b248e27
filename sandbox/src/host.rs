//! A worker's place for rooms, and what all of them share.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};

use crate::chance::random;
use crate::cleaner::Cleaner;
use crate::level::{Level, Policy};
use crate::limits::Limits;
use crate::own_folder::OwnFolder;
use crate::probe::Probe;
use crate::room::Room;
use crate::settings::Settings;
use crate::shared::{Shared, make};
use crate::starter::Starter;
use crate::task::Relay;
use crate::{Error, etc, folder};

/// A worker's place for rooms. Keep one per process: opening it tries the machine out.
#[derive(Clone, Debug)]
pub struct Host {
    shared: Arc<Shared>,
}

impl Host {
    /// Tries out what the machine offers, removes what killed workers left, and makes the place.
    ///
    /// # Errors
    /// The machine does not offer what the policy asks for, or the folder cannot be used.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        make(&settings.folder, true)?;
        let base = settings
            .folder
            .canonicalize()
            .map_err(Error::io("find", &settings.folder))?;
        sweep(&base);
        let name = format!("host-{:016x}", random());
        let (folder, lock) = (base.join(&name), base.join(format!("{name}.lock")));
        // The lock comes first, so that a folder without a holder is one that was left.
        let file = File::create(&lock).map_err(Error::io("make", &lock))?;
        let held = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| Error::io("lock", &lock)(errno.into()))?;
        make(&folder, false)?;
        let etc = folder.join("etc");
        etc::lay(&etc)?;
        let probe = Probe::run(&settings, &etc);
        let thread = |e: std::io::Error| Error::Start(format!("no thread for it: {e}"));
        let mut shared = Shared {
            level: Level::None,
            starter: Starter::new().map_err(thread)?,
            cleaner: Some(Cleaner::new().map_err(thread)?),
            lock: (lock, held),
            settings,
            folder,
            probe,
        };
        // An error drops what was made, and so removes it.
        shared.level = shared.probe.level(shared.settings.policy)?;
        let shared = Arc::new(shared);
        Ok(Self { shared })
    }

    /// Returns the place below `temp` that all processes of this user share, and makes it: what a
    /// killed one left there is removed by the next that opens it.
    ///
    /// # Errors
    /// It cannot be made, or others may use it.
    pub fn place(temp: &Path) -> Result<PathBuf, Error> {
        let user = nix::unistd::getuid();
        let place = temp.join(format!("skillopt-{user}"));
        make(&place, true)?;
        let found = std::fs::symlink_metadata(&place).map_err(Error::io("look at", &place))?;
        if !found.is_dir() || found.uid() != user.as_raw() || found.mode() & 0o077 != 0 {
            let words = "others may use it; remove it, or name another folder in TMPDIR";
            return Err(Error::io("use", &place)(std::io::Error::other(words)));
        }
        Ok(place)
    }

    /// Finds out what the machine offers, and leaves nothing behind.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn probe(settings: Settings) -> Result<Probe, Error> {
        // Whatever the machine lacks, this policy can be had.
        let policy = Policy::None;
        Self::open(Settings { policy, ..settings }).map(|host| host.shared.probe.clone())
    }

    /// Returns how strongly programs are shut in.
    #[must_use]
    pub fn level(&self) -> Level {
        self.shared.level
    }

    /// Returns what the machine offers.
    #[must_use]
    pub fn offers(&self) -> &Probe {
        &self.shared.probe
    }

    /// Prepares one run: its folders are made and its ports are known.
    ///
    /// # Errors
    /// A folder cannot be made, or no port is free.
    pub fn room(&self, relays: Vec<Relay>, limits: Limits) -> Result<Room, Error> {
        let name = format!("{:016x}", random());
        let folder = self.shared.folder.join(name);
        Room::new(Arc::clone(&self.shared), folder, relays, limits)
    }

    /// Makes a folder of the worker's own beside the rooms, for sockets of its relays: a short path,
    /// and gone with the rooms if the worker is killed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn own_folder(&self) -> Result<OwnFolder, Error> {
        let path = self.shared.folder.join(format!("{:016x}", random()));
        OwnFolder::new(Arc::clone(&self.shared), path)
    }

    /// Waits until everything is gone that earlier rooms left.
    pub async fn is_clean(&self) {
        if let Some(cleaner) = &self.shared.cleaner {
            cleaner.is_done().await;
        }
    }
}

/// Removes the folders of workers that are gone.
fn sweep(base: &Path) {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    for entry in entries {
        let path = entry.path();
        let lock = path.with_extension("lock");
        if path == lock || !path.is_dir() {
            continue;
        }
        let Ok(file) = File::open(&lock) else {
            continue;
        };
        let Ok(held) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
            continue;
        };
        // Another one may be sweeping, too.
        if folder::remove(&path).is_ok() {
            let _ = std::fs::remove_file(&lock);
        }
        drop(held);
    }
}
