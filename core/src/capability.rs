//! What a worker must offer to run a job, as the name of a queue's lane.
//!
//! A name holds everything that an old or differently equipped worker lacks: the version of the
//! job format, the backend, the benchmark and its version. So a job that a worker cannot run stays
//! in the queue for another one, and is never failed for it.

use crate::job;

/// A kind of slot. A worker has a number of slots of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Calls over HTTP: hundreds at a time.
    Chat,
    /// An agent's program in a sandbox: a few at a time.
    Exec,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Exec];

    /// Returns its name, as in `--slots chat=256,exec=4`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Exec => "exec",
        }
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the kind of slot that a backend's calls need: agent programs have the ending
    /// `_exec`.
    #[must_use]
    pub fn of_backend(backend: &str) -> Self {
        if backend.ends_with("_exec") {
            Self::Exec
        } else {
            Self::Chat
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the lane of optimizer calls to `backend`, e.g. `v1 chat simulated`.
#[must_use]
pub fn calls(backend: &str) -> String {
    format!("v{} {} {backend}", job::VERSION, Kind::of_backend(backend))
}

/// Returns the lane of rollouts of a benchmark with `backend` as the target, e.g.
/// `v1 chat simulated searchqa@3`.
#[must_use]
pub fn rollouts(backend: &str, benchmark: &str, benchmark_version: &str) -> String {
    format!("{} {benchmark}@{benchmark_version}", calls(backend))
}

/// Returns the kind of slot that a lane's jobs take; `None` for a name of another release.
#[must_use]
pub fn kind_of(lane: &str) -> Option<Kind> {
    Kind::parse(lane.split(' ').nth(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_names_what_its_jobs_need() {
        let lane = rollouts("claude_code_exec", "searchqa", "3");
        assert_eq!(lane, "v1 exec claude_code_exec searchqa@3");
        assert_eq!(kind_of(&lane), Some(Kind::Exec));
        assert_eq!(kind_of(&calls("simulated")), Some(Kind::Chat));
        assert_eq!(kind_of("chat"), None);
        assert_eq!(kind_of("v9 dance x"), None);
    }
}
