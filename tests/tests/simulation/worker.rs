//! Workers: they lease, pay, answer, and fail in every way.

use std::time::Duration;

use skillopt_core::job::Key;
use skillopt_queue::ledger::{Reservation, Reserved, Settlement};
use skillopt_queue::queue::{Failure, Renewal};
use skillopt_queue::{Lane, Ledger, Ticket, Timestamp, Want};

use crate::cluster::{Cluster, LIFETIME, PRICE, TTL, answer, number, purse, spend};

pub(crate) struct Worker {
    name: String,
    lanes: Vec<Lane>,
    pub(crate) is_frozen: bool,
    pub(crate) held: Vec<Held>,
}

/// A lease, and what was reserved for its call.
#[derive(Clone)]
pub(crate) struct Held {
    ticket: Ticket,
    run: usize,
    reservation: String,
    until: Timestamp,
}

/// A completion on its way to the queue.
pub(crate) struct Message {
    ticket: Ticket,
    /// The store has begun to write it.
    is_begun: bool,
}

impl Worker {
    pub(crate) fn new(number: usize) -> Self {
        let lanes = if number == 0 {
            vec![Lane::new("chat"), Lane::new("exec")]
        } else {
            vec![Lane::new("chat")]
        };
        Self {
            name: format!("w{number}"),
            lanes,
            is_frozen: false,
            held: Vec::new(),
        }
    }
}

impl Cluster {
    /// A worker with room takes jobs and reserves what their calls cost.
    pub(crate) fn take_work(&mut self, worker: usize) {
        let room = 2 - self.workers[worker].held.len().min(2);
        if self.workers[worker].is_frozen || room == 0 {
            return;
        }
        let want = Want {
            worker: self.workers[worker].name.as_str().into(),
            lanes: self.workers[worker].lanes.clone(),
            max: room,
            ttl: TTL,
        };
        let now = self.now();
        for leased in self.queue.lease(now, &want) {
            let ticket = leased.ticket;
            assert!(ticket.fence > self.last_fence, "a fence did not grow");
            self.last_fence = ticket.fence;
            self.current.insert(ticket.key, ticket.fence);
            let run = self.payer(ticket.key);
            self.next_reservation += 1;
            let reservation = Reservation {
                id: format!("r{}", self.next_reservation),
                purses: vec![purse(run), "tenant/lab".into()],
                most: spend(PRICE),
                is_unpriced: false,
                lifetime: LIFETIME,
            };
            let asked = self.at_once(self.ledger.reserve(std::slice::from_ref(&reservation)));
            match asked.unwrap().remove(0) {
                Reserved::Held => self.workers[worker].held.push(Held {
                    ticket,
                    run,
                    reservation: reservation.id,
                    until: now.plus(LIFETIME),
                }),
                Reserved::Wait { .. } => {
                    self.note("cap held a call back");
                    self.queue.retry(now, ticket, TTL).unwrap();
                }
                Reserved::Refused { .. } => {
                    let failure = Failure {
                        cause: "the cap is reached".into(),
                        detail: Default::default(),
                    };
                    self.queue.give_up(now, ticket, failure).unwrap();
                }
            }
        }
        self.hear();
    }

    /// The run that pays for a job: one that needs it, always the same.
    fn payer(&self, key: Key) -> usize {
        let job = number(key);
        let needs = |run: &usize| self.programs[*run].iter().flatten().any(|n| *n == job);
        (0..self.programs.len()).find(needs).unwrap()
    }

    /// A call is answered: it is settled, and one to three completions set out.
    pub(crate) fn finish_one(&mut self, worker: usize) {
        let this = &mut self.workers[worker];
        if this.is_frozen || this.held.is_empty() {
            return;
        }
        let at = self.dice.roll(this.held.len());
        let held = this.held.swap_remove(at);
        let cost = 1 + self.dice.roll(usize::try_from(PRICE).unwrap()) as u64;
        self.settle(&held, cost);
        for _ in 0..1 + self.dice.roll(3) {
            let at = self.dice.roll(self.messages.len() + 1);
            let message = Message {
                ticket: held.ticket,
                is_begun: false,
            };
            self.messages.insert(at, message);
        }
    }

    fn settle(&mut self, held: &Held, cost: u64) {
        if self.now() >= held.until {
            self.late += cost;
            self.note("call settled late");
        }
        let settlement = Settlement {
            id: held.reservation.clone(),
            purses: vec![purse(held.run), "tenant/lab".into()],
            is_reserved: true,
            used: if cost == 0 {
                Default::default()
            } else {
                spend(cost)
            },
            is_unpriced: false,
            tally: Default::default(),
        };
        // Told twice, it counts once.
        for _ in 0..2 {
            let settled = self.ledger.settle(std::slice::from_ref(&settlement));
            self.at_once(settled).unwrap();
        }
    }

    /// The next completion arrives, or the store is done with one that has.
    pub(crate) fn deliver(&mut self) {
        let now = self.now();
        if self.messages.is_empty() {
            return;
        }
        let at = self.dice.roll(self.messages.len());
        let ticket = self.messages[at].ticket;
        let key = ticket.key;
        if !self.messages[at].is_begun {
            if self.queue.begin_commit(now, ticket).is_err() {
                self.note("stale completion refused");
                self.messages.swap_remove(at);
            } else {
                assert_eq!(
                    self.current.get(&key),
                    Some(&ticket.fence),
                    "a stale completion was accepted"
                );
                assert!(self.committing.insert(key), "two commits at once");
                self.messages[at].is_begun = true;
            }
            self.hear();
            return;
        }
        self.committing.remove(&key);
        if self.dice.once_in(6) {
            // The store has failed; the worker sends it again.
            self.note("store failed");
            self.messages[at].is_begun = false;
            self.queue.committed(now, ticket, false);
        } else {
            self.messages.swap_remove(at);
            self.results.entry(key).or_insert_with(|| {
                *self.commits.entry(key).or_default() += 1;
                answer(key)
            });
            self.queue.committed(now, ticket, true);
            // The lease is over.
            self.current.remove(&key);
        }
        self.hear();
    }

    pub(crate) fn renew(&mut self, worker: usize) {
        let now = self.now();
        if self.workers[worker].is_frozen {
            return;
        }
        let held = std::mem::take(&mut self.workers[worker].held);
        for held in held {
            match self.queue.renew(now, held.ticket, TTL) {
                Renewal::Held(_) | Renewal::Cancelled(_) => self.workers[worker].held.push(held),
                // It stops the call; what it came to is not known to be nothing.
                Renewal::Lost => self.settle(&held, 1),
            }
        }
        self.hear();
    }

    /// A worker returns a job for another try, or untouched; the call was not made.
    pub(crate) fn return_one(&mut self, worker: usize) {
        let now = self.now();
        if self.workers[worker].is_frozen {
            return;
        }
        let Some(held) = self.workers[worker].held.pop() else {
            return;
        };
        let answer = if self.dice.once_in(2) {
            let delay = Duration::from_millis(self.dice.roll(80) as u64);
            self.queue.retry(now, held.ticket, delay)
        } else {
            self.queue.hand_back(now, held.ticket)
        };
        if answer.is_ok() {
            let current = self.current.get(&held.ticket.key);
            assert_eq!(
                current,
                Some(&held.ticket.fence),
                "a stale return was accepted"
            );
        }
        self.settle(&held, 0);
        self.hear();
    }

    /// A worker dies with its leases; nobody settles what it has reserved.
    pub(crate) fn crash(&mut self, worker: usize) {
        self.workers[worker].held.clear();
        self.workers[worker].is_frozen = false;
    }
}
