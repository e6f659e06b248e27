//! Run folders on this coordinator's disk: projections that may be lost at any time, and are made
//! again from stored answers.

mod answered;
mod quiet;
mod whole;

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use skillopt_queue::{Queue, RunId, Store, store};
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::unix_ms;
use skillopt_runtime::files::{self, FileError};
use tokio::sync::{OwnedMutexGuard, Semaphore};

use self::answered::Answered;
use self::quiet::Quiet;
pub use self::whole::Reading;
use self::whole::Whole;
use super::course::{Place, course};
use super::error::Error;
use super::live::Live;
use super::parts::Parts;
use super::record::{RunRecord, State};
use crate::bundle::{self, Suites, Unpacked};
use crate::folder::RunFolder;
use crate::halt::Halt;
use crate::log;
use crate::payers::Payers;
use crate::progress::{Progress, Watcher};
use crate::session::Source;

/// Our folder in the place that we are given, in which others may have things of theirs.
const OWN: &str = "skillopt-scratch";
/// Folders that are made again at once: each takes a thread and computes.
const AGAIN_MAX: u32 = 4;
/// How often somebody who waits for a folder looks whether a run began to work in it.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A loop over stored answers that stands still for so long waits for one that is not there.
const STILL_MAX: Duration = Duration::from_secs(10);

/// The folders.
pub struct Folders {
    root: PathBuf,
    parts: Parts,
    suites: Arc<Suites>,
    /// One turn for each folder: it is made by one at a time.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    whole: Arc<Whole>,
    again: Arc<Semaphore>,
    exports: AtomicU64,
    /// Keeps other processes out.
    _lock: File,
}

/// Why a place for run folders cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// Another process has it.
    #[error("another coordinator uses `{0}`; give each its own folder with --scratch")]
    Busy(PathBuf),
    /// The file system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Whether the folder of a run is written as answers come. Of a sweep, hardly anybody fetches them,
/// and they cost more than all else that a coordinator does: they are made when asked for.
#[must_use]
pub const fn is_written(run: &RunRecord) -> bool {
    run.sweep.is_empty()
}

/// The folder of a run, kept from being removed while it is read.
pub struct Shown {
    folder: RunFolder,
    _reading: Reading,
    _aside: Option<Export>,
}

impl Shown {
    /// Returns the folder.
    #[must_use]
    pub const fn folder(&self) -> &RunFolder {
        &self.folder
    }
}

/// A folder that was made for one download; gone when dropped.
pub struct Export {
    root: PathBuf,
}

impl Export {
    /// Returns the file with all answers.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        RunFolder::new(&self.root).store()
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // A folder that is left is cleared at the next start.
        drop(std::fs::remove_dir_all(&self.root));
    }
}

/// The folder of a run while it is made. It goes with this unless it was made: nobody may wait for
/// that any more.
struct Making {
    whole: Arc<Whole>,
    id: String,
    root: PathBuf,
    is_made: bool,
}

impl Drop for Making {
    fn drop(&mut self) {
        if self.is_made {
            return;
        }
        // What is left is made anew, or cleared at the next start.
        let clear = |id: &str| drop(std::fs::remove_dir_all(self.root.with_file_name(id)));
        self.whole.remove(&self.id, clear);
        if self.root.exists() {
            // Somebody still reads what was there before.
            self.whole.keep(&self.id, false, clear);
        }
    }
}

impl Folders {
    /// Takes a folder of its own below `place` for run folders. What is left in it of an earlier
    /// process is removed.
    ///
    /// # Errors
    /// The file system refuses, or another process has it.
    pub fn open(place: &Path, parts: Parts, suites: Arc<Suites>) -> Result<Self, ScratchError> {
        let root = place.join(OWN);
        files::create_dir_all(&root)?;
        // Nothing is removed before it is known that nobody works there.
        let lock = lock(&root)?;
        for part in ["runs", "exports"] {
            let path = root.join(part);
            match std::fs::remove_dir_all(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FileError::new("clear", path, e).into());
                }
                _ => files::create_dir_all(&path)?,
            }
        }
        Ok(Self {
            root,
            parts,
            suites,
            turns: Mutex::default(),
            whole: Arc::default(),
            again: Arc::new(Semaphore::new(AGAIN_MAX as usize)),
            exports: AtomicU64::new(0),
            _lock: lock,
        })
    }

    /// Returns where answers and logs are.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.parts.store
    }

    /// Returns the folder of a run, whether it is there or not.
    #[must_use]
    pub fn of(&self, id: &str) -> RunFolder {
        RunFolder::new(self.root.join("runs").join(id))
    }

    /// Returns the folder that a run at work writes.
    #[must_use]
    pub fn at_work(&self, run: &RunRecord) -> RunFolder {
        let folder = self.of(&run.id);
        if is_written(run) {
            folder
        } else {
            RunFolder::unwritten(folder.root())
        }
    }

    /// Reads a run's bundle.
    ///
    /// # Errors
    /// See [`bundle::UnpackError`].
    pub async fn unpack(&self, run: &RunRecord) -> Result<Unpacked, bundle::UnpackError> {
        let store = self.parts.store.as_ref();
        let mut unpacked = bundle::unpack(store, run.bundle, run.skill, &self.suites).await?;
        let root = self.of(&run.id).root().to_owned();
        unpacked.put_at(&root)?;
        Ok(unpacked)
    }

    /// Returns the right to make a folder.
    pub async fn turn(&self, id: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(id.to_owned()).or_default())
        };
        turn.lock_owned().await
    }

    /// Writes the marks of a run into its folder, so that it shares answers with the runs that it
    /// should.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn begin(&self, folder: &RunFolder, run: &RunRecord, is_fresh: bool) -> Result<(), Halt> {
        if is_fresh {
            // The mark must be the same on every coordinator.
            let path = folder.private().join("fresh");
            files::create_dir_all(&folder.private())?;
            files::write_atomic(&path, run.id.as_bytes())?;
        }
        Ok(())
    }

    /// Keeps the folder of a run from being removed until what is returned is dropped.
    #[must_use]
    pub fn read(&self, id: &str) -> Reading {
        self.whole.read(id)
    }

    /// Notes that nobody works in the folder of a run any more, and whether it is whole; the oldest
    /// ones that nobody reads go.
    pub fn keep(&self, id: &str, is_whole: bool) {
        self.whole.keep(id, is_whole, |gone| self.clear(gone));
    }

    fn is_whole(&self, id: &str) -> bool {
        self.whole.has(id) && self.of(id).private().exists()
    }

    fn clear(&self, id: &str) {
        // What is left is made anew, or cleared at the next start.
        drop(std::fs::remove_dir_all(self.of(id).root()));
    }

    /// Sees to it that the folder of a run shows all that its stored answers give, and keeps it
    /// from being removed while it is read. The folder of a run that is at work here is left to it
    /// if it writes one.
    ///
    /// # Errors
    /// The bundle or the answers cannot be read, or an answer is not there.
    pub async fn restore(&self, run: &RunRecord, live: &Live) -> Result<Shown, Error> {
        let shown = Shown {
            folder: self.of(&run.id),
            _reading: self.read(&run.id),
            _aside: None,
        };
        let turn = self.turn(&run.id);
        tokio::pin!(turn);
        let turn = loop {
            if live.get(&run.id).is_some() {
                if is_written(run) {
                    return Ok(shown);
                }
                let aside = self.aside(run, |_| Ok(self.quiet()), true).await?;
                return Ok(Shown {
                    folder: RunFolder::new(&aside.root),
                    _aside: Some(aside),
                    ..shown
                });
            }
            tokio::select! {
                turn = &mut turn => break turn,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        };
        if run.state.is_over() && self.is_whole(&run.id) {
            return Ok(shown);
        }
        // Somebody else may be reading it; then the same files are written over.
        self.whole.remove(&run.id, |id| self.clear(id));
        let making = Making {
            whole: Arc::clone(&self.whole),
            id: run.id.clone(),
            root: shown.folder.root().to_owned(),
            is_made: false,
        };
        let unpacked = self.unpack(run).await?;
        let (folder, store) = (self.of(&run.id), self.quiet());
        // In this order they end: nobody makes it again, or reads it, before the rest of it is gone.
        let hold = (making, shown, turn);
        let made = self.again(unpacked, run, (folder, true), store, hold);
        let (mut making, shown, _turn) = made.await?;
        making.is_made = true;
        self.keep(&run.id, run.state.is_over());
        Ok(shown)
    }

    /// Returns the store without its writing side.
    fn quiet(&self) -> Arc<dyn Store> {
        Arc::new(Quiet(Arc::clone(&self.parts.store)))
    }

    /// Makes a store with all answers of a run, as it would lie in the folder of a local one.
    ///
    /// # Errors
    /// The bundle or the answers cannot be read, or the disk is full.
    pub async fn export(&self, run: &RunRecord) -> Result<Export, Error> {
        let make = |folder: &RunFolder| (self.parts.export)(&folder.store());
        self.aside(run, make, false).await
    }

    /// Reads all that a run was made from and came to. A store keeps for a time what is read.
    ///
    /// # Errors
    /// The bundle or the answers cannot be read, or an answer is not there.
    pub async fn touch(&self, run: &RunRecord) -> Result<(), Error> {
        self.aside(run, |_| Ok(self.quiet()), false)
            .await
            .map(|_| ())
    }

    /// Runs the loop over stored answers in a folder of its own, which is written if somebody is
    /// going to read it.
    async fn aside(
        &self,
        run: &RunRecord,
        make: impl Fn(&RunFolder) -> Result<Arc<dyn Store>, store::Error>,
        is_read: bool,
    ) -> Result<Export, Error> {
        let n = self.exports.fetch_add(1, Ordering::Relaxed);
        let root = self.root.join("exports").join(format!("{}-{n}", run.id));
        let export = Export { root: root.clone() };
        let mut unpacked = self.unpack(run).await?;
        unpacked.put_at(&root)?;
        let folder = if is_read {
            RunFolder::new(&root)
        } else {
            RunFolder::unwritten(&root)
        };
        files::create_dir_all(&folder.private()).map_err(|e| Error::Unavailable(e.to_string()))?;
        let store = make(&folder)?;
        let made = self.again(unpacked, run, (folder, is_read), Arc::clone(&store), export);
        let export = made.await?;
        store.settle().await?;
        Ok(export)
    }

    /// Runs the loop over stored answers, writing what it would write into `store`, in a folder with
    /// or without items. For a run that is not over it goes as far as its log does.
    ///
    /// Whoever waits for this may go at any time; the loop then stops as soon as it can. What it
    /// writes to is in the hands of `keep`, which the loop has until it has stopped, and then gives
    /// back.
    async fn again<K: Send + 'static>(
        &self,
        unpacked: Unpacked,
        run: &RunRecord,
        (folder, has_items): (RunFolder, bool),
        store: Arc<dyn Store>,
        keep: K,
    ) -> Result<K, Error> {
        let cannot = |e: &dyn std::fmt::Display| {
            let id = &run.id;
            Error::Unavailable(format!(
                "the folder of run `{id}` cannot be made again: {e}"
            ))
        };
        let permit = Arc::clone(&self.again).acquire_owned().await;
        let permit = permit.map_err(|e| cannot(&e))?;
        self.begin(&folder, run, unpacked.is_fresh())
            .map_err(|e| cannot(&e))?;
        let name = folder.log_name(unpacked.prepared.common.run.as_str());
        let name = name.map_err(|e| cannot(&e))?;
        let log = log::read(self.parts.store.as_ref(), &RunId::new(&run.id)).await;
        let events = log.map_err(|e| cannot(&e))?.len();
        // One that failed or was cancelled has asked for more than was answered.
        let is_over = run.state.is_over() && !matches!(run.state, State::Cancelled | State::Failed);
        if events == 0 && !is_over {
            return Ok(keep);
        }
        let shutdown = Shutdown::new();
        let (enough, drain) = (shutdown.drain.clone(), shutdown.drain.clone());
        let answers = Answered::new(Arc::clone(&self.parts.store), Arc::clone(&store), is_over);
        let answers = Arc::new(answers);
        let heard = Arc::clone(&answers);
        let left = AtomicUsize::new(events);
        let watcher = Watcher::new(move |news| {
            heard.stir();
            if matches!(news, Progress::Committed(_))
                && left.fetch_sub(1, Ordering::Relaxed) == 1
                && !is_over
            {
                enough.cancel();
            }
        });
        let place = Place {
            source: Source::Queue(Arc::clone(&answers) as Arc<dyn Queue>),
            store: Arc::clone(&store),
            log: store,
            log_name: RunId::new(&name),
            run: RunId::new(&run.id),
            folder,
            has_items,
            shutdown,
            watcher,
            payers: Payers::default(),
        };
        // A thread of its own, since the loop computes for long stretches; it ends when nobody
        // waits for it any more.
        let _end = drain.clone().drop_guard();
        let handle = tokio::runtime::Handle::current();
        let work = move || {
            // The permit ends last: whoever has all of them knows that nothing is left.
            (handle.block_on(course(&unpacked, place)), keep, permit)
        };
        let mut work = tokio::task::spawn_blocking(work);
        let done = tokio::select! {
            done = &mut work => done,
            missing = answers.stands_still(STILL_MAX) => {
                drain.cancel();
                // Nobody else may work in the folder before it has stopped.
                drop(work.await);
                let lost = format!(
                    "the answer `{missing}` is not stored: it is under way elsewhere, or was not \
                     used for longer than `--keep-days`"
                );
                return Err(cannot(&lost));
            }
        };
        match done.map_err(|e| cannot(&e))? {
            (Ok(_) | Err(Halt::Interrupted), keep, _) => Ok(keep),
            (Err(halt), ..) => Err(cannot(&halt)),
        }
    }

    /// Waits until nothing is made any more, also for those who did not wait for it; nothing is made
    /// afterwards.
    pub async fn settle(&self) {
        drop(self.again.acquire_many(AGAIN_MAX).await);
        self.again.close();
    }

    /// Writes down in a folder how its run stands, as a local run would.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn write_status(folder: &RunFolder, state: &str, cause: &str) -> Result<(), FileError> {
        let value = json!({
            "state": state,
            "cause": (!cause.is_empty()).then_some(cause),
            "at_unix_ms": unix_ms(),
            "pid": 0,
            "store": "",
            "baseline_in": null,
        });
        files::create_dir_all(&folder.private())?;
        files::write_atomic(
            &folder.private().join("status.json"),
            value.to_string().as_bytes(),
        )
    }
}

/// Takes a folder for this process, until the file is dropped.
fn lock(root: &Path) -> Result<File, ScratchError> {
    let path = root.join("lock");
    let error = |e| FileError::new("lock", &path, e);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ScratchError::Busy(root.to_owned())),
        Err(TryLockError::Error(e)) => Err(error(e).into()),
    }
}
