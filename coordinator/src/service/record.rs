//! A run as it is kept on the board.

use serde::{Deserialize, Serialize};
use skillopt_core::Hash;
use skillopt_core::job::FailureClass;
use skillopt_queue::ledger::Caps;

use crate::halt::{Halt, word};
use crate::sweep::runs::{What, Wish};
use crate::train::EndState;

/// Version of [`RunRecord`].
pub const VERSION: u32 = 1;
/// Paths of runs begin with this.
pub const RUNS: &str = "run/";
/// Paths of marks of runs that a coordinator should work on begin with this.
pub const OPEN: &str = "run-open/";
/// Paths of all runs, the newest first, begin with this.
pub const BY_TIME: &str = "run-time/";
/// Paths of the runs of a tenant, the newest first, begin with this.
pub const BY_TENANT: &str = "run-tenant/";
/// Paths of runs by their name begin with this.
const BY_NAME: &str = "run-name/";

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for a coordinator.
    Queued,
    /// A coordinator runs it.
    Running,
    /// It waits for a person.
    Paused,
    /// It ended: the best skill scores higher than the initial one.
    Improved,
    /// It ended: no skill scored higher.
    NoImprovement,
    /// It ended: there is nothing to judge by.
    CannotJudge,
    /// It ended: the last skill scores lower than the initial one.
    WorseAtTheEnd,
    /// The evaluation has its score.
    Evaluated,
    /// A person ended it.
    Cancelled,
    /// It can never go on.
    Failed,
}

impl State {
    /// All states.
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Running,
        Self::Paused,
        Self::Improved,
        Self::NoImprovement,
        Self::CannotJudge,
        Self::WorseAtTheEnd,
        Self::Evaluated,
        Self::Cancelled,
        Self::Failed,
    ];

    /// Returns the words that people see.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Improved => "improved",
            Self::NoImprovement => "no improvement",
            Self::CannotJudge => "cannot judge",
            Self::WorseAtTheEnd => "worse at the end",
            Self::Evaluated => "evaluated",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Returns whether a coordinator should work on it.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }

    /// Returns whether nothing more comes.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Paused)
    }
}

impl From<EndState> for State {
    fn from(end: EndState) -> Self {
        match end {
            EndState::Improved => Self::Improved,
            EndState::NoImprovement => Self::NoImprovement,
            EndState::WorseAtTheEnd => Self::WorseAtTheEnd,
        }
    }
}

/// A coordinator that began to work on a run and brought it no further.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// The coordinator.
    pub coordinator: String,
    /// When it began, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// A hash of tenant and client key.
    pub id: String,
    /// Shown to people.
    pub name: String,
    /// `train` or `eval`.
    pub kind: String,
    /// Whose it is.
    pub tenant: String,
    /// Who submitted it.
    pub owner: String,
    /// Its inputs.
    pub bundle: Hash,
    /// Skill that is evaluated in place of what the bundle is for.
    #[serde(default)]
    pub skill: Option<Hash>,
    /// The sweep, or empty.
    #[serde(default)]
    pub sweep: String,
    /// The cell, or empty.
    #[serde(default)]
    pub cell: String,
    /// Share against other runs.
    pub weight: u32,
    /// 0 (last) to 7 (first).
    pub priority: u8,
    /// Most that it may use.
    #[serde(default)]
    pub caps: Caps,
    /// What is wanted of it.
    #[serde(default)]
    pub wish: Wish,
    /// How it stands.
    pub state: State,
    /// Why it is paused or failed.
    #[serde(default)]
    pub cause: String,
    /// `budget`, `provider`, `infrastructure`, `data` or `person`, if paused or failed.
    #[serde(default)]
    pub cause_class: String,
    /// Milliseconds since 1970 by the board's clock.
    pub submitted_ms: u64,
    /// 0 if not yet.
    #[serde(default)]
    pub started_ms: u64,
    /// 0 if not yet.
    #[serde(default)]
    pub ended_ms: u64,
    /// The coordinator that runs it, or empty.
    #[serde(default)]
    pub coordinator: String,
    /// Who worked on it since it last got further.
    #[serde(default)]
    pub tries: Vec<Try>,
}

impl RunRecord {
    /// Returns the path of run `id`, which is also the name of the right to work on it.
    #[must_use]
    pub fn path(id: &str) -> String {
        format!("{RUNS}{id}")
    }

    /// Returns the path of the mark that a coordinator should work on it: in the order in which
    /// runs are begun.
    #[must_use]
    pub fn mark(&self) -> String {
        let late = 7 - self.priority.min(7);
        format!("{OPEN}{late}/{:013}/{}", self.submitted_ms, self.id)
    }

    /// Returns the paths under which it is found by other things than its id.
    #[must_use]
    pub fn listed(&self) -> Vec<String> {
        let mut listed = Vec::from(self.places());
        if !self.name.is_empty() {
            let place = named(&self.name, Some(&self.tenant));
            listed.push(format!("{place}{:016x}-{}", !self.submitted_ms, self.id));
        }
        listed
    }

    /// Returns its places in the lists of all runs and of its tenant's.
    #[must_use]
    pub fn places(&self) -> [String; 2] {
        let place = format!(
            "{}{:016x}-{}",
            group(&self.sweep),
            !self.submitted_ms,
            self.id
        );
        let tenant = &self.tenant;
        [
            format!("{BY_TIME}{place}"),
            format!("{BY_TENANT}{tenant}/{place}"),
        ]
    }

    /// Returns what the run does with its bundle.
    #[must_use]
    pub fn what(&self) -> What {
        match self.skill {
            Some(skill) => What::Evaluate { skill },
            None => What::Train,
        }
    }

    /// Ends it.
    pub fn end(&mut self, state: State, now_ms: u64) {
        self.state = state;
        self.ended_ms = now_ms;
        self.cause.clear();
        self.cause_class.clear();
        self.coordinator.clear();
        self.tries.clear();
    }

    /// Stops it for a person, or for good.
    pub fn stop(&mut self, state: State, class: &str, cause: &str, now_ms: u64) {
        self.end(state, now_ms);
        if !state.is_over() {
            self.ended_ms = 0;
        }
        class.clone_into(&mut self.cause_class);
        cause.clone_into(&mut self.cause);
    }

    /// Takes in why it halted.
    pub fn halt(&mut self, halt: &Halt, now_ms: u64) {
        match halt {
            Halt::Paused(class, cause) => self.stop(State::Paused, word(*class), cause, now_ms),
            Halt::Interrupted => self.stop(State::Paused, "person", "", now_ms),
            Halt::Failed(cause) => {
                self.stop(State::Failed, word(FailureClass::Data), cause, now_ms);
            }
            Halt::NotStored => {
                let class = word(FailureClass::Infrastructure);
                self.stop(State::Failed, class, &halt.to_string(), now_ms);
            }
        }
    }
}

/// Returns how the paths of runs of this name begin, of one tenant or of all. A name may be as long
/// as it likes.
#[must_use]
pub fn named(name: &str, tenant: Option<&str>) -> String {
    let name = Hash::of(name.as_bytes());
    let tenant = tenant.map_or_else(String::new, |tenant| format!("{tenant}/"));
    format!("{BY_NAME}{name}/{tenant}")
}

/// Returns the part of a list's path that names the sweep, or none.
#[must_use]
pub fn group(sweep: &str) -> String {
    if sweep.is_empty() {
        "-/".to_owned()
    } else {
        format!("{sweep}/")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::service) fn record() -> RunRecord {
        serde_json::from_value(serde_json::json!({
            "version": 1, "id": "ab", "name": "n", "kind": "train", "tenant": "lab",
            "owner": "me", "bundle": Hash::of(b"x"), "weight": 100, "priority": 4,
            "state": "queued", "submitted_ms": 1_000,
        }))
        .unwrap()
    }

    #[test]
    fn newer_runs_are_listed_first_and_urgent_ones_begun_first() {
        let old = record();
        let new = RunRecord {
            submitted_ms: 2_000,
            ..record()
        };
        let urgent = RunRecord {
            priority: 5,
            submitted_ms: 3_000,
            ..record()
        };
        assert!(new.listed()[0] < old.listed()[0]);
        assert!(new.listed()[1].starts_with("run-tenant/lab/-/"));
        assert!(old.mark() < new.mark() && urgent.mark() < old.mark());
    }

    #[test]
    fn a_pause_is_no_end() {
        let mut run = record();
        run.halt(&Halt::infrastructure("disk"), 5);
        assert_eq!((run.state, run.ended_ms), (State::Paused, 0));
        assert_eq!(run.cause_class, "infrastructure");
        run.halt(&Halt::Failed("bad".to_owned()), 5);
        assert_eq!((run.state, run.ended_ms), (State::Failed, 5));
        assert!(State::ALL.iter().all(|s| !(s.is_open() && s.is_over())));
    }
}
