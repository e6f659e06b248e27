//! The runs on the board: taken, found, listed, wished about. Any coordinator may do this for any
//! run; only its holder says how a run stands while it is at work.

mod upkeep;

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use skillopt_core::{Hash, suggest};
use skillopt_queue::board::{self, Expect};
use skillopt_queue::ledger::Caps;
use skillopt_queue::queue::{Which, Withdrawn};
use skillopt_queue::{Board, Fence, RunId};

use super::bell::Bell;
use super::error::Error;
use super::parts::Parts;
use super::record::{BY_TENANT, BY_TIME, OPEN, RunRecord, State, VERSION, group};
use crate::sweep::runs::Wish;

/// Runs that are looked at for the nearest id.
const NEAR_AMONG: usize = 200;
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

/// A page of runs.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The runs, the newest first.
    pub runs: Vec<Stored>,
    /// Where the next page begins; nothing on the last one.
    pub next: Option<String>,
}

/// Which runs are listed.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// Only this sweep's; empty: those of none.
    pub sweep: String,
    /// Only those in this state.
    pub state: Option<State>,
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

    /// Returns the run whose id begins with `prefix`, among those of `tenant` or of all.
    ///
    /// # Errors
    /// None or several begin so; the words name the nearest.
    pub async fn find(&self, tenant: Option<&str>, prefix: &str) -> Result<Stored, Error> {
        let prefix = prefix.trim();
        if prefix.is_empty() {
            return Err(Error::Invalid(
                "a run is named by its id; it is empty".to_owned(),
            ));
        }
        let mine = |run: &RunRecord| tenant.is_none_or(|t| t == run.tenant);
        if let Some(stored) = self.get(prefix).await?.filter(|s| mine(&s.run)) {
            return Ok(stored);
        }
        let mut found = Vec::new();
        let mut after = String::new();
        // Others' runs may lie between.
        while found.len() < 4 {
            let begins = RunRecord::path(prefix);
            let page = self.parts.board.list(&begins, &after, 100).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.path);
            for record in &page {
                let stored = decode_run(record)?;
                found.extend(Some(stored).filter(|s| mine(&s.run)));
            }
        }
        if found.len() > 1 {
            let ids: Vec<String> = found.iter().take(3).map(|s| s.run.id.clone()).collect();
            return Err(Error::Invalid(format!(
                "`{prefix}` is the beginning of several runs: `{}`; type more of it",
                ids.join("`, `")
            )));
        }
        match found.pop() {
            Some(stored) => Ok(stored),
            None => Err(self.unknown(tenant, prefix).await),
        }
    }

    async fn unknown(&self, tenant: Option<&str>, id: &str) -> Error {
        let filter = Filter {
            tenant: tenant.map(str::to_owned),
            ..Filter::default()
        };
        let known = self.list(&filter, "", NEAR_AMONG).await.unwrap_or_default();
        let ids = known.runs.iter().map(|s| s.run.id.as_str());
        let near = suggest::nearest(id, ids)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        Error::NotFound(format!("there is no run `{id}`{near}"))
    }

    /// Returns at most `max` runs, the newest first, from those after `after` on.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn list(&self, filter: &Filter, after: &str, max: usize) -> Result<Page, Error> {
        let part = group(&filter.sweep);
        let prefix = match &filter.tenant {
            Some(tenant) => format!("{BY_TENANT}{tenant}/{part}"),
            None => format!("{BY_TIME}{part}"),
        };
        let mut after = match after {
            "" => String::new(),
            id => {
                let last = self.must(id).await?.run;
                let [all, own] = last.listed();
                if filter.tenant.is_some() { own } else { all }
            }
        };
        let mut page = Page::default();
        loop {
            let wanted = max + 1 - page.runs.len();
            let found = self.parts.board.list(&prefix, &after, wanted).await?;
            let is_last = found.len() < wanted;
            for entry in found {
                after.clone_from(&entry.path);
                let id = String::from_utf8_lossy(&entry.value).into_owned();
                let stored = self.get(&id).await?;
                let fits = |s: &Stored| filter.state.is_none_or(|state| state == s.run.state);
                page.runs.extend(stored.filter(fits));
            }
            if page.runs.len() > max {
                page.runs.truncate(max);
                page.next = page.runs.last().map(|s| s.run.id.clone());
                return Ok(page);
            }
            if is_last {
                return Ok(page);
            }
        }
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

/// Returns at most `max` tenants that have runs, by name.
///
/// # Errors
/// The board cannot be reached.
pub async fn tenants(board: &dyn Board, max: usize) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut after = String::new();
    while found.len() < max {
        let page = board.list(BY_TENANT, &after, 1).await?;
        let Some(first) = page.first() else { break };
        let rest = first.path.strip_prefix(BY_TENANT).unwrap_or_default();
        let name = rest.split('/').next().unwrap_or_default().to_owned();
        // On to the first path of the next tenant.
        after = format!("{BY_TENANT}{name}/\u{7f}");
        found.push(name);
    }
    Ok(found)
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
