//! What is known when reasons are looked for.

use std::collections::{BTreeMap, BTreeSet};

use skillopt_queue::rates::Account;
use skillopt_queue::{Lane, RunId, Timestamp};

use crate::scheduler::Line;

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
    /// Lanes that live workers offer.
    pub lanes: BTreeSet<Lane>,
    /// Accounts with limits or in trouble.
    pub accounts: Vec<Account>,
    /// What the store says while it is above its limit.
    pub store_pressure: Option<String>,
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
        /// The worker whose lease ran out, if that is how it came back.
        lost_by: Option<String>,
    },
    /// A worker returned it for a later try.
    Delayed {
        /// When.
        until: Timestamp,
        /// Tries so far.
        tries: u32,
        /// Why it was returned, if it is known.
        cause: String,
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
