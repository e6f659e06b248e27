//! Delivers jobs to workers, at least once, and commits their results, exactly once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::job::Key;
use tokio_util::sync::CancellationToken;

use crate::clock::Timestamp;
pub use crate::dead_letter::{
    DeadLetter, EVIDENCE_BYTES_MAX, EVIDENCE_MAX, Evidence, FAILURE_BYTES_MAX, Failure,
};
use crate::message::{Enqueue, Lane, Leased, RunId, Ticket, Want};
use crate::notice::Notices;
use crate::store;

/// Longest encoded job, in bytes; large values travel as blobs.
pub const JOB_BYTES_MAX: usize = 64 << 10;

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most jobs that are queued, delayed or leased at once.
    pub jobs_max: usize,
    /// A job whose lease ran out this often becomes a dead letter.
    pub losses_max: u32,
    /// Most dead letters kept; the oldest go first.
    pub dead_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            jobs_max: 200_000,
            losses_max: 3,
            dead_max: 1_000,
        }
    }
}

/// A queue of jobs, bound to the [`crate::Store`] that keeps their results.
///
/// A job is known by its key. It is *waiting* (perhaps until some time), *leased*, or *dead*;
/// once its result is stored the queue forgets it. Several runs may wait for one job: it runs once
/// and all hear of its end.
///
/// Order: the highest priority first; within a priority the job that was enqueued first. A job
/// that comes back keeps its place.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Adds jobs and returns where their ends will be told, one notice per distinct key.
    ///
    /// A job whose result is stored is answered from the store. A job that is already waiting or
    /// leased is joined: the higher priority and the earlier time hold. A dead one starts afresh.
    /// Of two equal keys in `jobs` the first counts.
    ///
    /// # Errors
    /// [`Error::QueueFull`] if the new jobs do not all fit, [`Error::JobTooLarge`] above
    /// [`JOB_BYTES_MAX`]; then none is taken. Submit less, or wait for notices first.
    async fn submit(&self, jobs: Vec<Enqueue>) -> Result<Notices, Error>;

    /// Waits until there is work in one of the lanes and takes up to `want.max` jobs. Returns an
    /// empty list once `drain` has fired, or if `want` has no lane or no room.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    ///
    /// # Cancel safety
    /// Not cancel safe: leases granted to a dropped call run out unused. Fire `drain` instead.
    async fn lease(&self, want: Want, drain: &CancellationToken) -> Result<Vec<Leased>, Error>;

    /// Extends leases to `ttl` from now; answers in the order of `tickets`. Renew at a third of
    /// the lease time, all leases in one call.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn renew(&self, tickets: &[Ticket], ttl: Duration) -> Result<Vec<Renewal>, Error>;

    /// Stores the result unless the key has one, tells everyone who waits, and ends the job: all
    /// or nothing. When this returns `Ok`, the result survives the death of the process.
    ///
    /// After [`Error::Store`] the lease is still held: try again, or hand the job back.
    ///
    /// # Errors
    /// [`Refused::StaleFence`] if the lease ran out or the job has ended; a stored result stays.
    ///
    /// # Cancel safety
    /// A dropped call leaves the completion either done or not done.
    async fn complete(&self, ticket: Ticket, result: Bytes) -> Result<Completed, Error>;

    /// Returns the job for another try after `delay`, and counts a retry. How many retries are
    /// enough is the worker's decision.
    ///
    /// # Errors
    /// [`Refused::StaleFence`] as in [`Queue::complete`].
    async fn retry(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error>;

    /// Returns the job after `delay` as if it had not been handed out, for it could not be tried:
    /// what its call needs is not to be had now. Counts neither a delivery nor a retry; an
    /// implementation that cannot tell them apart counts a retry.
    ///
    /// # Errors
    /// [`Refused::StaleFence`] as in [`Queue::complete`].
    async fn postpone(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        self.retry(ticket, delay, cause).await
    }

    /// Returns jobs untouched, e.g. while draining: nothing is counted against them. Stale tickets
    /// are skipped. Returns how many went back.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn hand_back(&self, tickets: &[Ticket]) -> Result<usize, Error>;

    /// Makes the job a dead letter and tells everyone who waits that it failed.
    ///
    /// # Errors
    /// [`Refused::StaleFence`] as in [`Queue::complete`].
    async fn give_up(&self, ticket: Ticket, failure: Failure) -> Result<(), Error>;

    /// Withdraws the jobs of a run: all of them, some, or what is idle. Jobs that nobody else waits for
    /// leave the queue at once; if they are leased, [`Leased::cancelled`] fires.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn cancel(&self, run: &RunId, which: Which<'_>) -> Result<Withdrawn, Error>;

    /// Returns up to `max` dead letters, the newest first.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn dead_letters(&self, max: usize) -> Result<Vec<Arc<DeadLetter>>, Error>;

    /// Returns the present counts.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn stats(&self) -> Result<Stats, Error>;

    /// Returns where jobs are, in the order of `keys`. It says nothing of stored results.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn states(&self, keys: &[Key]) -> Result<Vec<JobState>, Error>;

    /// Returns the lanes that have jobs to lease now, by name.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn lanes(&self) -> Result<Vec<LaneStats>, Error>;

    /// Returns who waits for jobs, in the order of `keys`; `None` for one that is not waiting or
    /// leased. An implementation that nobody asks may know of none.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn asked(&self, keys: &[Key]) -> Result<Vec<Option<Asked>>, Error> {
        Ok(vec![None; keys.len()])
    }

    /// Counts jobs by run and lane, in the order of their names: each job for the run that asked
    /// first, and only those for which none of `but` waits. While jobs come and go it may be off by
    /// some. An implementation that nobody asks may know of none.
    ///
    /// # Errors
    /// If the queue is closed or cannot be reached.
    async fn runs(&self, _but: &[RunId]) -> Result<Vec<RunStats>, Error> {
        Ok(Vec::new())
    }
}

/// Who waits for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its lane.
    pub lane: Lane,
    /// When it was enqueued.
    pub since: Timestamp,
    /// The runs that wait for it, the one that asked first at the front.
    pub runs: Vec<RunId>,
}

/// The jobs of one run in one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStats {
    /// The run.
    pub run: RunId,
    /// The lane.
    pub lane: Lane,
    /// Jobs that could be leased now, or wait for their time.
    pub waiting: usize,
    /// Jobs that a worker holds.
    pub leased: usize,
    /// When the oldest of those that wait was enqueued; if none does, now or later.
    pub oldest: Timestamp,
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// The queue does not know it: it was never submitted, has ended, or was withdrawn.
    Unknown,
    /// It could be leased now.
    Waiting {
        /// When it was enqueued.
        since: Timestamp,
        /// How often its lease ran out so far; above 0, it is back from a worker that was lost.
        losses: u32,
    },
    /// It waits for its time.
    Delayed {
        /// When it may be leased.
        until: Timestamp,
        /// What the worker said that returned it; `None` if it was submitted for later.
        cause: Option<String>,
    },
    /// A worker holds it.
    Leased {
        /// The worker's name.
        worker: Arc<str>,
        /// When the lease was granted.
        since: Timestamp,
        /// When it runs out unless it is renewed.
        expires_at: Timestamp,
    },
    /// No worker could finish it.
    Dead(Arc<DeadLetter>),
}

/// The jobs of one lane that could be leased now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// The lane.
    pub lane: Lane,
    /// Jobs that could be leased now.
    pub queued: usize,
    /// How long the oldest of them has been there.
    pub oldest: Duration,
}

/// Which jobs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// Every job the run waits for.
    All,
    /// Those of these keys the run waits for.
    Keys(&'a [Key]),
    /// Those that no worker has in hand: what is under way is finished and kept.
    Idle,
}

/// What became of withdrawn jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withdrawn {
    /// Left the queue unrun.
    pub removed: usize,
    /// Were running for this run alone and have been signalled.
    pub signalled: usize,
    /// Go on for other runs.
    pub shared: usize,
}

/// The answer to one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease lasts until then.
    Held(Timestamp),
    /// The lease lasts until then, but nobody waits for the job any more.
    Cancelled(Timestamp),
    /// The lease is gone; stop the job.
    Lost,
}

/// The answer to a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Whether this result was stored. If not, the key had one already, and that one was told.
    pub is_first: bool,
}

/// Counts of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that could be leased now.
    pub queued: usize,
    /// Jobs that wait for their time.
    pub delayed: usize,
    /// Jobs that a worker holds.
    pub leased: usize,
    /// Dead letters.
    pub dead: usize,
    /// How long the oldest queued job has been there.
    pub oldest: Duration,
    /// Completions and other calls that were refused for a stale fence, since the start.
    pub refused: u64,
    /// Leases that ran out, since the start.
    pub losses: u64,
}

/// Why a queue will not have a worker's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The lease ran out, or its job has ended. Somebody else has the job or had the last word.
    #[error("lease {} of job `{}` is stale", .0.fence.0, .0.key)]
    StaleFence(Ticket),
}

/// Why a queue did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The worker's lease does not count any more.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The jobs do not fit.
    #[error("{new} new jobs do not fit: {present} of at most {max} are in the queue")]
    QueueFull {
        /// Jobs that would have been new.
        new: usize,
        /// Jobs that are there.
        present: usize,
        /// The bound.
        max: usize,
    },
    /// A job is too long.
    #[error(
        "job `{key}` has {bytes} bytes, at most {max} are allowed; put large values into blobs"
    )]
    JobTooLarge {
        /// The job.
        key: Key,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The store underneath failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}
