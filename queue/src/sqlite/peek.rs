//! Looking at a file without taking it: while another process may be writing it, or long after.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;

use super::open;
use super::read::Reader;
use crate::message::RunId;
use crate::store::{Error, Store};

/// Events read at a time.
const PAGE: usize = 256;

/// A store in one SQLite file that is only read. Every write is refused as [`Error::ReadOnly`].
pub struct SqlitePeek {
    place: Arc<str>,
    reader: Mutex<Reader>,
}

impl SqlitePeek {
    /// Opens a file that is there; does not wait for a process that writes it.
    ///
    /// # Errors
    /// The file is not there, or is none of ours.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let place: Arc<str> = path.display().to_string().into();
        let reader = Reader::new(open::for_reading(path, &place)?, place.clone());
        Ok(Self {
            place,
            reader: Mutex::new(reader),
        })
    }

    /// Returns the whole log of a run as it stands.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn log(&self, run: &RunId) -> Result<Vec<Bytes>, Error> {
        let mut events = Vec::new();
        loop {
            let page = self.reader().events(run, events.len() as u64, PAGE)?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        // A reader keeps no state between calls, so a poisoned lock is still consistent.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> Error {
        Error::ReadOnly {
            place: self.place.to_string(),
        }
    }
}

#[async_trait]
impl Store for SqlitePeek {
    async fn put_blobs(&self, _: Vec<Bytes>) -> Result<Vec<Hash>, Error> {
        Err(self.refused())
    }

    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, Error> {
        let mut found = Vec::with_capacity(hashes.len());
        self.reader().together(hashes, Reader::blob, &mut found)?;
        Ok(found)
    }

    async fn put_result(&self, _: Key, _: Bytes) -> Result<bool, Error> {
        Err(self.refused())
    }

    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, Error> {
        let mut found = Vec::with_capacity(keys.len());
        self.reader().together(keys, Reader::result, &mut found)?;
        Ok(found)
    }

    async fn append_event(&self, _: &RunId, _: u64, _: Bytes) -> Result<(), Error> {
        Err(self.refused())
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, Error> {
        self.reader().events(run, from, max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, SqliteStore};
    use super::*;

    #[tokio::test]
    async fn one_looks_on_while_another_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.sqlite");
        assert!(SqlitePeek::open(&path).is_err(), "nothing is made");
        assert!(!path.exists());
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        let run = RunId::new("r");
        for (seq, event) in [(0, "a"), (1, "b")] {
            store.append_event(&run, seq, event.into()).await.unwrap();
        }
        let blob = store.put_blob("text".into()).await.unwrap();
        let peek = SqlitePeek::open(&path).unwrap();
        assert_eq!(peek.log(&run).unwrap(), ["a", "b"]);
        assert_eq!(peek.blob(blob).await.unwrap(), "text");
        let refused = peek.append_event(&run, 2, "c".into()).await;
        assert!(matches!(refused, Err(Error::ReadOnly { .. })));
        store.append_event(&run, 2, "c".into()).await.unwrap();
        assert_eq!(peek.log(&run).unwrap().len(), 3);
    }
}
