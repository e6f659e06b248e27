//! The faults are over: everything comes to its end, within a bound, and nothing is left.

use skillopt_queue::Ledger;

use crate::cluster::{COORDINATORS, Cluster, LIFETIME, RUNS, TTL, WORKERS, key, purse};

/// Rounds in which everything has to be done: each gives each part a turn.
const ROUNDS: usize = 120;

impl Cluster {
    pub(crate) fn finish(&mut self) {
        for run in 0..RUNS {
            self.set_cap(run, None);
        }
        for worker in &mut self.workers {
            worker.is_frozen = false;
        }
        for coordinator in 0..COORDINATORS {
            for run in self.coordinators[coordinator].paused.clone() {
                self.toggle_pause(coordinator, run);
            }
        }
        let mut rounds = 0;
        while !self.is_over() {
            rounds += 1;
            assert!(rounds < ROUNDS, "something is stuck");
            self.round();
            // A turn of everything is many events: the coordinators take turns with the check.
            self.check_after(Some(rounds % COORDINATORS));
        }
        self.check_end();
    }

    /// Every part has its turn; each run is wanted by the first coordinator at least.
    fn round(&mut self) {
        for run in 0..RUNS {
            self.start_run(0, run);
        }
        for coordinator in 0..COORDINATORS {
            self.call(coordinator);
            self.read_notices(coordinator);
        }
        for worker in 0..WORKERS {
            self.take_work(worker);
            self.renew(worker);
            while !self.workers[worker].held.is_empty() {
                self.finish_one(worker);
            }
        }
        while !self.messages.is_empty() {
            self.deliver();
        }
        self.advance(TTL / 4);
    }

    fn is_over(&self) -> bool {
        let is_done = |run| {
            let lap = self.coordinators[0].loops.get(&run);
            lap.is_some_and(|lap| lap.is_done)
        };
        (0..RUNS).all(is_done)
            && self.coordinators.iter().all(|coordinator| {
                coordinator.loops.values().all(|lap| lap.is_done)
                    && coordinator.machine.released() == 0
                    && coordinator.calls.is_empty()
                    && coordinator.inbox.is_empty()
            })
            && self.pending.is_empty()
    }

    fn check_end(&mut self) {
        let numbers = self.programs.iter().flatten().flatten();
        assert!(
            numbers
                .clone()
                .all(|number| self.results.contains_key(&key(*number)))
        );
        for coordinator in &self.coordinators {
            assert_eq!(coordinator.machine.waiting(), 0);
            assert!(coordinator.loops.values().all(|lap| lap.untold.is_empty()));
        }
        let stats = self.queue.stats(self.now());
        assert_eq!((stats.queued, stats.delayed), (0, 0));
        // What was reserved for calls that nobody settles comes back.
        self.advance(LIFETIME + TTL);
        let stats = self.queue.stats(self.now());
        assert_eq!(stats.leased, 0);
        self.tally.insert("lease ran out", stats.losses);
        let mut purses: Vec<String> = (0..RUNS).map(purse).collect();
        purses.push("tenant/lab".into());
        let balances = self.at_once(self.ledger.balances(&purses)).unwrap();
        assert!(
            balances
                .iter()
                .all(|balance| balance.reserved == Default::default())
        );
    }
}
