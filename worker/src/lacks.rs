//! Servers that this worker may not call, and whether another one may.
//!
//! A worker that lacks a credential is well: it does what it can, and leaves the other jobs to those
//! that have it. Each worker says on the board what it lacks, so that a job that nobody can do is not
//! passed round for ever, but pauses its run with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use skillopt_queue::fleet::{LACKS_MAX, WorkerRecord};

/// What this worker lacks.
#[derive(Debug, Default)]
pub(crate) struct Lacks(Mutex<BTreeMap<String, Asked>>);

/// Whether a job wanted a server lately, and what a look at the others said then. It is not kept: whoever
/// heard that a run has paused may have started a worker that can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    /// Not since the last look.
    #[default]
    Not,
    /// Nobody has looked since.
    Since,
    /// All others said at the last look that they may not call it either, or there was none.
    InVain,
}

impl Lacks {
    /// Notes that this worker may not call `endpoint`, and returns whether nobody else may either, as
    /// far as was seen since it was asked before.
    pub(crate) fn nobody_may_call(&self, endpoint: &str) -> bool {
        let mut servers = self.lock();
        // Of more servers nobody could be told: their jobs pause.
        if !servers.contains_key(endpoint) && servers.len() >= LACKS_MAX {
            return true;
        }
        let asked = servers.entry(endpoint.to_owned()).or_default();
        let is_in_vain = *asked == Asked::InVain;
        *asked = if is_in_vain { Asked::Not } else { Asked::Since };
        is_in_vain
    }

    /// Returns the servers, for the board.
    pub(crate) fn servers(&self) -> BTreeSet<String> {
        self.lock().keys().cloned().collect()
    }

    /// Returns whether it matters what others say.
    pub(crate) fn is_asked(&self) -> bool {
        self.lock().values().any(|asked| *asked != Asked::Not)
    }

    /// Takes in what others say that take jobs; those that do none of ours do not count.
    pub(crate) fn compare(&self, others: &[WorkerRecord], lanes: &[String]) {
        for (endpoint, asked) in self.lock().iter_mut() {
            let may = |other: &WorkerRecord| {
                !other.lacks.contains(endpoint) && other.lanes.iter().any(|l| lanes.contains(l))
            };
            *asked = match asked {
                Asked::Since if !others.iter().any(may) => Asked::InVain,
                _ => Asked::Not,
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Asked>> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_left_to_others_until_all_lack_what_it_needs() {
        let lacks = Lacks::default();
        assert!(!lacks.nobody_may_call("a"), "nobody was asked yet");
        let ours = ["chat".to_owned()];
        let other = |lane: &str, lacks: &[&str]| WorkerRecord {
            lanes: vec![lane.to_owned()],
            lacks: lacks.iter().map(|&l| l.to_owned()).collect(),
            ..WorkerRecord::default()
        };
        for (others, is_lost) in [
            (vec![other("chat", &[])], false),
            (vec![other("chat", &["b"]), other("chat", &["a"])], false),
            (vec![other("chat", &["a", "b"]), other("exec", &[])], true),
            (vec![], true),
            (vec![other("chat", &[])], false),
        ] {
            lacks.compare(&others, &ours);
            assert_eq!(lacks.nobody_may_call("a"), is_lost, "{others:?}");
            assert!(!lacks.nobody_may_call("a"), "nobody has looked since");
        }
        // What was seen is no answer to what is asked long after.
        assert!(lacks.is_asked());
        for _ in 0..2 {
            lacks.compare(&[], &ours);
        }
        assert!(!lacks.is_asked() && !lacks.nobody_may_call("a"));
        assert!(!lacks.nobody_may_call("b"));
        let servers: Vec<_> = lacks.servers().into_iter().collect();
        assert_eq!(servers, ["a", "b"]);
        for n in 2..LACKS_MAX {
            assert!(!lacks.nobody_may_call(&n.to_string()));
        }
        assert!(lacks.nobody_may_call("one too many"));
    }
}
