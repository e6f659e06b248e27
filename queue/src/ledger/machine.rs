//! Purses as a pure state machine: facts and the time in, answers out.
//!
//! Invariants, kept by every method: a purse's `reserved` is the sum of what is held on it;
//! `spent + reserved` is within its caps, except where caps were lowered or a settlement came to
//! more than was reserved.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::{Amount, Balance, Caps, REMEMBERED_MAX, Reservation, Reserved, Settlement, Tally};
use crate::clock::Timestamp;

/// How long names are remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// All purses.
#[derive(Debug, Default)]
pub(super) struct Machine {
    purses: HashMap<String, Balance>,
    tallies: HashMap<String, Tally>,
    held: HashMap<String, Held>,
    ends: BTreeSet<(Timestamp, String)>,
    /// Reservations that were given back because their time was over: they may still be settled.
    lapsed: Memory,
    /// Settlements that had no reservation.
    settled: Memory,
}

#[derive(Debug)]
struct Held {
    purses: Vec<String>,
    most: Amount,
    ends_at: Timestamp,
}

impl Machine {
    pub(super) fn set_caps(&mut self, purse: &str, caps: Caps) {
        self.purses.entry(purse.to_owned()).or_default().caps = caps;
    }

    pub(super) fn reserve(&mut self, now: Timestamp, asked: &Reservation) -> Reserved {
        self.give_back(now);
        if self.held.contains_key(&asked.id) {
            return Reserved::Held;
        }
        let mut wait = None;
        for purse in &asked.purses {
            let balance = self.purses.get(purse).copied().unwrap_or_default();
            match balance.answer(asked) {
                Room::Now => {}
                Room::Later => {
                    wait.get_or_insert_with(|| purse.clone());
                }
                Room::Never(what) => {
                    let purse = purse.clone();
                    return Reserved::Refused { purse, what };
                }
            }
        }
        if let Some(purse) = wait {
            return Reserved::Wait { purse };
        }
        for purse in &asked.purses {
            let balance = self.purses.entry(purse.clone()).or_default();
            balance.reserved = balance.reserved.plus(asked.most);
        }
        let held = Held {
            purses: asked.purses.clone(),
            most: asked.most,
            ends_at: now.plus(asked.lifetime),
        };
        self.ends.insert((held.ends_at, asked.id.clone()));
        self.held.insert(asked.id.clone(), held);
        Reserved::Held
    }

    pub(super) fn settle(&mut self, now: Timestamp, done: &Settlement) {
        self.give_back(now);
        let is_first = if done.is_reserved {
            match self.held.remove(&done.id) {
                Some(held) => {
                    self.ends.remove(&(held.ends_at, done.id.clone()));
                    self.release(&held);
                    true
                }
                None => self.lapsed.remove(&done.id),
            }
        } else {
            self.settled.insert(now, &done.id)
        };
        if !is_first {
            return;
        }
        for purse in &done.purses {
            let balance = self.purses.entry(purse.clone()).or_default();
            balance.spent = balance.spent.plus(done.used);
            balance.has_unpriced |= done.is_unpriced;
            if !done.tally.is_empty() {
                let tally = self.tallies.entry(purse.clone()).or_default();
                tally.join(&done.tally);
            }
        }
    }

    pub(super) fn balances(&mut self, now: Timestamp, purses: &[String]) -> Vec<Balance> {
        self.give_back(now);
        let balance = |purse| self.purses.get(purse).copied().unwrap_or_default();
        purses.iter().map(balance).collect()
    }

    pub(super) fn tallies(&self, purses: &[String]) -> Vec<Tally> {
        let tally = |purse| self.tallies.get(purse).cloned().unwrap_or_default();
        purses.iter().map(tally).collect()
    }

    /// Gives back what outlived its time.
    fn give_back(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = self.ends.pop_first() else {
                break;
            };
            if let Some(held) = self.held.remove(&id) {
                self.release(&held);
                self.lapsed.insert(now, &id);
            }
        }
        self.lapsed.forget(now);
        self.settled.forget(now);
    }

    fn release(&mut self, held: &Held) {
        for purse in &held.purses {
            if let Some(balance) = self.purses.get_mut(purse) {
                balance.reserved = balance.reserved.minus(held.most);
            }
        }
    }
}

enum Room {
    Now,
    Later,
    Never(&'static str),
}

impl Balance {
    fn answer(&self, asked: &Reservation) -> Room {
        if asked.is_unpriced && self.caps.micro_usd.is_some() {
            return Room::Never("dollars of a model without a price");
        }
        let (spent, held) = (self.spent, self.reserved);
        let most = asked.most;
        let limits = [
            (
                "requests",
                self.caps.requests,
                [most.requests, spent.requests, held.requests],
            ),
            (
                "tokens",
                self.caps.tokens,
                [most.tokens(), spent.tokens(), held.tokens()],
            ),
            (
                "dollars",
                self.caps.micro_usd,
                [most.micro_usd, spent.micro_usd, held.micro_usd],
            ),
        ];
        let mut room = Room::Now;
        for (what, cap, [most, spent, held]) in limits {
            let Some(cap) = cap else { continue };
            let least = spent.saturating_add(most);
            if least > cap {
                return Room::Never(what);
            }
            if least.saturating_add(held) > cap {
                room = Room::Later;
            }
        }
        room
    }
}

/// Names that are remembered for a day, and no more than a number of them.
#[derive(Debug, Default)]
struct Memory {
    since: HashMap<String, Timestamp>,
    order: BTreeSet<(Timestamp, String)>,
}

impl Memory {
    /// Returns whether the name is new.
    fn insert(&mut self, now: Timestamp, name: &str) -> bool {
        if self.since.contains_key(name) {
            return false;
        }
        self.since.insert(name.to_owned(), now);
        self.order.insert((now, name.to_owned()));
        true
    }

    /// Returns whether the name was there.
    fn remove(&mut self, name: &str) -> bool {
        let Some(since) = self.since.remove(name) else {
            return false;
        };
        self.order.remove(&(since, name.to_owned()));
        true
    }

    fn forget(&mut self, now: Timestamp) {
        let is_old = |(since, _): &(Timestamp, String)| now.since(*since) >= REMEMBERED;
        while self.order.len() > REMEMBERED_MAX || self.order.first().is_some_and(is_old) {
            if let Some((_, name)) = self.order.pop_first() {
                self.since.remove(&name);
            }
        }
    }
}
