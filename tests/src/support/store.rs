//! A look into a run's database file, as a person with any SQLite tool would take it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// Returns how many results a store holds; 0 if there is none yet. Changes nothing.
///
/// # Panics
/// The file is damaged.
#[must_use]
pub fn results(store: &Path) -> u64 {
    if !store.exists() {
        return 0;
    }
    let file = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("a store opens");
    let table = "SELECT count(*) FROM sqlite_schema WHERE name = 'results'";
    let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0));
    // A process that was killed early has left an empty file.
    let n = match count(table).expect("a store can be read") {
        0 => 0,
        _ => count("SELECT count(*) FROM results").expect("results can be counted"),
    };
    u64::try_from(n).expect("a count is not negative")
}
