//! The cluster: its parts, and the events that may happen to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use skillopt_queue::conformance::machine::{QueueMachine, Told};
use skillopt_queue::ledger::{Amount, Caps, MemoryLedger};
use skillopt_queue::queue::Limits;
use skillopt_queue::{Clock, Enqueue, Fence, Lane, Ledger, Priority, RunId, TestClock, Timestamp};
use tokio::runtime::Runtime;

use crate::Tally;
use crate::coordinator::Coordinator;
use crate::dice::Dice;
use crate::worker::{Message, Worker};

/// Lease time.
pub(crate) const TTL: Duration = Duration::from_millis(100);
/// A call is over by then.
pub(crate) const LIFETIME: Duration = Duration::from_millis(400);
pub(crate) const RUNS: usize = 3;
pub(crate) const COORDINATORS: usize = 2;
pub(crate) const WORKERS: usize = 3;
/// What a call costs at most; it comes to a part of it.
pub(crate) const PRICE: u64 = 10;

/// What a run asks for: stage after stage, numbers of jobs. Runs have jobs in common.
pub(crate) type Program = Vec<Vec<usize>>;

pub(crate) struct Cluster {
    pub(crate) dice: Dice,
    pub(crate) clock: TestClock,
    pub(crate) queue: QueueMachine,
    /// The store: first result wins.
    pub(crate) results: BTreeMap<Key, u64>,
    pub(crate) commits: HashMap<Key, u32>,
    pub(crate) ledger: MemoryLedger,
    runtime: Runtime,
    pub(crate) programs: Vec<Program>,
    pub(crate) coordinators: Vec<Coordinator>,
    pub(crate) workers: Vec<Worker>,
    /// Completions on their way.
    pub(crate) messages: Vec<Message>,
    /// The fence that was granted last, of all and by key.
    pub(crate) last_fence: Fence,
    pub(crate) current: HashMap<Key, Fence>,
    /// Keys whose lease is being committed.
    pub(crate) committing: BTreeSet<Key>,
    /// Submissions to the queue and the keys that they have not been told of.
    pub(crate) pending: BTreeSet<(u64, Key)>,
    pub(crate) next_submission: u64,
    pub(crate) next_reservation: u64,
    /// What was settled after its reservation had been given back.
    pub(crate) late: u64,
    /// Which coordinator has withdrawn which job from the queue.
    pub(crate) withdrawn: BTreeSet<(usize, Key)>,
    /// What happened, how often.
    pub(crate) tally: Tally,
}

/// Jobs that programs choose from.
const JOBS: usize = 12;

static KEYS: LazyLock<[Key; JOBS]> =
    LazyLock::new(|| std::array::from_fn(|n| Key(Hash::of(&n.to_le_bytes()))));

pub(crate) fn key(number: usize) -> Key {
    KEYS[number]
}

pub(crate) fn number(key: Key) -> usize {
    KEYS.iter().position(|other| *other == key).unwrap()
}

pub(crate) fn run_id(run: usize) -> RunId {
    RunId::new(&format!("run-{run}"))
}

/// Most that a run may spend while there are faults.
pub(crate) const fn cap(run: usize) -> Option<u64> {
    if run == 0 { Some(6 * PRICE) } else { None }
}

pub(crate) fn lane(number: usize) -> Lane {
    Lane::new(if number.is_multiple_of(4) {
        "exec"
    } else {
        "chat"
    })
}

/// What a job's answer is, whoever computes it.
pub(crate) const fn answer(key: Key) -> u64 {
    key.0.as_bytes()[0] as u64
}

impl Cluster {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let clock = TestClock::new();
        let programs = (0..RUNS).map(|_| program(&mut dice)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let cluster = Self {
            clock: clock.clone(),
            queue: QueueMachine::new(Limits {
                jobs_max: 12,
                losses_max: 3,
                dead_max: 4,
            }),
            results: BTreeMap::new(),
            commits: HashMap::new(),
            ledger: MemoryLedger::new(Arc::new(clock)),
            runtime: runtime.unwrap(),
            programs,
            coordinators: (0..COORDINATORS).map(|_| Coordinator::new()).collect(),
            workers: (0..WORKERS).map(Worker::new).collect(),
            messages: Vec::new(),
            last_fence: Fence(0),
            current: HashMap::new(),
            committing: BTreeSet::new(),
            pending: BTreeSet::new(),
            next_submission: 0,
            next_reservation: 0,
            late: 0,
            withdrawn: BTreeSet::new(),
            tally: Tally::new(),
            dice,
        };
        for run in 0..RUNS {
            cluster.set_cap(run, cap(run));
        }
        cluster
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        let now = self.now();
        self.queue.tick(now);
        self.hear();
    }

    /// Waits for a part that answers at once.
    pub(crate) fn at_once<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn set_cap(&self, run: usize, micro_usd: Option<u64>) {
        let caps = Caps {
            micro_usd,
            ..Caps::default()
        };
        self.at_once(self.ledger.set_caps(&purse(run), caps))
            .unwrap();
    }

    /// Lets something happen, and returns the coordinator that it happened to.
    pub(crate) fn event(&mut self) -> Option<usize> {
        let coordinator = self.dice.roll(COORDINATORS);
        let worker = self.dice.roll(WORKERS);
        let run = self.dice.roll(RUNS);
        match self.dice.roll(40) {
            0..5 => self.start_run(coordinator, run),
            5..11 => self.call(coordinator),
            11..16 => self.read_notices(coordinator),
            16 => match self.dice.roll(3) {
                0 => self.kill(coordinator),
                1 => self.cancel(coordinator, run),
                _ => self.stop_run(coordinator, run),
            },
            17 => self.toggle_pause(coordinator, run),
            18 => self.change_capacity(coordinator),
            _ => {
                self.event_elsewhere(worker);
                return None;
            }
        }
        Some(coordinator)
    }

    /// Time passes, or something happens to a worker or to the queue.
    fn event_elsewhere(&mut self, worker: usize) {
        match self.dice.roll(21) {
            0..4 => {
                let ms = 1 + self.dice.roll(60) as u64;
                self.advance(Duration::from_millis(ms));
            }
            4 => self.advance(TTL),
            5..11 => self.take_work(worker),
            11..15 => self.finish_one(worker),
            15 => self.renew(worker),
            16..19 => self.deliver(),
            19 => self.return_one(worker),
            _ => match self.dice.roll(4) {
                0 => self.crash(worker),
                1 => self.workers[worker].is_frozen = true,
                _ => self.workers[worker].is_frozen = false,
            },
        }
    }

    pub(crate) fn note(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// Passes on what the queue has told, to coordinators that live.
    pub(crate) fn hear(&mut self) {
        for (submission, key, told) in self.queue.take_told() {
            assert!(
                self.pending.remove(&(submission, key)),
                "{key} was told twice, or to somebody who did not ask"
            );
            match told {
                Told::Result => {}
                Told::Failed => self.note("dead letter told"),
                Told::Cancelled => self.note("withdrawal told"),
            }
            for coordinator in &mut self.coordinators {
                if let Some(batch) = coordinator.submissions.get(&submission) {
                    coordinator.inbox.push_back((*batch, key, told));
                }
            }
        }
    }
}

pub(crate) fn purse(run: usize) -> String {
    format!("run/{run}")
}

pub(crate) fn spend(micro_usd: u64) -> Amount {
    Amount {
        requests: 1,
        micro_usd,
        ..Amount::default()
    }
}

/// One to three stages of up to five jobs.
fn program(dice: &mut Dice) -> Program {
    let stage = |dice: &mut Dice| {
        let jobs: BTreeSet<usize> = (0..1 + dice.roll(5)).map(|_| dice.roll(JOBS)).collect();
        jobs.into_iter().collect()
    };
    (0..1 + dice.roll(3)).map(|_| stage(dice)).collect()
}

pub(crate) fn enqueue(run: usize, number: usize) -> Enqueue {
    Enqueue {
        key: key(number),
        job: Default::default(),
        lane: lane(number),
        priority: if number.is_multiple_of(3) {
            Priority::new(1)
        } else {
            Priority::NORMAL
        },
        run: run_id(run),
        not_before: None,
    }
}
