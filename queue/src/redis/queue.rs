//! The queue on a server.

mod bell;
mod finish;
mod held;
mod inbox;
mod lease;
mod pace;
mod recheck;
mod slots;
mod submit;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::redis::Value;
use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::job::Key;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::bell::Bell;
use self::finish::End;
use self::held::Held;
use self::slots::Slots;
use self::waiting::Waiting;
use super::letter::{key_of, letter, note};
use super::link::Link;
use super::reply;
use super::scripts::{ASKED, CANCEL, DEAD, HELLO, RENEW, RUNS, STATES, STATS};
use super::store::RedisStore;
use crate::clock::Timestamp;
use crate::message::{Enqueue, Lane, Leased, RunId, Ticket, Want};
use crate::notice::Notices;
use crate::queue::{
    Asked, Completed, DeadLetter, EVIDENCE_BYTES_MAX, Error, FAILURE_BYTES_MAX, Failure, JobState,
    LaneStats, Queue, Refused, Renewal, RunStats, Stats, Which, Withdrawn,
};
use crate::store;

/// Keys of one call.
const KEYS_MAX: usize = 1_000;

/// A queue on a server. Clones share it; when the last one goes, its tasks end.
#[derive(Clone)]
pub struct RedisQueue {
    core: Arc<Core>,
    // The tasks hold the core, but not this.
    _tasks: Arc<JoinSet<()>>,
}

/// What the tasks share.
struct Core {
    link: Link,
    store: RedisStore,
    /// This client's number: no other client has it, or ever had it.
    client: u64,
    waiting: Waiting,
    held: Held,
    bell: Bell,
    /// Names of calls that are repeated if their answer is lost.
    slots: Slots,
    ends: mpsc::Sender<finish::Item>,
    submissions: mpsc::Sender<submit::Item>,
}

impl RedisQueue {
    /// Begins to use the queue whose results `store` keeps.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn open(store: RedisStore) -> Result<Self, store::Error> {
        let link = store.link().clone();
        let hello = link.send(&HELLO, &link.begin(&HELLO)).await?;
        let client = reply::count(&hello).ok_or_else(|| nonsense(&link, "hello"))?;
        let (ends, ended) = mpsc::channel(finish::WAITING_MAX);
        let (submissions, submitted) = mpsc::channel(submit::WAITING_MAX);
        let core = Arc::new(Core {
            link,
            store,
            client,
            waiting: Waiting::default(),
            held: Held::default(),
            bell: Bell::default(),
            slots: Slots::default(),
            ends,
            submissions,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(finish::run(core.clone(), ended));
        tasks.spawn(submit::run(core.clone(), submitted));
        tasks.spawn(inbox::run(core.clone()));
        tasks.spawn(bell::run(core.clone()));
        tasks.spawn(recheck::run(core.clone()));
        Ok(Self {
            core,
            _tasks: Arc::new(tasks),
        })
    }

    async fn end(&self, ticket: Ticket, end: End) -> Result<bool, Error> {
        let answer = finish::end(&self.core, ticket, end).await?;
        match answer {
            b'1' => Ok(true),
            b'0' => Ok(false),
            _ => Err(Refused::StaleFence(ticket).into()),
        }
    }
}

/// The answer of a script that the server got wrong.
fn nonsense(link: &Link, script: &str) -> store::Error {
    store::Error::Corrupt {
        place: link.place(),
        detail: format!("script `{script}` answered something else than it should"),
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn submit(&self, jobs: Vec<Enqueue>) -> Result<Notices, Error> {
        submit::submit(&self.core, jobs).await
    }

    async fn lease(&self, want: Want, drain: &CancellationToken) -> Result<Vec<Leased>, Error> {
        lease::lease(&self.core, want, drain).await
    }

    async fn renew(&self, tickets: &[Ticket], ttl: Duration) -> Result<Vec<Renewal>, Error> {
        let core = &self.core;
        let mut renewals = Vec::with_capacity(tickets.len());
        for chunk in tickets.chunks(KEYS_MAX) {
            let mut cmd = core.link.begin(&RENEW);
            cmd.arg(to_ms(ttl));
            for ticket in chunk {
                cmd.arg(ticket.key.0.as_bytes()).arg(ticket.fence.0);
            }
            let answer = reply::list(core.link.send(&RENEW, &cmd).await?);
            let (Some(until), Some(kinds)) = (answer.first().and_then(reply::count), answer.get(1))
            else {
                return Err(nonsense(&core.link, "renew").into());
            };
            let until = Timestamp::from_ms(until);
            for (ticket, kind) in chunk.iter().zip(reply::bytes(kinds)) {
                renewals.push(match kind {
                    b'H' => {
                        core.held.keep(ticket.key, ticket.fence, ttl);
                        Renewal::Held(until)
                    }
                    b'C' => {
                        core.held.keep(ticket.key, ticket.fence, ttl);
                        core.held.cancel(ticket.key, ticket.fence);
                        Renewal::Cancelled(until)
                    }
                    _ => {
                        core.held.forget(ticket.key, ticket.fence);
                        Renewal::Lost
                    }
                });
            }
        }
        Ok(renewals)
    }

    async fn complete(&self, ticket: Ticket, result: Bytes) -> Result<Completed, Error> {
        let entry = self.core.store.encode_result(&result).await?;
        let is_first = self.end(ticket, End::Complete(entry)).await?;
        Ok(Completed { is_first })
    }

    async fn retry(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        let cause = cause[..cause.floor_char_boundary(EVIDENCE_BYTES_MAX)].to_owned();
        let delay = to_ms(delay);
        self.end(ticket, End::Retry { delay, cause }).await?;
        Ok(())
    }

    async fn postpone(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        let cause = cause[..cause.floor_char_boundary(EVIDENCE_BYTES_MAX)].to_owned();
        let delay = to_ms(delay);
        self.end(ticket, End::Postpone { delay, cause }).await?;
        Ok(())
    }

    async fn hand_back(&self, tickets: &[Ticket]) -> Result<usize, Error> {
        let backs = tickets
            .iter()
            .map(|ticket| finish::end(&self.core, *ticket, End::HandBack));
        let answers = futures_util::future::try_join_all(backs).await?;
        Ok(answers.iter().filter(|answer| **answer == b'1').count())
    }

    async fn give_up(&self, ticket: Ticket, mut failure: Failure) -> Result<(), Error> {
        let end = failure.cause.floor_char_boundary(EVIDENCE_BYTES_MAX);
        failure.cause.truncate(end);
        if failure.detail.len() > FAILURE_BYTES_MAX {
            failure.detail = Bytes::new();
        }
        self.end(ticket, End::GiveUp(failure)).await?;
        Ok(())
    }

    async fn cancel(&self, run: &RunId, which: Which<'_>) -> Result<Withdrawn, Error> {
        let core = &self.core;
        let mut withdrawn = Withdrawn::default();
        let mut add = |answer: Value| {
            let answer = reply::list(answer);
            let count = |i: usize| answer.get(i).and_then(reply::count);
            let counts = (count(0)?, count(1)?, count(2)?, count(3)?);
            let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            withdrawn.removed += size(counts.1);
            withdrawn.signalled += size(counts.2);
            withdrawn.shared += size(counts.3);
            Some(counts.0)
        };
        core.waiting.withdraw(run, which);
        match which {
            Which::All | Which::Idle => {
                let what = if which == Which::All { "a" } else { "i" };
                let mut cursor = 0;
                loop {
                    let mut cmd = core.link.begin(&CANCEL);
                    cmd.arg(run.as_str()).arg(what).arg(cursor);
                    let answer = core.link.send(&CANCEL, &cmd).await?;
                    cursor = add(answer).ok_or_else(|| nonsense(&core.link, "cancel"))?;
                    if cursor == 0 {
                        return Ok(withdrawn);
                    }
                }
            }
            Which::Keys(keys) => {
                for chunk in keys.chunks(KEYS_MAX) {
                    let mut cmd = core.link.begin(&CANCEL);
                    cmd.arg(run.as_str()).arg("k");
                    for key in chunk {
                        cmd.arg(key.0.as_bytes());
                    }
                    let answer = core.link.send(&CANCEL, &cmd).await?;
                    add(answer).ok_or_else(|| nonsense(&core.link, "cancel"))?;
                }
                Ok(withdrawn)
            }
        }
    }

    async fn dead_letters(&self, max: usize) -> Result<Vec<Arc<DeadLetter>>, Error> {
        let link = &self.core.link;
        let mut cmd = link.begin(&DEAD);
        cmd.arg(max.min(link.options().limits.dead_max));
        let found = reply::list(link.send(&DEAD, &cmd).await?);
        let read = |pair: &[Value]| {
            let key = key_of(reply::bytes(&pair[0]))?;
            letter(key, reply::bytes(&pair[1])).map(Arc::new)
        };
        let letters = found.chunks_exact(2).map(read).collect::<Option<Vec<_>>>();
        letters.ok_or_else(|| nonsense(link, "dead").into())
    }

    async fn stats(&self) -> Result<Stats, Error> {
        let (stats, _) = self.count().await?;
        Ok(stats)
    }

    async fn states(&self, keys: &[Key]) -> Result<Vec<JobState>, Error> {
        let link = &self.core.link;
        let mut states = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(KEYS_MAX) {
            let mut cmd = link.begin(&STATES);
            for key in chunk {
                cmd.arg(key.0.as_bytes());
            }
            let found = reply::list(link.send(&STATES, &cmd).await?);
            for (key, state) in chunk.iter().zip(found) {
                let state = read_state(*key, &reply::list(state));
                states.push(state.ok_or_else(|| nonsense(link, "states"))?);
            }
        }
        Ok(states)
    }

    async fn lanes(&self) -> Result<Vec<LaneStats>, Error> {
        let (_, lanes) = self.count().await?;
        Ok(lanes)
    }

    async fn asked(&self, keys: &[Key]) -> Result<Vec<Option<Asked>>, Error> {
        let link = &self.core.link;
        let mut asked = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(KEYS_MAX) {
            let mut cmd = link.begin(&ASKED);
            for key in chunk {
                cmd.arg(key.0.as_bytes());
            }
            let found = reply::list(link.send(&ASKED, &cmd).await?);
            let read = |value| {
                let parts = reply::list(value);
                if parts.is_empty() {
                    return Some(None);
                }
                read_asked(&parts).map(Some)
            };
            let read = found.into_iter().map(read).collect::<Option<Vec<_>>>();
            asked.extend(read.ok_or_else(|| nonsense(link, "asked"))?);
        }
        Ok(asked)
    }

    async fn runs(&self, but: &[RunId]) -> Result<Vec<RunStats>, Error> {
        let link = &self.core.link;
        let mut found: BTreeMap<(RunId, Lane), RunStats> = BTreeMap::new();
        let mut cursor = 0;
        loop {
            let mut cmd = link.begin(&RUNS);
            cmd.arg(cursor);
            for run in but {
                cmd.arg(run.as_str());
            }
            let answer = reply::list(link.send(&RUNS, &cmd).await?);
            let part = read_runs(&answer);
            let (next, part) = part.ok_or_else(|| nonsense(link, "runs"))?;
            for stats in part {
                let id = (stats.run.clone(), stats.lane.clone());
                let Some(sum) = found.get_mut(&id) else {
                    found.insert(id, stats);
                    continue;
                };
                sum.waiting += stats.waiting;
                sum.leased += stats.leased;
                sum.oldest = sum.oldest.min(stats.oldest);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(found.into_values().collect());
            }
        }
    }
}

/// Reads who waits for a job.
fn read_asked(parts: &[Value]) -> Option<Asked> {
    let (head, runs) = parts.split_at_checked(2)?;
    let runs = runs.iter().map(|run| Some(RunId::new(reply::text(run)?)));
    Some(Asked {
        lane: Lane::new(reply::text(&head[0])?),
        // Jobs are numbered by the microsecond in which they came.
        since: Timestamp::from_ms(reply::count(&head[1])? / 1_000),
        runs: runs.collect::<Option<_>>()?,
    })
}

/// Reads a part of the counts by run, and where to go on.
fn read_runs(answer: &[Value]) -> Option<(u64, Vec<RunStats>)> {
    let size = |value: &Value| usize::try_from(reply::count(value)?).ok();
    let (cursor, rest) = answer.split_first()?;
    let stats = |part: &[Value]| {
        Some(RunStats {
            run: RunId::new(reply::text(&part[0])?),
            lane: Lane::new(reply::text(&part[1])?),
            waiting: size(&part[2])?,
            leased: size(&part[3])?,
            oldest: Timestamp::from_ms(reply::count(&part[4])? / 1_000),
        })
    };
    let stats = rest.chunks_exact(5).map(stats).collect::<Option<_>>()?;
    Some((reply::count(cursor)?, stats))
}

impl RedisQueue {
    async fn count(&self) -> Result<(Stats, Vec<LaneStats>), Error> {
        let link = &self.core.link;
        let answer = reply::list(link.send(&STATS, &link.begin(&STATS)).await?);
        let read = || {
            let number = |i: usize| answer.get(i).and_then(reply::count);
            let size = |i: usize| usize::try_from(number(i)?).ok();
            let lane = |part: &[Value]| {
                Some(LaneStats {
                    lane: Lane::new(reply::text(&part[0])?),
                    queued: usize::try_from(reply::count(&part[1])?).ok()?,
                    oldest: Duration::from_millis(reply::count(&part[2])?),
                })
            };
            let parts = answer.get(5..)?.chunks_exact(3);
            let mut lanes = parts.map(lane).collect::<Option<Vec<_>>>()?;
            lanes.sort_by(|a, b| a.lane.cmp(&b.lane));
            let stats = Stats {
                queued: lanes.iter().map(|lane| lane.queued).sum(),
                delayed: size(0)?,
                leased: size(1)?,
                dead: size(2)?,
                oldest: lanes
                    .iter()
                    .map(|lane| lane.oldest)
                    .max()
                    .unwrap_or_default(),
                refused: number(3)?,
                losses: number(4)?,
            };
            Some((stats, lanes))
        };
        read().ok_or_else(|| nonsense(link, "stats").into())
    }
}

fn read_state(key: Key, state: &[Value]) -> Option<JobState> {
    let number = |i: usize| state.get(i).and_then(reply::count);
    let bytes = |i: usize| state.get(i).map(reply::bytes);
    Some(match bytes(0)? {
        b"U" => JobState::Unknown,
        // Jobs are numbered by the microsecond in which they came.
        b"W" => JobState::Waiting {
            since: Timestamp::from_ms(number(1)? / 1_000),
            losses: u32::try_from(number(2)?).ok()?,
        },
        b"D" => JobState::Delayed {
            until: Timestamp::from_ms(number(1)?),
            cause: match bytes(2)? {
                [] => None,
                packed => Some(note(packed)?.what),
            },
        },
        b"L" => JobState::Leased {
            worker: String::from_utf8_lossy(bytes(1)?).into(),
            // So are leases.
            since: Timestamp::from_ms(number(2)? / 1_000),
            expires_at: Timestamp::from_ms(number(3)?),
        },
        b"F" => JobState::Dead(Arc::new(letter(key, bytes(1)?)?)),
        _ => return None,
    })
}

/// Rounds up, so that nothing ends early.
fn to_ms(wait: Duration) -> u64 {
    // Beyond this, numbers in scripts are not exact.
    const MS_MAX: u64 = 1 << 46;
    let ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(MS_MAX);
    ms.min(MS_MAX)
}

/// Cuts a time to what scripts can write.
fn time_arg(at: Timestamp) -> u64 {
    at.as_ms().min((1 << 47) - 1)
}
