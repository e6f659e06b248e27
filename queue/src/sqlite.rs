//! A store in one SQLite file.
//!
//! One thread writes; whatever has gathered while it was busy goes into one transaction, so
//! that many small writes share one commit and a lone write waits for nobody. Reads
//! use a connection of their own and never wait for the writer.
//!
//! A file belongs to one process at a time, by a lock on `<file>.lock` that the operating system
//! lifts when the process dies. People may read the file meanwhile with any SQLite tool.
//! After `kill -9` every acknowledged write is there; after a power cut the last ones may be
//! missing, but the file is whole.

mod copy;
mod error;
mod open;
mod peek;
mod read;
mod recent;
#[cfg(test)]
mod tests;
mod write;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use tokio::sync::{mpsc, oneshot};

pub use self::copy::SqliteCopy;
pub use self::peek::SqlitePeek;
use self::read::Reader;
use self::recent::Recent;
use self::write::Op;
use crate::commit::Commit;
use crate::message::RunId;
use crate::store::{BLOB_BYTES_MAX, EVENT_BYTES_MAX, Error, RESULT_BYTES_MAX, Store, check_size};

/// Writes that may wait for the writer; whoever comes later waits with their write in hand.
const WRITES_WAITING_MAX: usize = 4_096;
/// Values read before other tasks get a turn.
const READ_CHUNK: usize = 128;

/// What can be chosen about a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes above which the file must not grow (then writes fail with [`Error::Full`]); `None`
    /// leaves it to the disk.
    pub bytes_max: Option<u64>,
}

/// A store in one file. Clones share it; the last one to go closes it.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    place: Arc<str>,
    /// `None` only while closing.
    writes: Option<mpsc::Sender<Op>>,
    writer: Option<JoinHandle<()>>,
    reader: Mutex<Reader>,
    recent: Mutex<Recent>,
    /// Unlocks when it closes, after the connections above.
    _lock: std::fs::File,
}

/// Room for one write.
pub(crate) struct Permit<'a>(mpsc::Permit<'a, Op>);

impl Permit<'_> {
    pub(crate) fn send(self, commit: Commit) {
        self.0.send(Op::Result(commit));
    }
}

impl SqliteStore {
    /// Opens a file, or makes it. Takes a few milliseconds and blocks.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process has it, [`Error::Foreign`], [`Error::Newer`] or
    /// [`Error::Corrupt`] if it is not a file of ours that this program can use,
    /// [`Error::ReadOnly`] or [`Error::Io`] if the place does not allow it.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let place: Arc<str> = path.display().to_string().into();
        let lock = open::lock(path, &place)?;
        let connection = open::for_writing(path, &place, options)?;
        let reader = Reader::new(open::for_reading(path, &place)?, place.clone());
        let (writes, inbox) = mpsc::channel(WRITES_WAITING_MAX);
        let writer = write::start(connection, place.clone(), inbox)?;
        let shared = Shared {
            place,
            writes: Some(writes),
            writer: Some(writer),
            reader: Mutex::new(reader),
            recent: Mutex::default(),
            _lock: lock,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    pub(crate) async fn reserve(&self) -> Result<Permit<'_>, Error> {
        let closed = || Error::Closed {
            place: self.shared.place.to_string(),
        };
        let writes = self.shared.writes.as_ref().ok_or_else(closed)?;
        writes.reserve().await.map(Permit).map_err(|_| closed())
    }

    /// Hands a write to the writer and waits for its commit.
    async fn write<T>(
        &self,
        op: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Op,
    ) -> Result<T, Error> {
        let permit = self.reserve().await?;
        let (done, answer) = oneshot::channel();
        permit.0.send(op(done));
        let closed = Error::Closed {
            place: self.shared.place.to_string(),
        };
        answer.await.unwrap_or(Err(closed))
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        // No section under this lock can panic half-way.
        self.shared
            .recent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&Reader) -> Result<T, Error>) -> Result<T, Error> {
        // A reader keeps no state between calls, so a poisoned lock is still consistent.
        read(
            &self
                .shared
                .reader
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Reads values one by one, letting other tasks have a turn now and then.
    async fn read_each<K: Sync, V: Send>(
        &self,
        keys: &[K],
        read: impl Fn(&Reader, &K) -> Result<V, Error> + Send + Sync,
    ) -> Result<Vec<V>, Error> {
        let mut values = Vec::with_capacity(keys.len());
        for (i, chunk) in keys.chunks(READ_CHUNK).enumerate() {
            if i > 0 {
                tokio::task::yield_now().await;
            }
            self.read(|reader| reader.together(chunk, &read, &mut values))?;
        }
        Ok(values)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without senders the writer commits what it has and ends.
        self.writes = None;
        if let Some(writer) = self.writer.take()
            && writer.thread().id() != std::thread::current().id()
        {
            // A panic of the writer has already been told: every waiting write got `Closed`.
            drop(writer.join());
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, Error> {
        for blob in &blobs {
            check_size("blob", blob.len(), BLOB_BYTES_MAX)?;
        }
        let blobs: Vec<(Hash, Bytes)> = blobs.into_iter().map(|b| (Hash::of(&b), b)).collect();
        let hashes = blobs.iter().map(|(hash, _)| *hash).collect();
        if !blobs.is_empty() {
            let copies = blobs.clone();
            self.write(|done| Op::Blobs { blobs, done }).await?;
            let mut recent = self.recent();
            for (hash, blob) in copies {
                recent.put(hash, blob);
            }
        }
        Ok(hashes)
    }

    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, Error> {
        let mut found: Vec<Option<Bytes>> = {
            let recent = self.recent();
            hashes.iter().map(|hash| recent.get(hash)).collect()
        };
        let missing: Vec<Hash> = hashes
            .iter()
            .zip(&found)
            .filter_map(|(hash, blob)| blob.is_none().then_some(*hash))
            .collect();
        let mut read = self.read_each(&missing, Reader::blob).await?.into_iter();
        for blob in found.iter_mut().filter(|blob| blob.is_none()) {
            *blob = read.next().flatten();
        }
        Ok(found)
    }

    async fn missing(&self, hashes: &[Hash]) -> Result<Vec<Hash>, Error> {
        let unsure: Vec<Hash> = {
            let recent = self.recent();
            let unsure = hashes.iter().filter(|hash| recent.get(hash).is_none());
            unsure.copied().collect()
        };
        let there = self.read_each(&unsure, Reader::has_blob).await?;
        let missing = unsure.into_iter().zip(there);
        Ok(missing
            .filter_map(|(hash, is_there)| (!is_there).then_some(hash))
            .collect())
    }

    async fn put_result(&self, key: Key, result: Bytes) -> Result<bool, Error> {
        check_size("result", result.len(), RESULT_BYTES_MAX)?;
        self.write(|done| {
            // Nobody listens any more if the caller was dropped.
            let then = Box::new(move |answer| drop(done.send(answer)));
            Op::Result(Commit { key, result, then })
        })
        .await
    }

    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, Error> {
        self.read_each(keys, Reader::result).await
    }

    async fn append_event(&self, run: &RunId, seq: u64, event: Bytes) -> Result<(), Error> {
        check_size("event", event.len(), EVENT_BYTES_MAX)?;
        let run = run.clone();
        self.write(|done| Op::Event {
            run,
            seq,
            event,
            done,
        })
        .await
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, Error> {
        self.read(|reader| reader.events(run, from, max))
    }
}
