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
pub(crate) struct Lacks(Mutex<BTreeMap<String, Others>>);

/// What is known of other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Nothing yet.
    Unknown,
    /// One does not say that it may not call the server.
    May,
    /// All say so, or there is no other.
    MayNot,
}

impl Lacks {
    /// Notes that this worker may not call `endpoint`, and returns whether nobody else may either, as
    /// far as was seen last. That is said once of each look at the others: whoever goes on after it
    /// was told may have started one that can.
    pub(crate) fn nobody_may_call(&self, endpoint: &str) -> bool {
        let mut servers = self.lock();
        if let Some(others) = servers.get_mut(endpoint) {
            return std::mem::replace(others, Others::Unknown) == Others::MayNot;
        }
        // Of more servers nobody could be told: their jobs pause.
        if servers.len() >= LACKS_MAX {
            return true;
        }
        servers.insert(endpoint.to_owned(), Others::Unknown);
        false
    }

    /// Returns the servers, for the board.
    pub(crate) fn servers(&self) -> BTreeSet<String> {
        self.lock().keys().cloned().collect()
    }

    /// Takes in what others say that take jobs; those that do none of ours do not count.
    pub(crate) fn compare(&self, others: &[WorkerRecord], lanes: &[String]) {
        for (endpoint, known) in self.lock().iter_mut() {
            let may = |other: &&WorkerRecord| {
                !other.lacks.contains(endpoint) && other.lanes.iter().any(|l| lanes.contains(l))
            };
            *known = match others.iter().find(may) {
                Some(_) => Others::May,
                None => Others::MayNot,
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Others>> {
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
        assert!(!lacks.nobody_may_call("b"));
        let servers: Vec<_> = lacks.servers().into_iter().collect();
        assert_eq!(servers, ["a", "b"]);
        for n in 2..LACKS_MAX {
            assert!(!lacks.nobody_may_call(&n.to_string()));
        }
        assert!(lacks.nobody_may_call("one too many"));
    }
}
