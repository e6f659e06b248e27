//! Cells by how they stand.

use serde::{Deserialize, Serialize};

/// Cells by how they stand; the first line adds up to `cells`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All.
    pub cells: u64,
    /// Trained to the end.
    pub finished: u64,
    /// At work.
    pub running: u64,
    /// Not begun.
    pub waiting: u64,
    /// Wait for a person.
    pub paused: u64,
    /// Can never go on.
    pub failed: u64,
    /// Ended by a person.
    pub cancelled: u64,
    /// Finished cells with a label.
    pub labelled: u64,
    /// Of these, better than every arm.
    pub best: u64,
    /// Neither.
    pub tied: u64,
    /// Worse than an arm.
    pub worse: u64,
}
