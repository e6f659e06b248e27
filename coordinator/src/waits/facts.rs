//! What is known when reasons are looked for.

use std::collections::{BTreeMap, BTreeSet};

use skillopt_core::job::Key;
use skillopt_queue::queue::{Error, JobState, RunStats};
use skillopt_queue::rates::Account;
use skillopt_queue::{Lane, Queue, RunId, Timestamp};

use crate::scheduler::{Line, Scheduler};

/// Jobs whose places are asked for in one call.
const STATES_CHUNK: usize = 1_024;

/// Everything that reasons are found from, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Now, by the clock of the queue.
    pub now: Timestamp,
    /// What is known of runs; a run that is missing here is held and running.
    pub runs: BTreeMap<RunId, RunFacts>,
    /// Jobs that wait in the scheduler.
    pub lines: Vec<Line>,
    /// Jobs that are in the queue, and what it says of them.
    pub released: Vec<JobFacts>,
    /// Jobs in the queue for runs of which no coordinator tells.
    pub left: Vec<RunStats>,
    /// Lanes that live workers offer.
    pub lanes: BTreeSet<Lane>,
    /// Accounts with limits or in trouble.
    pub accounts: Vec<Account>,
    /// What the store says while it is above its limit.
    pub store_pressure: Option<String>,
    /// What it says while large values cannot be stored or read.
    pub values_away: Option<String>,
}

/// What is known of one run.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Its state.
    pub state: RunState,
    /// The accounts that its jobs of a lane call.
    pub accounts: BTreeMap<Lane, String>,
}

/// Whether a run can go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// A coordinator holds it.
    #[default]
    Running,
    /// No coordinator holds it.
    Orphaned {
        /// How long until another takes it over at the latest, in milliseconds.
        takeover_ms: u64,
    },
    /// It is paused.
    Paused {
        /// Who or what paused it, e.g. a name or `provider`.
        by: String,
    },
    /// A cap is reached.
    OutOfBudget {
        /// Whose cap and which, e.g. `run/ab12, dollars`.
        cap: String,
    },
}

/// A job in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// Its key.
    pub key: Key,
    /// The run it was released for.
    pub run: RunId,
    /// What a worker must offer.
    pub lane: Lane,
    /// When it was asked for.
    pub since: Timestamp,
    /// Where it is.
    pub place: Place,
}

/// Where a job is in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It could be taken now.
    Queued {
        /// How often a worker lost it.
        losses: u32,
    },
    /// It waits for its time.
    Delayed {
        /// When.
        until: Timestamp,
        /// Why a worker returned it; `None` if it was asked for at that time.
        cause: Option<String>,
    },
    /// A worker runs it.
    Leased {
        /// The worker.
        worker: String,
        /// When its lease runs out.
        expires_at: Timestamp,
    },
    /// It was set aside.
    Dead {
        /// How often it was handed out.
        tries: u32,
        /// Why.
        cause: String,
    },
}

impl Place {
    /// Reads what the queue says; `None` if the job has just left it.
    #[must_use]
    pub fn of(state: &JobState) -> Option<Self> {
        Some(match state {
            JobState::Unknown => return None,
            JobState::Waiting { losses, .. } => Self::Queued { losses: *losses },
            JobState::Delayed { until, cause } => Self::Delayed {
                until: *until,
                cause: cause.clone(),
            },
            JobState::Leased {
                worker, expires_at, ..
            } => Self::Leased {
                worker: worker.to_string(),
                expires_at: *expires_at,
            },
            JobState::Dead(letter) => Self::Dead {
                tries: letter.deliveries,
                cause: letter.failure.cause.clone(),
            },
        })
    }
}

impl Facts {
    /// Asks the scheduler and the queue where the jobs are. What else is known is added by the
    /// caller.
    ///
    /// # Errors
    /// If the queue cannot be reached.
    pub async fn gather(
        now: Timestamp,
        scheduler: &Scheduler,
        queue: &dyn Queue,
    ) -> Result<Self, Error> {
        let standing = scheduler.standing();
        let mut released = Vec::with_capacity(standing.released.len());
        for jobs in standing.released.chunks(STATES_CHUNK) {
            let keys: Vec<Key> = jobs.iter().map(|job| job.key).collect();
            let states = queue.states(&keys).await?;
            let known = jobs.iter().zip(&states).filter_map(|(job, state)| {
                Some(JobFacts {
                    key: job.key,
                    run: job.run.clone(),
                    lane: job.lane.clone(),
                    since: job.since,
                    place: Place::of(state)?,
                })
            });
            released.extend(known);
        }
        Ok(Self {
            now,
            lines: standing.lines,
            released,
            ..Self::default()
        })
    }

    /// Returns the same for the jobs of the runs that `is_meant` alone.
    #[must_use]
    pub fn only(&self, is_meant: impl Fn(&RunId) -> bool) -> Self {
        // Of all the jobs only those are copied that are meant.
        let lines = self.lines.iter().filter(|line| is_meant(&line.run));
        let released = self.released.iter().filter(|job| is_meant(&job.run));
        let left = self.left.iter().filter(|left| is_meant(&left.run));
        Self {
            now: self.now,
            runs: self.runs.clone(),
            lines: lines.cloned().collect(),
            released: released.cloned().collect(),
            left: left.cloned().collect(),
            lanes: self.lanes.clone(),
            accounts: self.accounts.clone(),
            store_pressure: self.store_pressure.clone(),
            values_away: self.values_away.clone(),
        }
    }
}
