//! What holds after each event.

use std::collections::BTreeSet;

use skillopt_coordinator::waits::{Facts, JobFacts, Place, explain};
use skillopt_queue::{Lane, Ledger};

use crate::cluster::{COORDINATORS, Cluster, RUNS, purse};
use crate::coordinator::{Call, Coordinator, limits};

impl Cluster {
    /// Checks everything.
    pub(crate) fn check(&self) {
        (0..COORDINATORS).for_each(|coordinator| self.check_after(Some(coordinator)));
    }

    /// Checks what an event may have broken.
    pub(crate) fn check_after(&self, acted: Option<usize>) {
        if let Some(coordinator) = acted.map(|number| &self.coordinators[number]) {
            coordinator.machine.check().unwrap();
            self.check_places(coordinator);
        }
        self.check_commits();
        self.check_caps();
    }

    /// One commit for each key, and its bytes do not depend on who computed it.
    fn check_commits(&self) {
        assert!(self.commits.values().all(|commits| *commits == 1));
        assert_eq!(self.commits.len(), self.results.len());
    }

    /// Nobody spends more than his cap, but for calls that were answered after their reservation
    /// had run out: a worker that froze had made them, so they are counted.
    fn check_caps(&self) {
        let purses: Vec<String> = (0..RUNS).map(purse).collect();
        let balances = self.at_once(self.ledger.balances(&purses)).unwrap();
        for (run, balance) in balances.iter().enumerate() {
            let used = balance.spent.plus(balance.reserved).micro_usd;
            if let Some(cap) = balance.caps.micro_usd {
                assert!(used <= cap + self.late, "run {run} uses {used} of {cap}");
            }
        }
    }

    /// Every job that a loop waits for is in exactly one place: it waits in the scheduler, is on its
    /// way to the queue, is known to the queue, or its end is on the way back. And each has one
    /// reason.
    fn check_places(&self, coordinator: &Coordinator) {
        let standing = coordinator.machine.standing();
        assert!(standing.released.len() <= limits().window_max, "the window");
        let mut coming = BTreeSet::new();
        for call in &coordinator.calls {
            if let Call::Submit(batch) = call {
                coming.extend(batch.jobs.iter().map(|job| job.key));
            }
        }
        let known = |key| {
            let waits = coordinator.submissions.keys();
            waits
                .clone()
                .any(|submission| self.pending.contains(&(*submission, key)))
        };
        let mut released = Vec::new();
        for job in &standing.released {
            let is_told = coordinator.inbox.iter().any(|(_, key, _)| *key == job.key);
            assert!(
                coming.contains(&job.key) || known(job.key) || is_told,
                "{} was released and is nowhere",
                job.key
            );
            released.extend(
                Place::of(&self.queue.state_of(&job.key)).map(|place| JobFacts {
                    key: job.key,
                    run: job.run.clone(),
                    lane: job.lane.clone(),
                    since: job.since,
                    place,
                }),
            );
        }
        let untold: BTreeSet<_> = coordinator
            .loops
            .values()
            .flat_map(|lap| &lap.untold)
            .collect();
        let waiting: usize = standing.lines.iter().map(|line| line.waiting).sum();
        assert_eq!(waiting, coordinator.machine.waiting(), "lines");
        let released_for_loops = standing
            .released
            .iter()
            .filter(|job| untold.contains(&job.key));
        assert_eq!(
            waiting + released_for_loops.count(),
            untold.len(),
            "jobs of loops"
        );

        let jobs = waiting + released.len();
        let waits = explain(&Facts {
            now: self.now(),
            lines: standing.lines,
            released,
            lanes: BTreeSet::from([Lane::new("chat")]),
            ..Facts::default()
        });
        assert_eq!(waits.waiting + waits.running, jobs as u64, "reasons");
        let rows: u64 = waits.rows.iter().map(|row| row.count).sum();
        assert_eq!(rows, waits.waiting, "reasons");
    }
}
