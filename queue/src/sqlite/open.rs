//! Opening a file: whose it is, what it holds, how it is used.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::Options;
use super::error::{translate, translate_io};
use crate::store::Error;

/// Marks our files, in the field that SQLite has for it ("skoq").
const APPLICATION_ID: i32 = 0x736b_6f71;
/// Format of the file; a program refuses files with a higher one.
const FORMAT: i64 = 1;
/// Larger than SQLite's default: records of some kilobytes share a page, and a group of them needs
/// fewer writes.
const PAGE_BYTES: u32 = 4_096;
/// How long a person's reading tool may hold us up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE blobs (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, content BLOB NOT NULL);
CREATE TABLE results (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, record BLOB NOT NULL);
CREATE TABLE events (
    run TEXT NOT NULL, seq INTEGER NOT NULL, event BLOB NOT NULL, PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE VIEW blobs_text AS
    SELECT id, lower(hex(hash)) AS hash, length(content) AS bytes, CAST(content AS TEXT) AS content
    FROM blobs;
CREATE VIEW results_text AS
    SELECT id, lower(hex(key)) AS key, length(record) AS bytes, CAST(record AS TEXT) AS record
    FROM results;
CREATE VIEW events_text AS SELECT run, seq, CAST(event AS TEXT) AS event FROM events;
INSERT INTO meta VALUES ('program', 'skillopt'), ('format', '1');
";

/// Takes the file for this process.
///
/// The lock is on a file of its own, because closing any handle of the database file would lift
/// the locks that SQLite holds on it.
pub(super) fn lock(path: &Path, place: &str) -> Result<File, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let options = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .to_owned();
    let file = options
        .open(PathBuf::from(name))
        .map_err(|e| translate_io(place, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy {
            place: place.to_owned(),
        }),
        Err(TryLockError::Error(e)) => Err(translate_io(place, &e)),
    }
}

/// Opens the connection that writes, and makes the file if it is new.
pub(super) fn for_writing(path: &Path, place: &str, options: Options) -> Result<Connection, Error> {
    let connection = writable(path, place)?;
    let wrap = |e: rusqlite::Error| translate(place, &e);
    // A bigger log means fewer checkpoints, each of which waits for the disk.
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
        PRAGMA wal_autocheckpoint = 16384; PRAGMA journal_size_limit = 67108864;
        PRAGMA cache_size = -4096;";
    connection.execute_batch(pragmas).map_err(wrap)?;
    if let Some(bytes) = options.bytes_max {
        let pages = i64::try_from(bytes / u64::from(PAGE_BYTES))
            .unwrap_or(i64::MAX)
            .max(1);
        connection
            .pragma_update(None, "max_page_count", pages)
            .map_err(wrap)?;
    }
    Ok(connection)
}

/// Opens the only connection to a file that is of use only once it is whole.
pub(super) fn for_a_copy(path: &Path, place: &str) -> Result<Connection, Error> {
    let connection = writable(path, place)?;
    // Pages that are changed again and again stay in memory until it is full of them.
    let pragmas =
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384;";
    let done = connection.execute_batch(pragmas);
    done.map_err(|e| translate(place, &e))?;
    Ok(connection)
}

fn writable(path: &Path, place: &str) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = connect(path, place, flags)?;
    let is_readonly = connection.is_readonly("main");
    if is_readonly.map_err(|e| translate(place, &e))? {
        return Err(Error::ReadOnly {
            place: place.to_owned(),
        });
    }
    examine_or_create(&connection, place)?;
    Ok(connection)
}

/// Opens the connection that reads.
pub(super) fn for_reading(path: &Path, place: &str) -> Result<Connection, Error> {
    connect(path, place, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn connect(path: &Path, place: &str, flags: OpenFlags) -> Result<Connection, Error> {
    // Each connection is used by one thread at a time.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let wrap = |e: rusqlite::Error| translate(place, &e);
    let connection = Connection::open_with_flags(path, flags).map_err(wrap)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(wrap)?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok(connection)
}

fn examine_or_create(connection: &Connection, place: &str) -> Result<(), Error> {
    let wrap = |e: rusqlite::Error| translate(place, &e);
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(wrap)
    };
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let application = number("PRAGMA application_id")?;
    let found = number("PRAGMA user_version")?;
    if tables == 0 && application == 0 && found == 0 {
        return create(connection).map_err(wrap);
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(Error::Foreign {
            place: place.to_owned(),
        });
    }
    if found > FORMAT {
        return Err(Error::Newer {
            place: place.to_owned(),
            found,
            known: FORMAT,
        });
    }
    let ours = "SELECT count(*) FROM sqlite_schema
        WHERE type = 'table' AND name IN ('meta', 'blobs', 'results', 'events')";
    if number(ours)? != 4 {
        let detail = "a table is missing".to_owned();
        return Err(Error::Corrupt {
            place: place.to_owned(),
            detail,
        });
    }
    Ok(())
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // All in one transaction: a file is either empty or complete.
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {SCHEMA}
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
    ))
}
