//! Random schedules of a whole cluster's state machines: scheduler, queue and ledger, with a
//! virtual clock, workers that crash and freeze, messages that come late, twice and out of order,
//! coordinators that die, and two coordinators of one run.
//!
//! After each event the invariants of [`check`] hold, and in the end, when the faults are over,
//! everything that was asked for is there and nothing is left. `SKILLOPT_SEED=N` repeats one
//! schedule; `SKILLOPT_SCHEDULES=N` runs another number of them.

// Everything here is a test.
#![allow(clippy::unwrap_used)]

mod check;
mod cluster;
mod coordinator;
mod dice;
mod end;
mod worker;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::cluster::Cluster;

/// How often something happened, by its name.
type Tally = BTreeMap<&'static str, u64>;

/// What happens in a thousand schedules at least once, or they would show little.
const HAPPENS: [&str; 11] = [
    "stale completion refused",
    "lease ran out",
    "dead letter told",
    "withdrawal told",
    "second run joined",
    "second coordinator joined",
    "cap held a call back",
    "call settled late",
    "store failed",
    "coordinator died",
    "job hastened",
];

const SCHEDULES: u64 = 10_000;
/// Random events of one schedule.
const EVENTS: usize = 60;

#[test]
fn ten_thousand_schedules_keep_every_promise() {
    if let Some(seed) = number("SKILLOPT_SEED") {
        schedule(seed);
        return;
    }
    let schedules = number("SKILLOPT_SCHEDULES").unwrap_or(SCHEDULES);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut tally = Tally::new();
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for first in 0..threads {
            let run = move || {
                let step = usize::try_from(threads).unwrap();
                let mut tally = Tally::new();
                for seed in (first..schedules).step_by(step) {
                    merge(&mut tally, schedule(seed));
                }
                tally
            };
            all.push(scope.spawn(run));
        }
        for part in all {
            merge(&mut tally, part.join().unwrap());
        }
    });
    println!("{schedules} schedules: {tally:?}");
    if schedules >= 1_000 {
        let missing: Vec<_> = HAPPENS
            .iter()
            .filter(|name| tally.get(**name).is_none_or(|n| *n == 0))
            .collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
    }
}

fn merge(all: &mut Tally, part: Tally) {
    for (name, count) in part {
        *all.entry(name).or_default() += count;
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn schedule(seed: u64) -> Tally {
    let run = AssertUnwindSafe(|| {
        let mut cluster = Cluster::new(seed);
        for _ in 0..EVENTS {
            let acted = cluster.event();
            cluster.check_after(acted);
        }
        cluster.check();
        cluster.finish();
        cluster.tally
    });
    catch_unwind(run).unwrap_or_else(|panic| {
        eprintln!("schedule {seed} failed; SKILLOPT_SEED={seed} repeats it");
        resume_unwind(panic)
    })
}
