//! A coordinator: a scheduler, the loops of its runs, and its calls to the queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use skillopt_coordinator::scheduler::machine::{Batch, Machine};
use skillopt_coordinator::scheduler::{Limits, Offer, RunShare};
use skillopt_core::job::Key;
use skillopt_queue::conformance::machine::Told;
use skillopt_queue::queue::{JobState, Which};
use skillopt_queue::{Lane, Priority, RunId};

use crate::cluster::{Cluster, answer, enqueue, key, number, run_id};

/// Who waits for a job: a run's loop, by its number.
type Waiter = (usize, u64);

pub(crate) struct Coordinator {
    pub(crate) machine: Machine<Waiter>,
    /// Loops by run.
    pub(crate) loops: BTreeMap<usize, Loop>,
    /// Calls to the queue that have not arrived there, in order.
    pub(crate) calls: VecDeque<Call>,
    /// Batches by their submission.
    pub(crate) submissions: BTreeMap<u64, u64>,
    /// Notices that have not been read, with their batch.
    pub(crate) inbox: VecDeque<(u64, Key, Told)>,
    pub(crate) paused: BTreeSet<usize>,
    next_loop: u64,
}

/// A run's loop: it asks for a stage, waits for all of it, and goes on.
pub(crate) struct Loop {
    pub(crate) number: u64,
    stage: usize,
    /// What it has asked for and not been told.
    pub(crate) untold: BTreeSet<Key>,
    pub(crate) is_done: bool,
}

pub(crate) enum Call {
    Submit(Batch),
    Withdraw(Vec<(RunId, Key)>),
}

pub(crate) fn limits() -> Limits {
    Limits {
        window_min: 2,
        window_max: 5,
        places_per_slot: 2,
        waiting_per_run_max: 100,
        waiting_max: 300,
        age_max: Duration::from_millis(150),
    }
}

impl Coordinator {
    pub(crate) fn new() -> Self {
        let mut machine = Machine::new(limits());
        machine.set_capacity(&offers(3));
        Self {
            machine,
            loops: BTreeMap::new(),
            calls: VecDeque::new(),
            submissions: BTreeMap::new(),
            inbox: VecDeque::new(),
            paused: BTreeSet::new(),
            next_loop: 0,
        }
    }
}

fn offers(slots: usize) -> [Offer; 2] {
    let chat = Offer {
        lanes: vec![Lane::new("chat")],
        slots,
    };
    let both = Offer {
        lanes: vec![Lane::new("chat"), Lane::new("exec")],
        slots: 1,
    };
    [chat, both]
}

fn share(run: usize) -> RunShare {
    RunShare {
        tenant: (run % 2).to_string(),
        weight: if run == 0 { 300 } else { 100 },
        priority: if run == 2 {
            Priority::new(3)
        } else {
            Priority::NORMAL
        },
        ..RunShare::alone(run_id(run))
    }
}

impl Cluster {
    /// Starts a run's loop on a coordinator, even if another one has it.
    pub(crate) fn start_run(&mut self, coordinator: usize, run: usize) {
        let this = &mut self.coordinators[coordinator];
        if this.loops.contains_key(&run) {
            return;
        }
        this.machine.open(&share(run));
        this.next_loop += 1;
        let fresh = Loop {
            number: this.next_loop,
            stage: 0,
            untold: BTreeSet::new(),
            is_done: false,
        };
        this.loops.insert(run, fresh);
        self.ask(coordinator, run);
    }

    /// Lets a loop ask for its next stages, as far as it gets with what is stored.
    fn ask(&mut self, coordinator: usize, run: usize) {
        let now = self.now();
        let this = &mut self.coordinators[coordinator];
        while let Some(lap) = this.loops.get_mut(&run).filter(|lap| lap.untold.is_empty()) {
            let Some(stage) = self.programs[run].get(lap.stage) else {
                lap.is_done = true;
                return;
            };
            lap.stage += 1;
            let missing = stage
                .iter()
                .filter(|n| !self.results.contains_key(&key(**n)));
            let jobs: Vec<_> = missing.map(|n| enqueue(run, *n)).collect();
            lap.untold = jobs.iter().map(|job| job.key).collect();
            let waiter = (run, lap.number);
            let others = this.loops.iter().filter(|(other, _)| **other != run);
            let joins =
                others.filter(|(_, other)| jobs.iter().any(|job| other.untold.contains(&job.key)));
            *self.tally.entry("second run joined").or_default() += joins.count() as u64;
            this.machine
                .submit(now, &run_id(run), jobs, &waiter)
                .unwrap();
        }
    }

    /// Makes the coordinator's next call to the queue; it may be lost on the way there, and is
    /// then made again.
    pub(crate) fn call(&mut self, coordinator: usize) {
        let now = self.now();
        let this = &mut self.coordinators[coordinator];
        if this.calls.is_empty() {
            let batch = this.machine.fill(now);
            if batch.jobs.is_empty() {
                return;
            }
            this.calls.push_back(Call::Submit(batch));
        }
        if self.dice.once_in(8) {
            return;
        }
        match this.calls.pop_front() {
            Some(Call::Withdraw(jobs)) => {
                for (run, key) in jobs {
                    self.withdrawn.insert((coordinator, key));
                    self.queue.cancel(now, &run, &[key]);
                }
            }
            Some(Call::Submit(batch)) => {
                let submission = self.next_submission;
                let results = &self.results;
                let is_stored = |key: &Key| results.contains_key(key);
                let keys: Vec<Key> = batch.jobs.iter().map(|job| job.key).collect();
                let taken = self
                    .queue
                    .submit(now, batch.jobs.clone(), submission, is_stored);
                if taken.is_ok() {
                    for (of, key) in &self.pending {
                        if keys.contains(key) {
                            let is_own = this.submissions.contains_key(of);
                            let what = ["second coordinator joined", "job hastened"];
                            *self.tally.entry(what[usize::from(is_own)]).or_default() += 1;
                        }
                    }
                    self.next_submission += 1;
                    this.submissions.insert(submission, batch.number);
                    self.pending
                        .extend(keys.into_iter().map(|key| (submission, key)));
                } else {
                    // The queue is full: the same call again, later.
                    this.calls.push_front(Call::Submit(batch));
                }
            }
            None => {}
        }
        self.hear();
    }

    /// Reads some of what the queue has told, and lets the loops go on.
    pub(crate) fn read_notices(&mut self, coordinator: usize) {
        for _ in 0..1 + self.dice.roll(4) {
            let this = &mut self.coordinators[coordinator];
            // Batches are read independently of each other.
            let at = self.dice.roll(this.inbox.len().max(1));
            let Some((batch, key, told)) = this.inbox.remove(at) else {
                return;
            };
            let waiters = this.machine.ended(key, batch, told == Told::Result);
            for (run, lap) in waiters {
                self.tell(coordinator, run, lap, key, told);
            }
        }
    }

    /// A loop is told of the end of a job.
    fn tell(&mut self, coordinator: usize, run: usize, lap: u64, key: Key, told: Told) {
        if told == Told::Result {
            assert_eq!(
                self.results.get(&key),
                Some(&answer(key)),
                "no stored result"
            );
        }
        let now = self.now();
        if told == Told::Cancelled {
            // Its own withdrawals are no news to a loop, whatever it has asked for since.
            let others = self.withdrawn.iter().filter(|(by, _)| *by != coordinator);
            let is_known = others.map(|(_, other)| *other).any(|other| other == key);
            assert!(is_known, "a job was withdrawn that nobody has withdrawn");
        }
        let this = &mut self.coordinators[coordinator];
        let Some(lap) = this.loops.get_mut(&run).filter(|it| it.number == lap) else {
            panic!("a loop that is gone was told");
        };
        assert!(lap.untold.remove(&key), "a waiter was told twice");
        if told == Told::Result {
            self.ask(coordinator, run);
        } else if lap.untold.is_empty() || self.dice.once_in(2) {
            self.stop_run(coordinator, run);
        } else {
            // It asks again for what failed.
            lap.untold.insert(key);
            let waiter = (run, lap.number);
            let jobs = vec![enqueue(run, number(key))];
            this.machine
                .submit(now, &run_id(run), jobs, &waiter)
                .unwrap();
        }
    }

    /// A loop ends, whether it is done or not.
    pub(crate) fn stop_run(&mut self, coordinator: usize, run: usize) {
        let this = &mut self.coordinators[coordinator];
        if this.loops.remove(&run).is_some() {
            this.machine.close(&run_id(run));
            this.paused.remove(&run);
        }
    }

    /// A loop withdraws all its jobs and ends.
    pub(crate) fn cancel(&mut self, coordinator: usize, run: usize) {
        let this = &mut self.coordinators[coordinator];
        let Some(lap) = this.loops.get_mut(&run) else {
            return;
        };
        let cancelled = this.machine.cancel(&run_id(run), Which::All);
        for ((of, number), key) in cancelled.told {
            assert_eq!((of, number), (run, lap.number));
            assert!(lap.untold.remove(&key), "a waiter was told twice");
        }
        assert!(lap.untold.is_empty(), "a withdrawn job was not told");
        if !cancelled.in_queue.is_empty() {
            this.calls.push_back(Call::Withdraw(cancelled.in_queue));
        }
        self.stop_run(coordinator, run);
    }

    pub(crate) fn toggle_pause(&mut self, coordinator: usize, run: usize) {
        let now = self.now();
        let this = &mut self.coordinators[coordinator];
        let id = run_id(run);
        if !this.loops.contains_key(&run) {
            return;
        }
        if this.paused.remove(&run) {
            this.machine.resume(&id);
            return;
        }
        this.paused.insert(run);
        this.machine.pause(&id);
        let mut idle = this.machine.released_for_paused(&id);
        idle.retain(|key| {
            let state = self.queue.state_of(key);
            matches!(state, JobState::Waiting { .. } | JobState::Delayed { .. })
        });
        let withdrawn = this.machine.take_back(now, &id, &idle);
        if !withdrawn.is_empty() {
            this.calls.push_back(Call::Withdraw(withdrawn));
        }
    }

    /// A coordinator dies with everything it knows, and another one comes in its place.
    pub(crate) fn kill(&mut self, coordinator: usize) {
        self.coordinators[coordinator] = Coordinator::new();
        self.note("coordinator died");
    }

    pub(crate) fn change_capacity(&mut self, coordinator: usize) {
        let slots = self.dice.roll(4);
        let offers = offers(slots);
        let known = if slots == 0 {
            &offers[1..]
        } else {
            &offers[..]
        };
        self.coordinators[coordinator].machine.set_capacity(known);
    }
}
