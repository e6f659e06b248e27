//! What is told of the jobs of runs, and how that of several is put together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::read_model::WaitReason;

/// Jobs of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJobs {
    /// Why they wait.
    pub waits: Vec<WaitReason>,
    /// How many wait.
    pub waiting: u64,
    /// How many run.
    pub running: u64,
    /// The accounts that jobs of a lane call, by the names of both.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accounts: BTreeMap<String, String>,
}

/// What a coordinator tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// 1.
    pub version: u32,
    /// Version of its program.
    pub program: String,
    /// When, by the clock of the board.
    #[serde(default)]
    pub at_ms: u64,
    /// Its runs.
    pub runs: BTreeMap<String, RunJobs>,
}

/// Puts together what is told of runs: who told of one last has it, or had it last; what was found
/// left behind counts only if nobody tells of the run.
pub(super) fn merge(left: Vec<Told>, mut told: Vec<Told>) -> BTreeMap<String, RunJobs> {
    told.sort_by_key(|told| told.at_ms);
    let all = left.into_iter().chain(told);
    all.flat_map(|told| told.runs).collect()
}

/// Adds the reasons of several runs up: equal ones are one.
#[must_use]
pub fn sum<'a>(runs: impl IntoIterator<Item = &'a RunJobs>) -> RunJobs {
    let mut total = RunJobs::default();
    for run in runs {
        total.waiting += run.waiting;
        total.running += run.running;
        for wait in &run.waits {
            let known = total
                .waits
                .iter_mut()
                .find(|w| w.code == wait.code && w.words == wait.words);
            match known {
                Some(known) => {
                    known.count += wait.count;
                    known.oldest_ms = known.oldest_ms.max(wait.oldest_ms);
                }
                None => total.waits.push(wait.clone()),
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at_ms: u64, runs: &[(&str, u64)]) -> Told {
        let jobs = |waiting| RunJobs {
            waiting,
            ..RunJobs::default()
        };
        Told {
            at_ms,
            runs: runs
                .iter()
                .map(|(id, n)| ((*id).to_owned(), jobs(*n)))
                .collect(),
            ..Told::default()
        }
    }

    #[test]
    fn a_run_is_told_of_by_its_last_coordinator_and_else_by_whoever_found_its_jobs() {
        let dead = told(1_000, &[("a", 7), ("b", 1)]);
        let heir = told(3_000, &[("a", 5)]);
        let left = told(9_000, &[("a", 4), ("c", 2)]);
        let runs = merge(vec![left], vec![heir, dead]);
        let waiting: Vec<_> = runs
            .iter()
            .map(|(id, jobs)| (&**id, jobs.waiting))
            .collect();
        assert_eq!(waiting, [("a", 5), ("b", 1), ("c", 2)]);
    }
}
