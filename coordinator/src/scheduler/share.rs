//! What the scheduler is told of runs and workers.

use std::time::Duration;

use skillopt_queue::{Lane, Priority, RunId};

/// Weight of a run that nobody gave one.
pub const WEIGHT_NORMAL: u32 = 100;
/// Highest weight.
pub const WEIGHT_MAX: u32 = 1_000;

/// A run's place among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunShare {
    /// The run.
    pub run: RunId,
    /// Who it belongs to; tenants share alike.
    pub tenant: String,
    /// The sweep it is a cell of, or its own id: a sweep counts as one run against others.
    pub group: String,
    /// Its share among the runs of its group, 1 to [`WEIGHT_MAX`]; the group has the weight of its
    /// heaviest run against other groups of the tenant.
    pub weight: u32,
    /// Runs of a higher priority go first.
    pub priority: Priority,
}

impl RunShare {
    /// Makes the share of a run that stands for itself, at normal weight and priority.
    #[must_use]
    pub fn alone(run: RunId) -> Self {
        Self {
            tenant: String::new(),
            group: run.as_str().to_owned(),
            weight: WEIGHT_NORMAL,
            priority: Priority::NORMAL,
            run,
        }
    }
}

/// Slots of live workers that may take jobs of any of these lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// How many jobs of these lanes can run at once.
    pub slots: usize,
}

/// Bounds of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fewest places in the window of jobs that are in the queue, for each pool of slots.
    pub window_min: usize,
    /// Most jobs that this coordinator keeps in the queue.
    pub window_max: usize,
    /// Places for each live slot: one that runs and others at hand.
    pub places_per_slot: usize,
    /// Most jobs of one run that wait here.
    pub waiting_per_run_max: usize,
    /// Most jobs that wait here.
    pub waiting_max: usize,
    /// Jobs of a lower priority that got nothing for so long get every fourth place.
    pub age_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window_min: 64,
            window_max: 20_000,
            places_per_slot: 2,
            waiting_per_run_max: 65_536,
            waiting_max: 1_000_000,
            age_max: Duration::from_secs(300),
        }
    }
}
