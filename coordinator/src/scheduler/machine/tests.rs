//! The policy, on clusters of imaginary slots.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_queue::queue::Which;
use skillopt_queue::{Lane, Priority};

use super::*;
use crate::scheduler::standing::Hold;

fn run(name: &str) -> RunId {
    RunId::new(name)
}

fn key(run: &str, number: usize) -> Key {
    Key(Hash::of(format!("{run} {number}").as_bytes()))
}

fn job(of: &str, number: usize, lane: &str, priority: Priority) -> Enqueue {
    Enqueue {
        key: key(of, number),
        job: Bytes::new(),
        lane: Lane::new(lane),
        priority,
        run: run(of),
        not_before: None,
    }
}

fn jobs(of: &str, numbers: std::ops::Range<usize>) -> Vec<Enqueue> {
    let job = |number| job(of, number, "chat", Priority::NORMAL);
    numbers.map(job).collect()
}

fn share(name: &str, tenant: &str, group: &str) -> RunShare {
    RunShare {
        tenant: tenant.into(),
        group: group.into(),
        ..RunShare::alone(run(name))
    }
}

fn offer(lanes: &[&str], slots: usize) -> Offer {
    Offer {
        lanes: lanes.iter().copied().map(Lane::new).collect(),
        slots,
    }
}

/// A machine, a queue that goes by priority and arrival, and slots.
struct Cluster {
    machine: Machine<()>,
    now: Timestamp,
    slots: usize,
    queued: BinaryHeap<(Priority, Reverse<u64>, Key)>,
    running: BinaryHeap<Reverse<(Timestamp, Key)>>,
    batches: BTreeMap<Key, (u64, RunId)>,
    arrivals: u64,
    /// Ends, by run.
    done: BTreeMap<RunId, usize>,
}

impl Cluster {
    fn new(slots: usize, limits: Limits) -> Self {
        let mut machine = Machine::new(limits);
        machine.set_capacity(&[offer(&["chat"], slots)]);
        Self {
            machine,
            now: Timestamp::from_ms(0),
            slots,
            queued: BinaryHeap::new(),
            running: BinaryHeap::new(),
            batches: BTreeMap::new(),
            arrivals: 0,
            done: BTreeMap::new(),
        }
    }

    fn submit(&mut self, of: &str, jobs: Vec<Enqueue>) {
        self.machine.submit(self.now, &run(of), jobs, &()).unwrap();
    }

    fn go(&mut self, took: impl Fn(Key) -> u64) {
        loop {
            let batch = self.machine.fill(self.now);
            if batch.jobs.is_empty() {
                break;
            }
            for job in batch.jobs {
                self.arrivals += 1;
                self.batches
                    .entry(job.key)
                    .or_insert((batch.number, job.run));
                self.queued
                    .push((job.priority, Reverse(self.arrivals), job.key));
            }
        }
        while self.running.len() < self.slots
            && let Some((.., key)) = self.queued.pop()
        {
            // A job that was hastened is in the heap twice.
            if self.running.iter().all(|Reverse((_, other))| *other != key)
                && self.batches.contains_key(&key)
            {
                let ends = self.now.plus(Duration::from_millis(took(key)));
                self.running.push(Reverse((ends, key)));
            }
        }
    }

    /// Lets the next job end and returns whether there was one.
    fn end_one(&mut self, took: impl Fn(Key) -> u64) -> bool {
        self.go(&took);
        let Some(Reverse((at, key))) = self.running.pop() else {
            return false;
        };
        self.now = at;
        let (batch, run) = self.batches.remove(&key).unwrap();
        self.machine.ended(key, batch, true);
        *self.done.entry(run).or_default() += 1;
        self.go(took);
        true
    }

    fn done(&self, of: &str) -> usize {
        self.done.get(&run(of)).copied().unwrap_or(0)
    }
}

/// Between 500 and 1,500 ms, always the same for a key.
fn varied(key: Key) -> u64 {
    let bytes = key.0.as_bytes();
    500 + u64::from(u16::from_le_bytes([bytes[0], bytes[1]])) % 1_000
}

/// A run of 200 jobs, alone or while a sweep of 52 cells of 14,000 jobs each keeps 128 slots busy.
fn small_run_ms(with_sweep: bool, began_after: usize, took: fn(Key) -> u64) -> u64 {
    let mut cluster = Cluster::new(128, Limits::default());
    let mut sent = BTreeMap::new();
    // Each cell submits ahead as a session does.
    let mut top_up = |cluster: &mut Cluster| {
        for cell in 0..52 {
            let name = format!("cell {cell}");
            let sent = sent.entry(name.clone()).or_insert(0);
            while *sent < 14_000 && *sent < cluster.done(&name) + 1_000 {
                cluster.submit(&name, jobs(&name, *sent..*sent + 500));
                *sent += 500;
            }
        }
    };
    if with_sweep {
        for cell in 0..52 {
            let share = share(&format!("cell {cell}"), "lab", "sweep");
            cluster.machine.open(&share);
        }
        top_up(&mut cluster);
        for _ in 0..began_after {
            cluster.end_one(took);
        }
        top_up(&mut cluster);
    }
    cluster.machine.open(&share("small", "lab", "small"));
    cluster.submit("small", jobs("small", 0..200));
    let began = cluster.now;
    while cluster.done("small") < 200 {
        assert!(cluster.end_one(took), "nothing runs");
    }
    cluster.machine.check().unwrap();
    u64::try_from(cluster.now.since(began).as_millis()).unwrap()
}

#[test]
fn a_small_run_beside_a_sweep_takes_about_twice_its_time_alone() {
    for took in [varied as fn(Key) -> u64, |_| 1_000] {
        let alone = small_run_ms(false, 0, took);
        for began_after in [0, 40, 128, 1_000] {
            let beside = small_run_ms(true, began_after, took);
            println!("alone {alone} ms, beside {beside} ms");
            assert!(
                beside * 10 <= alone * 22,
                "{beside} ms instead of {alone} ms"
            );
        }
    }
}

#[test]
fn tenants_share_alike_whatever_the_number_of_their_runs() {
    let mut cluster = Cluster::new(100, Limits::default());
    for number in 0..9 {
        let name = format!("many {number}");
        cluster.machine.open(&share(&name, "many", &name));
        cluster.submit(&name, jobs(&name, 0..1_000));
    }
    cluster.machine.open(&share("one", "one", "one"));
    cluster.submit("one", jobs("one", 0..1_000));
    for _ in 0..1_000 {
        cluster.end_one(varied);
    }
    let one = cluster.done("one");
    assert!((450..=550).contains(&one), "{one} of 1,000");
}

#[test]
fn weights_divide_what_equals_get() {
    let mut cluster = Cluster::new(100, Limits::default());
    for (name, weight) in [("light", 100), ("heavy", 300)] {
        let share = RunShare {
            weight,
            ..share(name, "lab", name)
        };
        cluster.machine.open(&share);
        cluster.submit(name, jobs(name, 0..4_000));
    }
    for _ in 0..2_000 {
        cluster.end_one(varied);
    }
    let heavy = cluster.done("heavy");
    assert!((1_400..=1_600).contains(&heavy), "{heavy} of 2,000");
}

#[test]
fn long_jobs_do_not_push_out_short_ones() {
    let mut cluster = Cluster::new(64, Limits::default());
    for name in ["long", "short"] {
        cluster.machine.open(&share(name, "lab", name));
        cluster.submit(name, jobs(name, 0..4_000));
    }
    let long: std::collections::HashSet<Key> = (0..4_000).map(|n| key("long", n)).collect();
    let took = move |key: Key| if long.contains(&key) { 20_000 } else { 1_000 };
    while cluster.now < Timestamp::from_ms(100_000) {
        cluster.end_one(&took);
    }
    // Half of 64 slots for 100 s make 3,200 jobs of 1 s.
    let short = cluster.done("short");
    assert!(short > 2_500, "{short}");
}

#[test]
fn a_higher_priority_goes_first_but_a_lower_one_is_not_starved() {
    let limits = Limits {
        window_min: 4,
        age_max: Duration::from_secs(10),
        ..Limits::default()
    };
    let mut cluster = Cluster::new(4, limits);
    for (name, priority) in [("low", Priority::new(2)), ("high", Priority::new(5))] {
        let share = RunShare {
            priority,
            ..share(name, "lab", name)
        };
        cluster.machine.open(&share);
        cluster.submit(name, jobs(name, 0..1_000));
    }
    while cluster.now < Timestamp::from_ms(10_000) {
        cluster.end_one(|_| 1_000);
    }
    assert_eq!(cluster.done("low"), 0);
    while cluster.now < Timestamp::from_ms(110_000) {
        cluster.end_one(|_| 1_000);
    }
    // One line gets one job each 10 s, and the rest goes to the higher priority.
    let low = cluster.done("low");
    assert!((8..=11).contains(&low), "{low}");
}

#[test]
fn a_job_that_was_overtaken_in_the_queue_is_hastened() {
    let limits = Limits {
        window_min: 8,
        places_per_slot: 8,
        age_max: Duration::from_secs(10),
        ..Limits::default()
    };
    let mut cluster = Cluster::new(1, limits);
    for (name, priority) in [("low", Priority::new(2)), ("high", Priority::new(5))] {
        let share = RunShare {
            priority,
            ..share(name, "lab", name)
        };
        cluster.machine.open(&share);
    }
    cluster.submit("low", jobs("low", 0..3));
    cluster.go(|_| 1_000);
    cluster.submit("high", jobs("high", 0..1_000));
    while cluster.now < Timestamp::from_ms(60_000) {
        cluster.end_one(|_| 1_000);
    }
    assert_eq!(cluster.done("low"), 3);
    cluster.machine.check().unwrap();
}

#[test]
fn a_lane_without_workers_does_not_hold_up_others() {
    let mut machine = Machine::new(Limits::default());
    machine.set_capacity(&[offer(&["chat", "chat searchqa"], 50)]);
    machine.open(&share("a", "lab", "a"));
    let now = Timestamp::from_ms(1);
    let lane = |lane: &'static str, from: usize| {
        let job = move |n| job("a", n, lane, Priority::NORMAL);
        (from..from + 500).map(job).collect::<Vec<_>>()
    };
    for (at, name) in ["exec codex", "chat", "chat searchqa"]
        .into_iter()
        .enumerate()
    {
        machine
            .submit(now, &run("a"), lane(name, at * 500), &())
            .unwrap();
    }
    let released = machine.fill(now).jobs;
    let of = |lane: &str| {
        let jobs = released.iter().filter(|job| job.lane.as_str() == lane);
        jobs.count()
    };
    // The lanes that share workers share their window; the other one is tried a little.
    assert_eq!(of("exec codex"), 64);
    assert_eq!((of("chat"), of("chat searchqa")), (50, 50));
    machine.check().unwrap();
}

#[test]
fn a_job_that_two_runs_want_is_released_once_and_told_to_both() {
    let mut machine = Machine::new(Limits::default());
    let now = Timestamp::from_ms(1);
    for name in ["a", "b"] {
        machine.open(&share(name, "lab", name));
        let mut jobs = jobs("both", 0..1);
        jobs[0].run = run(name);
        machine.submit(now, &run(name), jobs, &name).unwrap();
    }
    machine.check().unwrap();
    let standing = machine.standing();
    assert_eq!(
        standing
            .lines
            .iter()
            .map(|line| line.waiting)
            .sum::<usize>(),
        1
    );
    let batch = machine.fill(now);
    assert_eq!(batch.jobs.len(), 1);
    // Whoever it was released for may leave; it goes on for the other.
    let cancelled = machine.cancel(&batch.jobs[0].run.clone(), Which::All);
    assert_eq!((cancelled.shared, cancelled.in_queue.len()), (1, 0));
    machine.check().unwrap();
    let told = machine.ended(batch.jobs[0].key, batch.number, false);
    assert_eq!(told.len(), 1);
    assert!(machine.fill(now).jobs.is_empty());
    machine.check().unwrap();
}

#[test]
fn a_job_that_is_withdrawn_and_asked_for_again_does_not_hear_of_its_first_life() {
    let mut machine = Machine::new(Limits::default());
    let now = Timestamp::from_ms(1);
    machine.open(&share("a", "lab", "a"));
    machine.submit(now, &run("a"), jobs("a", 0..1), &1).unwrap();
    let first = machine.fill(now).number;
    let withdrawn = machine.cancel(&run("a"), Which::All).in_queue;
    assert_eq!(withdrawn, [(run("a"), key("a", 0))]);
    machine.submit(now, &run("a"), jobs("a", 0..1), &2).unwrap();
    assert!(machine.ended(key("a", 0), first, false).is_empty());
    let second = machine.fill(now).number;
    assert!(machine.ended(key("a", 0), first, false).is_empty());
    assert_eq!(machine.ended(key("a", 0), second, false), [2]);
    machine.check().unwrap();
}

#[test]
fn a_paused_run_keeps_its_place_and_holds_nobody_up() {
    let mut machine = Machine::new(Limits::default());
    let now = Timestamp::from_ms(1);
    for name in ["a", "b"] {
        machine.open(&share(name, "lab", name));
        machine
            .submit(now, &run(name), jobs(name, 0..100), &())
            .unwrap();
    }
    assert_eq!(machine.fill(now).jobs.len(), 64);
    machine.pause(&run("a"));
    let idle = machine.released_for_paused(&run("a"));
    assert_eq!(idle.len(), 32);
    let withdrawn = machine.take_back(now, &run("a"), &idle);
    assert_eq!(withdrawn.len(), 32);
    machine.check().unwrap();
    let released = machine.fill(now).jobs;
    assert!(released.iter().all(|job| job.run == run("b")));
    assert_eq!(released.len(), 32);
    let standing = machine.standing();
    let paused = standing.lines.iter().find(|line| line.run == run("a"));
    assert_eq!(
        paused.map(|line| (line.waiting, line.hold)),
        Some((100, Hold::Paused))
    );
    machine.cancel(&run("b"), Which::All);
    machine.resume(&run("a"));
    let first = machine.fill(now).jobs;
    assert_eq!(first[0].key, key("a", 0));
    machine.check().unwrap();
}

#[test]
fn a_closed_run_is_forgotten_with_its_last_job() {
    let mut machine = Machine::new(Limits::default());
    let now = Timestamp::from_ms(1);
    machine.open(&share("a", "lab", "a"));
    machine
        .submit(now, &run("a"), jobs("a", 0..100), &())
        .unwrap();
    let batch = machine.fill(now);
    machine.close(&run("a"));
    assert_eq!((machine.waiting(), machine.released()), (0, 64));
    assert!(
        machine
            .submit(now, &run("a"), jobs("a", 0..1), &())
            .is_err()
    );
    for job in batch.jobs {
        assert!(machine.ended(job.key, batch.number, true).is_empty());
    }
    assert_eq!(machine.runs.iter().count(), 0);
    machine.check().unwrap();
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole() {
    let limits = Limits {
        waiting_per_run_max: 10,
        waiting_max: 15,
        ..Limits::default()
    };
    let mut machine = Machine::new(limits);
    let now = Timestamp::from_ms(1);
    for name in ["a", "b"] {
        machine.open(&share(name, "lab", name));
    }
    let full = |new, present, max| Err(Error::QueueFull { new, present, max });
    let mut submit = |name: &str, n| machine.submit(now, &run(name), jobs(name, 0..n), &());
    assert_eq!(submit("a", 11), full(11, 0, 10));
    assert_eq!(submit("a", 10), Ok(()));
    assert_eq!(submit("b", 6), full(6, 10, 15));
    assert_eq!(submit("b", 5), Ok(()));
}

#[test]
fn a_line_says_whether_its_own_jobs_or_others_hold_it_up() {
    let mut machine = Machine::new(Limits::default());
    let now = Timestamp::from_ms(1);
    machine.open(&share("a", "lab", "a"));
    machine
        .submit(now, &run("a"), jobs("a", 0..100), &())
        .unwrap();
    machine.fill(now);
    let hold = |machine: &Machine<()>, name: &str| {
        let lines = machine.standing().lines;
        lines
            .iter()
            .find(|line| line.run == run(name))
            .map(|line| line.hold)
    };
    assert_eq!(hold(&machine, "a"), Some(Hold::Own { out: 64 }));
    machine.open(&share("b", "lab", "b"));
    machine
        .submit(now, &run("b"), jobs("b", 0..100), &())
        .unwrap();
    machine.fill(now);
    assert_eq!(hold(&machine, "b"), Some(Hold::Others));
}
