//! A store in the memory of this process, for tests and replays.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;

use crate::message::RunId;
use crate::store::{
    BLOB_BYTES_MAX, EVENT_BYTES_MAX, Error, RESULT_BYTES_MAX, Store, check_size, seq_to_index,
};

/// Keeps everything in memory, bounded only by what is put in. Clones share their content.
#[derive(Clone, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    blobs: HashMap<Hash, Bytes>,
    results: HashMap<Key, Bytes>,
    events: HashMap<RunId, Vec<Bytes>>,
}

impl MemoryStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many different blobs it has.
    #[must_use]
    pub fn blob_count(&self) -> usize {
        self.lock().blobs.len()
    }

    /// Stores a result unless its key has one; returns whether it was the first.
    pub(crate) fn insert_result(&self, key: Key, result: Bytes) -> bool {
        match self.lock().results.entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(result);
                true
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No critical section can panic half-way, so a poisoned lock is still consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, Error> {
        for blob in &blobs {
            check_size("blob", blob.len(), BLOB_BYTES_MAX)?;
        }
        let named: Vec<(Hash, Bytes)> = blobs.into_iter().map(|b| (Hash::of(&b), b)).collect();
        let hashes = named.iter().map(|(hash, _)| *hash).collect();
        self.lock().blobs.extend(named);
        Ok(hashes)
    }

    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, Error> {
        let inner = self.lock();
        Ok(hashes
            .iter()
            .map(|hash| inner.blobs.get(hash).cloned())
            .collect())
    }

    async fn put_result(&self, key: Key, result: Bytes) -> Result<bool, Error> {
        check_size("result", result.len(), RESULT_BYTES_MAX)?;
        Ok(self.insert_result(key, result))
    }

    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, Error> {
        let inner = self.lock();
        Ok(keys
            .iter()
            .map(|key| inner.results.get(key).cloned())
            .collect())
    }

    async fn append_event(&self, run: &RunId, seq: u64, event: Bytes) -> Result<(), Error> {
        check_size("event", event.len(), EVENT_BYTES_MAX)?;
        let mut inner = self.lock();
        let log = inner.events.entry(run.clone()).or_default();
        let index = seq_to_index(seq);
        match log.get(index) {
            Some(present) if *present == event => Ok(()),
            Some(_) => Err(Error::Conflict {
                run: run.clone(),
                seq,
            }),
            None if index == log.len() => {
                log.push(event);
                Ok(())
            }
            None => Err(Error::Gap {
                run: run.clone(),
                seq,
                next: log.len() as u64,
            }),
        }
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, Error> {
        let inner = self.lock();
        let log = inner.events.get(run).into_iter().flatten();
        Ok(log.skip(seq_to_index(from)).take(max).cloned().collect())
    }
}
