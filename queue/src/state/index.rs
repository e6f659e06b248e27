//! The orders in which jobs are found again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use skillopt_core::job::Key;

use super::entry::Entry;
use crate::clock::Timestamp;
use crate::message::{Lane, Priority};
use crate::queue::DeadLetter;

/// Jobs that may be leased: per lane by priority, then arrival.
#[derive(Debug, Default)]
pub(super) struct Ready {
    lanes: HashMap<Lane, BTreeMap<(Reverse<Priority>, u64), Key>>,
    len: usize,
}

impl Ready {
    pub(super) fn insert<W>(&mut self, key: Key, entry: &Entry<W>) {
        let place = (Reverse(entry.priority), entry.seq);
        if !self.lanes.contains_key(&entry.lane) {
            self.lanes.insert(entry.lane.clone(), BTreeMap::new());
        }
        if let Some(lane) = self.lanes.get_mut(&entry.lane)
            && lane.insert(place, key).is_none()
        {
            self.len += 1;
        }
    }

    pub(super) fn remove<W>(&mut self, entry: &Entry<W>) {
        let place = (Reverse(entry.priority), entry.seq);
        let Some(lane) = self.lanes.get_mut(&entry.lane) else {
            return;
        };
        if lane.remove(&place).is_some() {
            self.len -= 1;
            self.tidy(&entry.lane);
        }
    }

    /// Takes the first job of these lanes.
    pub(super) fn pop(&mut self, lanes: &[Lane]) -> Option<Key> {
        let first = |lane| Some((*self.lanes.get(lane)?.first_key_value()?.0, lane));
        let (_, lane) = lanes
            .iter()
            .filter_map(first)
            .min_by_key(|(place, _)| *place)?;
        let (_, key) = self.lanes.get_mut(lane)?.pop_first()?;
        self.len -= 1;
        self.tidy(lane);
        Some(key)
    }

    /// Forgets a lane without jobs, so that names that come and go take no memory.
    fn tidy(&mut self, lane: &Lane) {
        if self.lanes.get(lane).is_some_and(BTreeMap::is_empty) {
            self.lanes.remove(lane);
        }
    }

    pub(super) fn has(&self, lane: &Lane) -> bool {
        self.lanes.contains_key(lane)
    }

    /// The job that arrived first, per lane and priority.
    pub(super) fn oldest(&self) -> impl Iterator<Item = Key> {
        let levels = Priority::LAST.level()..=Priority::FIRST.level();
        let first = move |lane: &BTreeMap<_, Key>, level| {
            let level = Reverse(Priority::new(level));
            lane.range((level, 0)..=(level, u64::MAX))
                .next()
                .map(|(_, key)| *key)
        };
        let per_lane = move |lane| levels.clone().filter_map(move |level| first(lane, level));
        self.lanes.values().flat_map(per_lane)
    }

    /// Lanes with jobs, and how many.
    pub(super) fn lanes(&self) -> impl Iterator<Item = (&Lane, usize)> {
        self.lanes.iter().map(|(lane, jobs)| (lane, jobs.len()))
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

/// Jobs that wait for their time.
#[derive(Debug, Default)]
pub(super) struct Delayed(BTreeMap<(Timestamp, u64), Key>);

impl Delayed {
    pub(super) fn insert(&mut self, until: Timestamp, seq: u64, key: Key) {
        self.0.insert((until, seq), key);
    }

    pub(super) fn remove(&mut self, until: Timestamp, seq: u64) {
        self.0.remove(&(until, seq));
    }

    pub(super) fn first(&self) -> Option<Timestamp> {
        self.0.first_key_value().map(|((until, _), _)| *until)
    }

    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<Key> {
        if self.first()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, key)| key)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Dead letters in the order of their deaths.
#[derive(Debug, Default)]
pub(super) struct Graves {
    letters: BTreeMap<u64, Arc<DeadLetter>>,
    by_key: HashMap<Key, u64>,
    next: u64,
}

impl Graves {
    /// Keeps a letter; the oldest go if there are more than `max`.
    pub(super) fn insert(&mut self, letter: Arc<DeadLetter>, max: usize) {
        self.remove(&letter.key);
        self.by_key.insert(letter.key, self.next);
        self.letters.insert(self.next, letter);
        self.next += 1;
        while self.letters.len() > max {
            let Some((_, oldest)) = self.letters.pop_first() else {
                break;
            };
            self.by_key.remove(&oldest.key);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(place) = self.by_key.remove(key) {
            self.letters.remove(&place);
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<DeadLetter>> {
        self.letters.get(self.by_key.get(key)?)
    }

    pub(super) fn newest(&self, max: usize) -> Vec<Arc<DeadLetter>> {
        self.letters.values().rev().take(max).cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.letters.len()
    }
}
