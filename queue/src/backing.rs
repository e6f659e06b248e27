//! The stores that an embedded queue can stand on.

use std::sync::Arc;

use crate::commit::Commit;
use crate::memory::MemoryStore;
use crate::sqlite::{self, SqliteStore};
use crate::store::Error;

/// The stores that an embedded queue can stand on.
#[derive(Clone)]
pub enum Backing {
    /// A file.
    Sqlite(SqliteStore),
    /// The memory of this process.
    Memory(MemoryStore),
}

impl From<SqliteStore> for Backing {
    fn from(store: SqliteStore) -> Self {
        Self::Sqlite(store)
    }
}

impl From<MemoryStore> for Backing {
    fn from(store: MemoryStore) -> Self {
        Self::Memory(store)
    }
}

/// Room for one commit. Waiting for it comes first, so that everything after it happens without a
/// pause in which the caller could be dropped.
pub(crate) enum Permit<'a> {
    Sqlite(sqlite::Permit<'a>),
    Memory(&'a MemoryStore),
}

impl Backing {
    pub(crate) async fn reserve(&self) -> Result<Permit<'_>, Error> {
        Ok(match self {
            Self::Sqlite(store) => Permit::Sqlite(store.reserve().await?),
            Self::Memory(store) => Permit::Memory(store),
        })
    }

    pub(crate) fn to_store(&self) -> Arc<dyn crate::Store> {
        match self.clone() {
            Self::Sqlite(store) => Arc::new(store),
            Self::Memory(store) => Arc::new(store),
        }
    }
}

impl Permit<'_> {
    /// Starts the commit; [`Commit::then`] will be called, whatever happens.
    pub(crate) fn send(self, commit: Commit) {
        match self {
            Self::Sqlite(permit) => permit.send(commit),
            Self::Memory(store) => {
                let is_first = store.insert_result(commit.key, commit.result);
                (commit.then)(Ok(is_first));
            }
        }
    }
}
