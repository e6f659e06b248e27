//! The runs on the board: taken, found, listed, wished about. Any coordinator may do this for any
//! run; only its holder says how a run stands while it is at work.

mod look;
mod upkeep;

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use skillopt_core::Hash;
use skillopt_queue::board::{self, Expect};
use skillopt_queue::ledger::Caps;
use skillopt_queue::queue::{Which, Withdrawn};
use skillopt_queue::{Board, Fence, RunId};

use super::bell::Bell;
use super::error::Error;
use super::parts::Parts;
use super::record::{OPEN, RunRecord, State, VERSION};
use crate::sweep::runs::Wish;

pub use look::{Filter, Page, tenants};

/// Writers that may be faster than us before we say so.
const CONFLICTS_MAX: usize = 20;

/// A run that is asked for.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The same key again is the same run.
    pub client_key: String,
    /// Shown to people.
    pub name: String,
    /// `train` or `eval`.
    pub kind: String,
    /// Whose it is.
    pub tenant: String,
    /// Who asks.
    pub owner: String,
    /// The inputs.
    pub bundle: Hash,
    /// Skill that is evaluated in place of what the bundle is for.
    pub skill: Option<Hash>,
    /// The sweep, or empty.
    pub sweep: String,
    /// The cell, or empty.
    pub cell: String,
    /// Share against other runs.
    pub weight: u32,
    /// 0 (last) to 7 (first).
    pub priority: u8,
    /// Most that it may use.
    pub caps: Caps,
}

impl Submission {
    /// Returns the id of the run: equal for equal tenants and client keys.
    #[must_use]
    pub fn id(&self) -> String {
        let parts = [b"run".as_slice(), self.tenant.as_bytes()];
        let key = self.client_key.as_bytes();
        Hash::of_parts(parts.into_iter().chain([key])).short()
    }
}

/// A record with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The run.
    pub run: RunRecord,
    /// How often it was written.
    pub version: u64,
}

/// The runs on the board; clones share it.
#[derive(Clone)]
pub struct Table {
    parts: Parts,
    bell: Arc<Bell>,
}

impl Table {
    /// Opens the table.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let bell = Arc::default();
        Self { parts, bell }
    }

    /// Rung when this process changes what is wanted of a run.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Takes a run. Returns whether its client key was used before; then it is that run.
    ///
    /// # Errors
    /// The key was used for something else, or the board cannot be reached.
    pub async fn submit(&self, new: Submission) -> Result<(Stored, bool), Error> {
        let now = self.parts.board.now().await?.as_ms();
        let run = RunRecord {
            version: VERSION,
            id: new.id(),
            name: new.name,
            kind: new.kind,
            tenant: new.tenant,
            owner: new.owner,
            bundle: new.bundle,
            skill: new.skill,
            sweep: new.sweep,
            cell: new.cell,
            weight: new.weight,
            priority: new.priority,
            caps: new.caps,
            wish: Wish::Run,
            state: State::Queued,
            cause: String::new(),
            cause_class: String::new(),
            submitted_ms: now,
            started_ms: 0,
            ended_ms: 0,
            coordinator: String::new(),
            tries: Vec::new(),
        };
        let path = RunRecord::path(&run.id);
        let board = &self.parts.board;
        let (stored, existed) = match board.put(&path, encode(&run)?, Expect::Absent, None).await {
            Ok(version) => (Stored { run, version }, false),
            Err(board::Error::Conflict { .. }) => {
                let first = self.must(&run.id).await?;
                if (first.run.bundle, first.run.skill) != (run.bundle, run.skill) {
                    return Err(Error::Exists(format!(
                        "client key `{}` is that of run `{}`, which has other inputs; choose another key",
                        new.client_key, run.id
                    )));
                }
                (first, true)
            }
            Err(e) => return Err(e.into()),
        };
        // Also when it was there: whoever wrote it may have come no further. The stored caps count,
        // not those that are asked for again: they may have been raised since.
        if existed || !stored.run.caps.is_none() {
            let purse = RunRecord::path(&stored.run.id);
            let caps = stored.run.caps;
            self.parts.ledger.set_caps(&purse, caps).await?;
        }
        self.list_it(&stored.run).await?;
        self.mark(&stored.run).await?;
        self.bell.ring();
        Ok((stored, existed))
    }

    async fn list_it(&self, run: &RunRecord) -> Result<(), Error> {
        for path in run.listed() {
            let id = Bytes::from(run.id.clone());
            self.parts.board.put(&path, id, Expect::Any, None).await?;
        }
        Ok(())
    }

    /// Sees to it that coordinators look at a run exactly as long as it is open.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn mark(&self, run: &RunRecord) -> Result<(), Error> {
        let (board, path) = (&self.parts.board, run.mark());
        if run.state.is_open() {
            let id = Bytes::from(run.id.clone());
            board.put(&path, id, Expect::Any, None).await?;
        } else {
            board.delete(&path, Expect::Any).await?;
        }
        Ok(())
    }

    /// Returns ids of runs that should be worked on, the most urgent first.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn open(&self, after: &str, max: usize) -> Result<Vec<(String, String)>, Error> {
        let found = self.parts.board.list(OPEN, after, max).await?;
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(found
            .into_iter()
            .map(|mark| (text(&mark.value), mark.path))
            .collect())
    }

    /// Returns a run by its whole id.
    ///
    /// # Errors
    /// The board cannot be reached, or the record cannot be read.
    pub async fn get(&self, id: &str) -> Result<Option<Stored>, Error> {
        let found = self.parts.board.get(&RunRecord::path(id)).await?;
        found.map(|record| decode_run(&record)).transpose()
    }

    async fn must(&self, id: &str) -> Result<Stored, Error> {
        let found = self.get(id).await?;
        found.ok_or_else(|| Error::NotFound(format!("run `{id}` is not there any more")))
    }

    /// Sets what is wanted of a run. If no coordinator works on it, the wish is granted at once.
    ///
    /// # Errors
    /// The run has ended otherwise than wished, or the board cannot be reached.
    pub async fn wish(&self, id: &str, wish: Wish, caps: Option<Caps>) -> Result<Stored, Error> {
        let now = self.parts.board.now().await?.as_ms();
        let is_held = self
            .parts
            .board
            .holder(&RunRecord::path(id))
            .await?
            .is_some();
        let stored = self
            .change(id, |run| {
                if run.state.is_over() {
                    let fits = wish == Wish::Cancel && run.state == State::Cancelled;
                    return if fits { Ok(()) } else { Err(ended(run)) };
                }
                run.wish = wish;
                if let Some(caps) = caps {
                    run.caps = caps;
                }
                match wish {
                    Wish::Run if run.state == State::Paused => {
                        run.state = State::Queued;
                        run.cause.clear();
                        run.cause_class.clear();
                        run.tries.clear();
                    }
                    Wish::Pause if run.state.is_open() && !is_held => {
                        run.stop(State::Paused, "person", "", now);
                    }
                    Wish::Cancel if !is_held => {
                        run.end(State::Cancelled, now);
                    }
                    _ => {}
                }
                Ok(())
            })
            .await?;
        if let Some(caps) = caps {
            let purse = RunRecord::path(id);
            self.parts.ledger.set_caps(&purse, caps).await?;
        }
        self.mark(&stored.run).await?;
        self.bell.ring();
        if wish == Wish::Pause && !is_held {
            // Jobs of a holder that died. If they stay, they are run for the store.
            drop(self.parts.queue.cancel(&RunId::new(id), Which::Idle).await);
        }
        Ok(stored)
    }

    /// Withdraws the jobs of a run at once, whoever works on it.
    ///
    /// # Errors
    /// The queue cannot be reached.
    pub async fn withdraw(&self, id: &str) -> Result<Withdrawn, Error> {
        let run = RunId::new(id);
        let done = self.parts.queue.cancel(&run, Which::All).await;
        done.map_err(|e| Error::Unavailable(e.to_string()))
    }

    async fn change(
        &self,
        id: &str,
        mut change: impl FnMut(&mut RunRecord) -> Result<(), Error>,
    ) -> Result<Stored, Error> {
        for _ in 0..CONFLICTS_MAX {
            let Stored { mut run, version } = self.must(id).await?;
            let before = run.clone();
            change(&mut run)?;
            if run == before {
                return Ok(Stored { run, version });
            }
            let path = RunRecord::path(id);
            let expect = Expect::Version(version);
            match self
                .parts
                .board
                .put(&path, encode(&run)?, expect, None)
                .await
            {
                Ok(version) => return Ok(Stored { run, version }),
                Err(board::Error::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(busy(id))
    }

    /// Changes a run as its holder.
    ///
    /// # Errors
    /// [`board::Error::NotHolder`] inside if the right to it is lost.
    pub async fn change_held(
        &self,
        id: &str,
        fence: Fence,
        mut change: impl FnMut(&mut RunRecord),
    ) -> Result<Stored, HeldError> {
        let path = RunRecord::path(id);
        for _ in 0..CONFLICTS_MAX {
            let Stored { mut run, version } = self.must(id).await?;
            change(&mut run);
            let (bytes, expect) = (encode(&run)?, Expect::Version(version));
            let board = &self.parts.board;
            match board.put_fenced(&path, bytes, expect, &path, fence).await {
                Ok(version) => return Ok(Stored { run, version }),
                Err(board::Error::Conflict { .. }) => {}
                Err(board::Error::NotHolder { .. }) => return Err(HeldError::Lost),
                Err(board::Error::Store(e)) => return Err(Error::from(e).into()),
            }
        }
        Err(busy(id).into())
    }

    /// Returns the board.
    #[must_use]
    pub fn board(&self) -> &Arc<dyn Board> {
        &self.parts.board
    }
}

/// Why a holder cannot change its run.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// Another coordinator has it.
    #[error("another coordinator has taken the run over")]
    Lost,
    /// Something else.
    #[error(transparent)]
    Other(#[from] Error),
}

fn ended(run: &RunRecord) -> Error {
    Error::Precondition(format!(
        "run `{}` has ended: {}; submit it again for a new one",
        run.id,
        run.state.word()
    ))
}

fn busy(id: &str) -> Error {
    Error::Unavailable(format!("run `{id}` is changed by many at once; ask again"))
}

fn encode(run: &RunRecord) -> Result<Bytes, Error> {
    let bytes = serde_json::to_vec(run).map_err(|e| Error::Internal(e.to_string()))?;
    Ok(bytes.into())
}

pub(super) fn decode_run(record: &board::Record) -> Result<Stored, Error> {
    Ok(Stored {
        run: decode(record)?,
        version: record.version,
    })
}

/// Reads a record of ours.
pub(super) fn decode<T: DeserializeOwned>(record: &board::Record) -> Result<T, Error> {
    serde_json::from_slice(&record.value).map_err(|e| {
        let path = &record.path;
        Error::Internal(format!(
            "the record `{path}` cannot be read: {e}; is another release of skillopt at work?"
        ))
    })
}
