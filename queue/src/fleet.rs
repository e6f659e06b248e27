//! What workers say of themselves on the [`crate::Board`], and what is wished of them.
//!
//! A worker writes `worker/<id>` every few seconds with a short life: a record that is gone, or
//! old, is a worker that is gone. Whoever wants a worker to leave writes `drain/<id>`; the worker
//! looks for it with each of its own writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Version of [`WorkerRecord`]; readers take any.
pub const VERSION: u32 = 1;
/// Paths of workers begin with this.
pub const WORKERS: &str = "worker/";
/// Most workers that are looked at.
pub const WORKERS_MAX: usize = 2_000;
/// Paths of wishes that a worker leave begin with this.
pub const DRAINS: &str = "drain/";
/// How often a worker writes its record.
pub const BEAT: Duration = Duration::from_secs(2);
/// A worker that was not seen for so long counts as lost.
pub const LOST_AFTER: Duration = Duration::from_secs(10);
/// How long the record of a lost worker is still shown, and how long a wish is kept.
pub const KEPT_FOR: Duration = Duration::from_secs(300);
/// Most jobs that a record names.
pub const JOBS_MAX: usize = 20;
/// Most servers that a record says a worker may not call.
pub const LACKS_MAX: usize = 64;

/// A worker as it sees itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerRecord {
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// Unique, also after a restart.
    pub id: String,
    /// `well`, `draining` or `sick`.
    pub state: String,
    /// Why; of a worker that is well, what its jobs wait for, if it is the place of large values.
    pub cause: String,
    /// Version of the program.
    pub program: String,
    /// When it started, in milliseconds since 1970 by the board's clock.
    pub started_ms: u64,
    /// When it wrote this, by the board's clock.
    pub seen_ms: u64,
    /// Slots by kind, e.g. `chat`.
    pub slots: BTreeMap<String, u32>,
    /// Jobs under way by kind.
    pub busy: BTreeMap<String, u32>,
    /// Lanes whose jobs it can run.
    pub lanes: Vec<String>,
    /// Jobs it has completed.
    pub jobs_done: u64,
    /// Jobs it has given up or handed back for a fault.
    pub jobs_failed: u64,
    /// Keys of jobs under way, at most [`JOBS_MAX`].
    pub jobs: Vec<String>,
    /// Servers that jobs wanted and that it may not call, at most [`LACKS_MAX`].
    pub lacks: BTreeSet<String>,
}

impl WorkerRecord {
    /// Returns the path of the record of worker `id`.
    #[must_use]
    pub fn path(id: &str) -> String {
        format!("{WORKERS}{id}")
    }

    /// Returns the path of the wish that worker `id` leave.
    #[must_use]
    pub fn drain_path(id: &str) -> String {
        format!("{DRAINS}{id}")
    }

    /// Returns the state that people see at `now_ms` by the board's clock: a worker that does not
    /// write any more is `lost`, whatever it said last.
    #[must_use]
    pub fn state_at(&self, now_ms: u64) -> &str {
        let silent = Duration::from_millis(now_ms.saturating_sub(self.seen_ms));
        if silent > LOST_AFTER {
            "lost"
        } else {
            &self.state
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_silent_is_lost() {
        let record = WorkerRecord {
            state: "well".to_owned(),
            seen_ms: 1_000,
            ..WorkerRecord::default()
        };
        assert_eq!(record.state_at(1_000), "well");
        assert_eq!(record.state_at(11_000), "well");
        assert_eq!(record.state_at(11_001), "lost");
    }

    #[test]
    fn fields_of_a_later_release_are_left_alone() {
        let seen: WorkerRecord =
            serde_json::from_str(r#"{"id": "a", "state": "well", "mood": "good"}"#).unwrap();
        assert_eq!((seen.id.as_str(), seen.version), ("a", 0));
    }
}
