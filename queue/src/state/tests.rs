//! Random schedules against the invariants, and the few rules that the conformance suite does not
//! reach.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use skillopt_core::hash::Hash;

use super::*;
use crate::message::{Fence, Priority, Ticket, Want};
use crate::queue::Failure;

const TTL: Duration = Duration::from_millis(10);

fn key(number: u8) -> Key {
    Key(Hash::of(&[number]))
}

fn job(number: u8, run: u8, priority: u8, delay: Option<Timestamp>) -> Enqueue {
    Enqueue {
        key: key(number),
        job: Bytes::new(),
        lane: Lane::new(if number.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        }),
        priority: Priority::new(priority),
        run: RunId::new(&run.to_string()),
        not_before: delay,
    }
}

impl<W: Clone + PartialEq> State<W> {
    /// Panics if an index and the jobs disagree.
    fn assert_consistent(&self) {
        let (mut ready, mut delayed, mut leased, mut waits) = (0, 0, 0, 0);
        let mut leases = BTreeSet::new();
        for (key, entry) in &self.jobs {
            waits += entry.waiters.len();
            match &entry.place {
                Place::Checking { .. } => {}
                Place::Ready => ready += 1,
                Place::Delayed { .. } => delayed += 1,
                Place::Leased(lease) => {
                    leased += 1;
                    if !lease.is_committing {
                        leases.insert((lease.expires_at, *key));
                    }
                }
            }
            let is_leased = matches!(entry.place, Place::Leased(_));
            assert!(
                is_leased || !entry.waiters.is_empty(),
                "a job that nobody wants is kept"
            );
        }
        assert_eq!((ready, delayed), (self.ready.len(), self.delayed.len()));
        assert_eq!((leased, waits), (self.leased, self.waits));
        assert_eq!(leases, self.leases);
        assert!(self.jobs.len() <= self.limits.jobs_max);
        assert!(self.graves.len() <= self.limits.dead_max);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Submit {
        number: u8,
        run: u8,
        priority: u8,
        delay: Option<u64>,
    },
    Check {
        number: u8,
        is_stored: bool,
    },
    Lease {
        max: usize,
    },
    Renew {
        lease: usize,
    },
    Begin {
        lease: usize,
    },
    Commit {
        is_stored: bool,
    },
    Retry {
        lease: usize,
        delay: u64,
    },
    HandBack {
        lease: usize,
    },
    GiveUp {
        lease: usize,
    },
    Cancel {
        run: u8,
        only: Option<u8>,
    },
    Abandon {
        submission: usize,
    },
    Wait {
        ms: u64,
    },
}

fn acts() -> impl Strategy<Value = Act> {
    let lease = 0..40_usize;
    prop_oneof![
        4 => (0..12_u8, 0..3_u8, 0..8_u8, proptest::option::of(0..30_u64)).prop_map(
            |(number, run, priority, delay)| Act::Submit { number, run, priority, delay }),
        4 => (0..12_u8, proptest::bool::weighted(0.1))
            .prop_map(|(number, is_stored)| Act::Check { number, is_stored }),
        3 => (1..4_usize).prop_map(|max| Act::Lease { max }),
        1 => lease.clone().prop_map(|lease| Act::Renew { lease }),
        2 => lease.clone().prop_map(|lease| Act::Begin { lease }),
        2 => proptest::bool::weighted(0.8).prop_map(|is_stored| Act::Commit { is_stored }),
        1 => (lease.clone(), 0..30_u64).prop_map(|(lease, delay)| Act::Retry { lease, delay }),
        1 => lease.clone().prop_map(|lease| Act::HandBack { lease }),
        1 => lease.prop_map(|lease| Act::GiveUp { lease }),
        1 => (0..3_u8, proptest::option::of(0..12_u8))
            .prop_map(|(run, only)| Act::Cancel { run, only }),
        1 => (0..40_usize).prop_map(|submission| Act::Abandon { submission }),
        2 => (0..12_u64).prop_map(|ms| Act::Wait { ms }),
    ]
}

/// The state and what the outside has seen of it.
struct World {
    state: State<usize>,
    now: Timestamp,
    /// Per submission the job that has not been told yet.
    untold: BTreeMap<usize, Key>,
    submissions: usize,
    tickets: Vec<Ticket>,
    committing: Vec<Ticket>,
    last_fence: Fence,
}

impl World {
    fn new() -> Self {
        let limits = Limits {
            jobs_max: 8,
            losses_max: 2,
            dead_max: 3,
        };
        Self {
            state: State::new(limits),
            now: Timestamp::from_ms(100),
            untold: BTreeMap::new(),
            submissions: 0,
            tickets: Vec::new(),
            committing: Vec::new(),
            last_fence: Fence(0),
        }
    }

    /// Every end is told once, to someone who waits for that job.
    fn tell(&mut self, to: usize, key: Key) {
        assert_eq!(self.untold.remove(&to), Some(key));
    }

    fn act(&mut self, act: Act) {
        let mut fx = Effects::default();
        self.state.tick(self.now, &mut fx);
        let told = self.step(act, &mut fx);
        for (to, key) in told {
            self.tell(to, key);
        }
        for (to, key, _) in fx.ended {
            self.tell(to, key);
        }
        self.state.assert_consistent();
        assert!(self.state.next_deadline().is_none_or(|at| at > self.now));
        assert_eq!(self.state.waits, self.untold.len());
    }

    fn step(&mut self, act: Act, fx: &mut Effects<usize>) -> Vec<(usize, Key)> {
        let now = self.now;
        let ticket = |lease: usize| self.tickets.get(lease % self.tickets.len().max(1)).copied();
        match act {
            Act::Submit {
                number,
                run,
                priority,
                delay,
            } => {
                let delay = delay.map(|ms| now.plus(Duration::from_millis(ms)));
                let jobs = vec![job(number, run, priority, delay)];
                if self.state.submit(now, jobs, &self.submissions, fx).is_ok() {
                    self.untold.insert(self.submissions, key(number));
                    self.submissions += 1;
                }
            }
            Act::Check { number, is_stored } => {
                let told = self.state.checked(now, key(number), is_stored, fx);
                return told.into_iter().map(|to| (to, key(number))).collect();
            }
            Act::Lease { max } => {
                let lanes = vec![Lane::new("odd"), Lane::new("even")];
                let want = Want {
                    worker: "w".into(),
                    lanes,
                    max,
                    ttl: TTL,
                };
                for leased in self.state.lease(now, &want, fx) {
                    assert!(leased.ticket.fence > self.last_fence);
                    self.last_fence = leased.ticket.fence;
                    self.tickets.push(leased.ticket);
                }
            }
            Act::Renew { lease } => {
                ticket(lease).map(|ticket| self.state.renew(now, ticket, TTL, fx));
            }
            Act::Begin { lease } => {
                if let Some(ticket) = ticket(lease)
                    && self.state.begin_commit(ticket).is_ok()
                {
                    self.committing.push(ticket);
                }
            }
            Act::Commit { is_stored } => {
                if let Some(ticket) = self.committing.pop() {
                    let told = self.state.committed(ticket, is_stored, fx);
                    // A failed commit may find that its lease should have run out meanwhile.
                    self.state.tick(now, fx);
                    return told.into_iter().map(|to| (to, ticket.key)).collect();
                }
            }
            Act::Retry { lease, delay } => {
                let delay = Duration::from_millis(delay);
                ticket(lease).map(|ticket| self.state.retry(now, ticket, delay, "x", fx));
            }
            Act::HandBack { lease } => {
                ticket(lease).map(|ticket| self.state.hand_back(now, ticket, fx));
            }
            Act::GiveUp { lease } => {
                let failure = Failure {
                    cause: "x".into(),
                    detail: Bytes::new(),
                };
                ticket(lease).map(|ticket| self.state.give_up(now, ticket, failure, fx));
            }
            Act::Cancel { run, only } => {
                let only = only.map(|number| [key(number)]);
                let all = if run % 2 == 0 {
                    Which::All
                } else {
                    Which::Idle
                };
                let which = only.as_ref().map_or(all, |keys| Which::Keys(keys));
                self.state.cancel(&RunId::new(&run.to_string()), which, fx);
            }
            Act::Abandon { submission } => {
                self.state.abandon(now, &submission, fx);
                self.untold.remove(&submission);
            }
            Act::Wait { ms } => {
                self.now = now.plus(Duration::from_millis(ms));
                self.state.tick(self.now, fx);
            }
        }
        Vec::new()
    }

    /// Lets everything that is left run to its end: nothing may be stuck.
    fn finish(&mut self) {
        while self.committing.last().is_some() {
            self.act(Act::Commit { is_stored: true });
        }
        for number in 0..12 {
            self.act(Act::Check {
                number,
                is_stored: false,
            });
        }
        for _ in 0..100 {
            if self.untold.is_empty() {
                return;
            }
            self.act(Act::Wait { ms: 50 });
            self.tickets.clear();
            self.act(Act::Lease { max: 100 });
            for lease in 0..self.tickets.len() {
                self.act(Act::Begin { lease });
            }
            while self.committing.last().is_some() {
                self.act(Act::Commit { is_stored: true });
            }
        }
        panic!("some submissions were never told: {:?}", self.untold);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_submission_is_told_once(acts in proptest::collection::vec(acts(), 0..120)) {
        let mut world = World::new();
        acts.into_iter().for_each(|act| world.act(act));
        world.finish();
    }
}

#[test]
fn a_backoff_is_not_shortened_by_a_submission() {
    let (mut state, mut fx) = (State::new(Limits::default()), Effects::default());
    let now = Timestamp::from_ms(1);
    let lanes = vec![Lane::new("odd")];
    let want = Want {
        worker: "w".into(),
        lanes,
        max: 1,
        ttl: TTL,
    };
    state
        .submit(now, vec![job(1, 1, 4, None)], &1, &mut fx)
        .unwrap();
    state.checked(now, key(1), false, &mut fx);
    let leased = state.lease(now, &want, &mut fx).remove(0);
    state
        .retry(now, leased.ticket, TTL, "busy", &mut fx)
        .unwrap();
    state
        .submit(now, vec![job(1, 2, 4, None)], &2, &mut fx)
        .unwrap();
    assert!(state.lease(now, &want, &mut fx).is_empty());
    assert_eq!(state.next_deadline(), Some(now.plus(TTL)));
}

#[test]
fn a_lease_in_completion_does_not_run_out() {
    let (mut state, mut fx) = (State::new(Limits::default()), Effects::default());
    let now = Timestamp::from_ms(1);
    let want = Want {
        worker: "w".into(),
        lanes: vec![Lane::new("odd")],
        max: 1,
        ttl: TTL,
    };
    state
        .submit(now, vec![job(1, 1, 4, None)], &1, &mut fx)
        .unwrap();
    state.checked(now, key(1), false, &mut fx);
    let leased = state.lease(now, &want, &mut fx).remove(0);
    state.begin_commit(leased.ticket).unwrap();
    let later = now.plus(TTL * 2);
    state.tick(later, &mut fx);
    assert!(state.lease(later, &want, &mut fx).is_empty());
    assert_eq!(state.committed(leased.ticket, true, &mut fx), [1]);
}
