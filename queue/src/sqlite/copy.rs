//! A store in a file that is made anew if this process dies: copies of answers for a download.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;

use super::error::translate;
use super::open;
use super::read::Reader;
use super::write;
use crate::message::RunId;
use crate::store::{BLOB_BYTES_MAX, EVENT_BYTES_MAX, Error, RESULT_BYTES_MAX, Store, check_size};

/// A store in one file of the format of [`super::SqliteStore`] that nobody else reads before it is
/// whole. What was written is in the file once [`Store::settle`] has said so; before, a crash leaves
/// nothing of use.
///
/// Values come in the order of hashes, so that each transaction changes most pages of an index. Here
/// all is one transaction, and a page is written once.
pub struct SqliteCopy {
    place: Arc<str>,
    reader: Mutex<Reader>,
    /// Unlocks when it closes, after the connection above.
    _lock: std::fs::File,
}

impl SqliteCopy {
    /// Makes the file. Takes a few milliseconds and blocks.
    ///
    /// # Errors
    /// As [`super::SqliteStore::open`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let place: Arc<str> = path.display().to_string().into();
        let lock = open::lock(path, &place)?;
        let connection = open::for_a_copy(path, &place)?;
        begin(&connection).map_err(|e| translate(&place, &e))?;
        Ok(Self {
            reader: Mutex::new(Reader::new(connection, Arc::clone(&place))),
            place,
            _lock: lock,
        })
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        // A reader keeps no state between calls, so a poisoned lock is still consistent.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, write: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        write(self.reader().connection()).map_err(|e| translate(&self.place, &e))
    }

    fn each<K, V>(
        &self,
        keys: &[K],
        read: impl Fn(&Reader, &K) -> Result<V, Error>,
    ) -> Result<Vec<V>, Error> {
        let reader = self.reader();
        keys.iter().map(|key| read(&reader, key)).collect()
    }
}

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")
}

#[async_trait]
impl Store for SqliteCopy {
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, Error> {
        for blob in &blobs {
            check_size("blob", blob.len(), BLOB_BYTES_MAX)?;
        }
        let named: Vec<(Hash, Bytes)> = blobs.into_iter().map(|b| (Hash::of(&b), b)).collect();
        self.write(|connection| write::blobs(connection, &named))?;
        Ok(named.into_iter().map(|(hash, _)| hash).collect())
    }

    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, Error> {
        self.each(hashes, Reader::blob)
    }

    async fn missing(&self, hashes: &[Hash]) -> Result<Vec<Hash>, Error> {
        let there = self.each(hashes, Reader::has_blob)?;
        let all = hashes.iter().zip(there);
        Ok(all
            .filter_map(|(hash, is_there)| (!is_there).then_some(*hash))
            .collect())
    }

    async fn put_result(&self, key: Key, result: Bytes) -> Result<bool, Error> {
        check_size("result", result.len(), RESULT_BYTES_MAX)?;
        self.write(|connection| write::result(connection, &key, &result))
    }

    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, Error> {
        self.each(keys, Reader::result)
    }

    async fn append_event(&self, run: &RunId, seq: u64, event: Bytes) -> Result<(), Error> {
        check_size("event", event.len(), EVENT_BYTES_MAX)?;
        self.write(|connection| write::event(connection, run, seq, &event))?
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, Error> {
        self.reader().events(run, from, max)
    }

    async fn settle(&self) -> Result<(), Error> {
        self.write(|connection| {
            connection.execute_batch("COMMIT")?;
            begin(connection)
        })
    }
}
