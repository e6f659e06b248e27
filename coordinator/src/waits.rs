//! Why jobs wait: for every waiting job exactly one reason, the first that holds, so that the
//! counts add up. `docs/why.md` describes them for people.
//!
//! Start at [`explain`].

mod code;
mod facts;

pub use code::Code;
pub use facts::{Facts, JobFacts, Place, RunFacts, RunState};

/// Why jobs wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// By reason, in the order of the codes and then the words.
    pub rows: Vec<Row>,
    /// Waiting jobs: the sum of the rows.
    pub waiting: u64,
    /// Jobs that a worker runs.
    pub running: u64,
}

/// Jobs that wait for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The reason.
    pub code: Code,
    /// The reason in words, e.g. with the account or the worker.
    pub words: String,
    /// How many wait for it.
    pub count: u64,
    /// Age of the oldest, in milliseconds.
    pub oldest_ms: u64,
    /// What helps.
    pub help: String,
}

/// Finds the reason of every waiting job.
#[must_use]
pub fn explain(facts: &Facts) -> Waits {
    todo!()
}
