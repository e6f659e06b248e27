//! What the scheduler knows of the jobs that are on their way.

use skillopt_core::job::Key;
use skillopt_queue::{Lane, Priority, RunId, Timestamp};

/// The scheduler's jobs at one moment. Every job is in exactly one place: it is counted in one
/// line, or it is one of those in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Lines of jobs that have not been given to the queue, by run, lane and priority.
    pub lines: Vec<Line>,
    /// Jobs that are in the queue, waiting or running there, by key.
    pub released: Vec<Released>,
}

/// Jobs of one run that wait in the scheduler for one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The run.
    pub run: RunId,
    /// What a worker must offer.
    pub lane: Lane,
    /// Priority of the run and of the jobs within it taken together.
    pub priority: Priority,
    /// How many wait; a job that several runs want is counted for one of them.
    pub waiting: usize,
    /// When the first of them was asked for.
    pub oldest: Timestamp,
    /// What they wait for.
    pub hold: Hold,
}

/// Why the scheduler has not released a line's next job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The run is paused.
    Paused,
    /// The run's share of the window is full of earlier jobs of its own.
    Own {
        /// How many.
        out: usize,
    },
    /// The window is full of others' jobs.
    Others,
}

/// A job that is in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The job.
    pub key: Key,
    /// The run it was released for.
    pub run: RunId,
    /// What a worker must offer.
    pub lane: Lane,
    /// When it was asked for.
    pub since: Timestamp,
}
