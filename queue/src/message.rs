//! The values that runs, queue and workers exchange.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::job::{Job, Key};
use tokio_util::sync::CancellationToken;

use crate::clock::Timestamp;

/// The name of a run: the owner of an event log, and the unit in which jobs are cancelled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Arc<str>);

/// The name of a kind of work, so that a worker takes only what it can do, e.g. `chat` or `exec`.
///
/// A queue keeps one line of waiting jobs per lane and priority; there should be few lanes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(Arc<str>);

impl RunId {
    /// Takes any text as a name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Lane {
    /// Takes any text as a name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How soon a job is wanted: 0 (last) to 7 (first).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Before everything else.
    pub const FIRST: Self = Self(7);
    /// What a job has unless someone says otherwise.
    pub const NORMAL: Self = Self(4);
    /// After everything else.
    pub const LAST: Self = Self(0);

    /// Takes a level; levels above 7 count as 7.
    #[must_use]
    pub const fn new(level: u8) -> Self {
        if level > Self::FIRST.0 {
            Self::FIRST
        } else {
            Self(level)
        }
    }

    /// Returns the level, 0 to 7.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.0
    }
}

/// A job on its way into the queue.
#[derive(Clone, Debug)]
pub struct Enqueue {
    /// Where its result will be stored.
    pub key: Key,
    /// The encoded job; the queue does not look inside.
    pub job: Bytes,
    /// Who may take it.
    pub lane: Lane,
    /// How soon.
    pub priority: Priority,
    /// Who asks.
    pub run: RunId,
    /// Not to be delivered before this time.
    pub not_before: Option<Timestamp>,
}

impl Enqueue {
    /// Wraps `job` as JSON, at normal priority, for delivery at once.
    ///
    /// # Errors
    /// If the job cannot be written as JSON, which no job of ours does.
    pub fn new(job: &Job, lane: Lane, run: RunId) -> Result<Self, serde_json::Error> {
        Ok(Self {
            key: job.key(),
            job: serde_json::to_vec(job)?.into(),
            lane,
            priority: Priority::NORMAL,
            run,
            not_before: None,
        })
    }
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Want {
    /// The worker's name, kept as evidence when a lease runs out.
    pub worker: Arc<str>,
    /// The lanes it can serve, in any order: priority decides, then age.
    pub lanes: Vec<Lane>,
    /// How many jobs it has room for; at least one comes if there is one.
    pub max: usize,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Duration,
}

/// Numbers the leases of one queue in the order in which they were granted. A job's last lease has
/// the highest fence, all earlier ones are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// Names one lease of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The job.
    pub key: Key,
    /// The lease.
    pub fence: Fence,
}

/// A job that a worker may run until `expires_at`, or longer if it renews.
///
/// Dropping it lets the lease run out: that is the path of a crash, not of an error.
#[derive(Clone, Debug)]
pub struct Leased {
    /// Names the lease towards the queue.
    pub ticket: Ticket,
    /// The encoded job.
    pub job: Bytes,
    /// The lane it came through.
    pub lane: Lane,
    /// How often the job has been handed out, this time included.
    pub deliveries: u32,
    /// How often a worker returned it through [`crate::Queue::retry`].
    pub retries: u32,
    /// When the lease runs out, by the queue's clock.
    pub expires_at: Timestamp,
    /// Fires when nobody waits for the job any more. An answer that is already paid for may still
    /// be completed; else hand the job back.
    pub cancelled: CancellationToken,
}

impl Leased {
    /// Decodes the job.
    ///
    /// # Errors
    /// If the bytes are no job that this program understands; give up on it then.
    pub fn decode(&self) -> Result<Job, serde_json::Error> {
        serde_json::from_slice(&self.job)
    }
}
