//! The writing thread.

use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use tokio::sync::{mpsc, oneshot};

use super::error::{translate, translate_io};
use super::read::to_i64;
use crate::commit::Commit;
use crate::message::RunId;
use crate::store::Error;

/// Most writes in one transaction.
const GROUP_MAX: usize = 1_024;
/// A group is closed once it has this many bytes.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// One write.
pub(super) enum Op {
    Blobs {
        blobs: Vec<(Hash, Bytes)>,
        done: oneshot::Sender<Result<(), Error>>,
    },
    Result(Commit),
    Event {
        run: RunId,
        seq: u64,
        event: Bytes,
        done: oneshot::Sender<Result<(), Error>>,
    },
}

/// What a write answers when its transaction has been committed.
enum Outcome {
    Done,
    Result {
        is_first: bool,
    },
    /// The write alone was refused; the others of its group are not concerned.
    Refused(Error),
}

pub(super) fn start(
    connection: Connection,
    place: Arc<str>,
    inbox: mpsc::Receiver<Op>,
) -> Result<JoinHandle<()>, Error> {
    let writer = Writer {
        connection,
        place: place.clone(),
    };
    let thread = std::thread::Builder::new().name("store writer".into());
    thread
        .spawn(move || writer.run(inbox))
        .map_err(|e| translate_io(&place, &e))
}

struct Writer {
    connection: Connection,
    place: Arc<str>,
}

impl Writer {
    /// Commits what comes until nobody can write any more.
    fn run(self, mut inbox: mpsc::Receiver<Op>) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        while let Some(first) = inbox.blocking_recv() {
            let mut bytes = first.bytes();
            group.push(first);
            while group.len() < GROUP_MAX && bytes < GROUP_BYTES_MAX {
                let Ok(next) = inbox.try_recv() else { break };
                bytes += next.bytes();
                group.push(next);
            }
            self.commit(&mut group);
        }
        // Leave one tidy file behind; if this fails the next opening does it.
        drop(
            self.connection
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"),
        );
    }

    /// Commits a group and answers its writes; leaves the group empty.
    fn commit(&self, group: &mut Vec<Op>) {
        match self.transact(group) {
            Ok(outcomes) => {
                group
                    .drain(..)
                    .zip(outcomes)
                    .for_each(|(op, outcome)| op.answer(outcome));
            }
            // One write may be too much where the others are not: each for itself then.
            Err(error) if group.len() > 1 && is_about_size(&error) => {
                for op in group.drain(..) {
                    let mut alone = vec![op];
                    self.commit(&mut alone);
                }
            }
            Err(error) => {
                let error = translate(&self.place, &error);
                group
                    .drain(..)
                    .for_each(|op| op.answer(Outcome::Refused(error.clone())));
            }
        }
    }

    fn transact(&self, group: &[Op]) -> rusqlite::Result<Vec<Outcome>> {
        let transaction = self.connection.unchecked_transaction()?;
        let outcomes = group
            .iter()
            .map(|op| self.apply(op))
            .collect::<Result<_, _>>()?;
        transaction.commit()?;
        Ok(outcomes)
    }

    fn apply(&self, op: &Op) -> rusqlite::Result<Outcome> {
        match op {
            Op::Blobs { blobs: named, .. } => {
                blobs(&self.connection, named)?;
                Ok(Outcome::Done)
            }
            Op::Result(commit) => Ok(Outcome::Result {
                is_first: result(&self.connection, &commit.key, &commit.result)?,
            }),
            Op::Event {
                run, seq, event, ..
            } => Ok(match self::event(&self.connection, run, *seq, event)? {
                Ok(()) => Outcome::Done,
                Err(refused) => Outcome::Refused(refused),
            }),
        }
    }
}

/// Writes those blobs that are not there.
pub(super) fn blobs(connection: &Connection, blobs: &[(Hash, Bytes)]) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO blobs (hash, content) VALUES (?1, ?2)";
    let mut insert = connection.prepare_cached(sql)?;
    for (hash, content) in blobs {
        insert.execute(params![hash.as_bytes().as_slice(), &**content])?;
    }
    Ok(())
}

/// Writes a result unless its key has one; returns whether it was the first.
pub(super) fn result(connection: &Connection, key: &Key, result: &[u8]) -> rusqlite::Result<bool> {
    let sql = "INSERT OR IGNORE INTO results (key, record) VALUES (?1, ?2)";
    let mut insert = connection.prepare_cached(sql)?;
    let count = insert.execute(params![key.0.as_bytes().as_slice(), result])?;
    Ok(count == 1)
}

/// Appends an event, or says why it does not fit its log; then nothing is written.
pub(super) fn event(
    connection: &Connection,
    run: &RunId,
    seq: u64,
    event: &[u8],
) -> rusqlite::Result<Result<(), Error>> {
    let sql = "SELECT event FROM events WHERE run = ?1 AND seq = ?2";
    let mut find = connection.prepare_cached(sql)?;
    let name = params![run.as_str(), to_i64(seq)];
    let present: Option<Vec<u8>> = find.query_row(name, |row| row.get(0)).optional()?;
    if let Some(present) = present {
        let conflict = || Error::Conflict {
            run: run.clone(),
            seq,
        };
        return Ok((present == event).then_some(()).ok_or_else(conflict));
    }
    let sql = "SELECT coalesce(max(seq) + 1, 0) FROM events WHERE run = ?1";
    let mut last = connection.prepare_cached(sql)?;
    let next: i64 = last.query_row([run.as_str()], |row| row.get(0))?;
    if next != to_i64(seq) {
        let next = u64::try_from(next).unwrap_or_default();
        return Ok(Err(Error::Gap {
            run: run.clone(),
            seq,
            next,
        }));
    }
    let sql = "INSERT INTO events (run, seq, event) VALUES (?1, ?2, ?3)";
    connection
        .prepare_cached(sql)?
        .execute(params![run.as_str(), next, event])?;
    Ok(Ok(()))
}

impl Op {
    fn bytes(&self) -> usize {
        match self {
            Self::Blobs { blobs, .. } => blobs.iter().map(|(_, content)| content.len()).sum(),
            Self::Result(commit) => commit.result.len(),
            Self::Event { event, .. } => event.len(),
        }
    }

    fn answer(self, outcome: Outcome) {
        match self {
            // Nobody listens any more if the caller was dropped.
            Self::Blobs { done, .. } | Self::Event { done, .. } => {
                drop(done.send(outcome.into_result().map(|_| ())));
            }
            Self::Result(Commit { then, .. }) => then(outcome.into_result()),
        }
    }
}

impl Outcome {
    fn into_result(self) -> Result<bool, Error> {
        match self {
            Self::Done => Ok(true),
            Self::Result { is_first } => Ok(is_first),
            Self::Refused(error) => Err(error),
        }
    }
}

/// Whether a smaller transaction may succeed.
fn is_about_size(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DiskFull, OutOfMemory, TooBig};
    matches!(
        error.sqlite_error_code(),
        Some(DiskFull | OutOfMemory | TooBig)
    )
}
