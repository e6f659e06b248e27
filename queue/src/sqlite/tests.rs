use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use skillopt_core::hash::Hash;

use super::*;

/// Set for the process that a test starts and kills.
const CHILD: &str = "SKILLOPT_TEST_STORE";

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    (dir, path)
}

fn key(number: usize) -> Key {
    Key(Hash::of(&number.to_le_bytes()))
}

fn open(path: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(path, Options::default())
}

/// Makes a store, lets `spoil` have its file, and says what the next one to open it is told.
#[track_caller]
fn check_spoiled(spoil: impl FnOnce(&Path), expected: &str) {
    let (_dir, path) = place();
    drop(open(&path).unwrap());
    spoil(&path);
    let error = open(&path).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("store.db"), "{error}");
}

fn execute(sql: &str) -> impl FnOnce(&Path) {
    move |path| Connection::open(path).unwrap().execute_batch(sql).unwrap()
}

#[test]
fn a_newer_file_is_refused() {
    check_spoiled(
        execute("PRAGMA user_version = 7"),
        "has format 7, this program knows up to 1",
    );
}

#[test]
fn a_foreign_database_is_refused() {
    check_spoiled(
        execute("PRAGMA application_id = 5"),
        "is not a skillopt store",
    );
}

#[test]
fn a_file_without_its_tables_is_refused() {
    check_spoiled(execute("DROP TABLE events"), "a table is missing");
}

#[test]
fn a_text_file_is_refused() {
    let spoil = |path: &Path| std::fs::write(path, "not a database, ".repeat(9_000)).unwrap();
    check_spoiled(spoil, "is not a skillopt store");
}

#[test]
fn a_damaged_file_is_refused() {
    let spoil = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[100..3_000].fill(0xff);
        std::fs::write(path, bytes).unwrap();
    };
    check_spoiled(spoil, "is damaged");
}

#[test]
fn a_missing_folder_is_named() {
    let (_dir, path) = place();
    let error = open(&path.join("x/store.db")).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn a_file_in_use_is_refused_until_it_is_closed() {
    let (_dir, path) = place();
    let store = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::Busy { .. })));
    drop(store);
    open(&path).unwrap();
}

#[tokio::test]
async fn what_is_stored_is_there_after_reopening() {
    let (_dir, path) = place();
    let run = RunId::new("r1");
    let hash = {
        let store = open(&path).unwrap();
        store.put_result(key(1), "one".into()).await.unwrap();
        store.append_event(&run, 0, "start".into()).await.unwrap();
        store.put_blob("blob".into()).await.unwrap()
    };
    let store = open(&path).unwrap();
    assert_eq!(
        store.results(&[key(1)]).await.unwrap(),
        [Some("one".into())]
    );
    assert_eq!(store.events(&run, 0, 9).await.unwrap(), ["start"]);
    assert_eq!(store.blob(hash).await.unwrap(), "blob");
    assert_eq!(store.put_result(key(1), "two".into()).await, Ok(false));
}

#[tokio::test]
async fn a_person_can_read_the_file_while_it_is_in_use() {
    let (_dir, path) = place();
    let store = open(&path).unwrap();
    store
        .put_result(key(1), r#"{"hard":1}"#.into())
        .await
        .unwrap();
    let reader = Connection::open(&path).unwrap();
    let sql = "SELECT key, record -> 'hard' FROM results_text";
    let row: (String, String) = reader
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(row, (key(1).to_string(), "1".to_owned()));
}

#[tokio::test]
async fn a_blob_with_foreign_content_is_not_believed() {
    let (_dir, path) = place();
    let store = open(&path).unwrap();
    let hash = store.put_blob("true".into()).await.unwrap();
    // Opened again, so that the copy kept in memory is gone.
    drop(store);
    execute("UPDATE blobs SET content = x'00'")(&path);
    let store = open(&path).unwrap();
    assert!(matches!(store.blob(hash).await, Err(Error::Corrupt { .. })));
}

#[tokio::test]
async fn a_full_disk_fails_the_large_write_and_spares_the_small_one() {
    let (_dir, path) = place();
    let store = SqliteStore::open(
        &path,
        Options {
            bytes_max: Some(1 << 20),
        },
    )
    .unwrap();
    let large = Bytes::from(vec![b' '; 2 << 20]);
    let (small, large) = tokio::join!(
        store.put_result(key(1), "one".into()),
        store.put_result(key(2), large)
    );
    assert_eq!(small, Ok(true));
    assert_eq!(
        large,
        Err(Error::Full {
            place: path.display().to_string()
        })
    );
    let found = store.results(&[key(1), key(2)]).await.unwrap();
    assert_eq!(found, [Some("one".into()), None]);
    assert_eq!(store.put_result(key(2), "two".into()).await, Ok(true));
}

/// Not a test of its own: what the next test starts and kills.
#[tokio::test]
async fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let store = open(Path::new(&path)).unwrap();
    for number in 0..1_000_000 {
        store
            .put_result(key(number), number.to_string().into())
            .await
            .unwrap();
        eprintln!("stored {number}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let (_dir, path) = place();
    let name = "sqlite::tests::child_that_writes_until_it_is_killed";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, &path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let count = lines
        .filter(|line| line.starts_with("stored "))
        .take(200)
        .count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(count, 200);
    let store = open(&path).unwrap();
    let keys: Vec<Key> = (0..count).map(key).collect();
    let found = store.results(&keys).await.unwrap();
    for (number, result) in found.into_iter().enumerate() {
        assert_eq!(result, Some(number.to_string().into()));
    }
}

/// What SQLite reports, and what we make of it.
#[test]
fn errors_have_a_kind() {
    for (code, expected) in [
        (rusqlite::ffi::SQLITE_FULL, "no space left for `f`"),
        (rusqlite::ffi::SQLITE_READONLY, "`f` is read-only"),
        (rusqlite::ffi::SQLITE_PERM, "`f` is read-only"),
        (rusqlite::ffi::SQLITE_BUSY, "`f` is in use"),
        (rusqlite::ffi::SQLITE_CORRUPT, "`f` is damaged"),
        (rusqlite::ffi::SQLITE_NOTADB, "`f` is not a skillopt store"),
        (rusqlite::ffi::SQLITE_IOERR, "`f` failed"),
    ] {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let error = error::translate("f", &error).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_value_of_another_kind_is_not_believed() {
    let (_dir, path) = place();
    let store = open(&path).unwrap();
    store.put_result(key(1), "one".into()).await.unwrap();
    execute("UPDATE results SET record = 'one'")(&path);
    assert!(matches!(
        store.results(&[key(1)]).await,
        Err(Error::Corrupt { .. })
    ));
}

#[tokio::test]
async fn a_copy_is_a_store_once_it_is_settled() {
    let (_dir, path) = place();
    let copy = SqliteCopy::open(&path).unwrap();
    let run = RunId::new("r");
    // More than its memory for pages holds.
    let blobs: Vec<Bytes> = (0..300_u32)
        .map(|i| vec![i as u8; 100_000].into())
        .collect();
    let hashes = copy.put_blobs(blobs.clone()).await.unwrap();
    for i in 0..2_000 {
        let record = format!("record {i}");
        assert!(copy.put_result(key(i), record.into()).await.unwrap());
    }
    assert!(!copy.put_result(key(7), "another".into()).await.unwrap());
    copy.append_event(&run, 0, "a".into()).await.unwrap();
    let gap = copy.append_event(&run, 2, "c".into()).await.unwrap_err();
    assert!(matches!(gap, Error::Gap { next: 1, .. }), "{gap}");
    let conflict = copy.append_event(&run, 0, "b".into()).await.unwrap_err();
    assert!(
        matches!(conflict, Error::Conflict { seq: 0, .. }),
        "{conflict}"
    );
    // It reads what it wrote.
    let absent = Hash::of(b"absent");
    let asked = [hashes[3], absent];
    let found = copy.blobs(&asked).await.unwrap();
    assert_eq!(found, [Some(blobs[3].clone()), None]);
    assert_eq!(copy.missing(&asked).await.unwrap(), [absent]);
    copy.settle().await.unwrap();
    copy.append_event(&run, 1, "b".into()).await.unwrap();
    copy.settle().await.unwrap();
    assert!(matches!(
        SqliteCopy::open(&path).err(),
        Some(Error::Busy { .. })
    ));
    drop(copy);

    let store = open(&path).unwrap();
    let found = store.blobs(&hashes).await.unwrap();
    assert!(found.into_iter().flatten().eq(blobs));
    let keys: Vec<Key> = (0..2_000).map(key).collect();
    let found = store.results(&keys).await.unwrap();
    let records = (0..2_000).map(|i| Some(Bytes::from(format!("record {i}"))));
    assert!(found.into_iter().eq(records));
    assert_eq!(store.events(&run, 0, 9).await.unwrap(), ["a", "b"]);
}
