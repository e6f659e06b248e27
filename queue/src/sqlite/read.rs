//! The reading connection.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;

use super::error::translate;
use crate::message::RunId;
use crate::store::Error;

pub(super) struct Reader {
    connection: Connection,
    place: Arc<str>,
}

impl Reader {
    pub(super) const fn new(connection: Connection, place: Arc<str>) -> Self {
        Self { connection, place }
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads several values in one transaction: the pages that the writer has changed are fetched
    /// anew once, not once per value.
    pub(super) fn together<K, V>(
        &self,
        keys: &[K],
        read: impl Fn(&Self, &K) -> Result<V, Error>,
        values: &mut Vec<V>,
    ) -> Result<(), Error> {
        let begun = self.connection.unchecked_transaction();
        let _transaction = begun.map_err(|e| translate(&self.place, &e))?;
        for key in keys {
            values.push(read(self, key)?);
        }
        Ok(())
    }

    pub(super) fn blob(&self, hash: &Hash) -> Result<Option<Bytes>, Error> {
        let found = self.value("SELECT content FROM blobs WHERE hash = ?1", hash)?;
        if let Some(content) = &found
            && Hash::of(content) != *hash
        {
            let detail = format!("blob `{hash}` has other content than its name says");
            return Err(Error::Corrupt {
                place: self.place.to_string(),
                detail,
            });
        }
        Ok(found)
    }

    /// Whether there is a blob, without reading it.
    pub(super) fn has_blob(&self, hash: &Hash) -> Result<bool, Error> {
        let read = || {
            let sql = "SELECT 1 FROM blobs WHERE hash = ?1";
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.exists([hash.as_bytes().as_slice()])
        };
        read().map_err(|e| translate(&self.place, &e))
    }

    pub(super) fn result(&self, key: &Key) -> Result<Option<Bytes>, Error> {
        self.value("SELECT record FROM results WHERE key = ?1", &key.0)
    }

    pub(super) fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, Error> {
        let read = || {
            let sql = "SELECT event FROM events WHERE run = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3";
            let mut statement = self.connection.prepare_cached(sql)?;
            let (from, max) = (to_i64(from), to_i64(max as u64));
            let rows = statement.query_map(params![run.as_str(), from, max], |row| {
                Ok(Bytes::from(row.get::<_, Vec<u8>>(0)?))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(|e| translate(&self.place, &e))
    }

    fn value(&self, sql: &str, name: &Hash) -> Result<Option<Bytes>, Error> {
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let row = statement.query_row([name.as_bytes().as_slice()], |row| {
                Ok(Bytes::from(row.get::<_, Vec<u8>>(0)?))
            });
            row.optional()
        };
        read().map_err(|e| translate(&self.place, &e))
    }
}

/// SQLite counts in `i64`; what lies beyond is beyond every table.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
