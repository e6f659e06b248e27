//! The queue as a pure state machine: facts and the time in, effects out.
//!
//! It knows no store, no task and no clock. Invariants, kept by every method: a job is in exactly
//! one place; it is in the index of that place and in no other; a fence is never granted twice; an
//! unleased job has somebody waiting for it.

mod entry;
mod index;
mod leases;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use skillopt_core::job::Key;
use tokio_util::sync::CancellationToken;

use self::entry::{Entry, Place, Waiter};
use self::index::{Delayed, Graves, Ready};
use crate::clock::Timestamp;
use crate::message::{Enqueue, Lane, RunId};
use crate::queue::{
    Asked, DeadLetter, Error, JOB_BYTES_MAX, JobState, LaneStats, Limits, RunStats, Stats, Which,
    Withdrawn,
};

/// Waits (a submission for a job) per place in the queue; bounds joins of the same jobs.
const WAITS_PER_JOB_MAX: usize = 4;

/// What the shell has to carry out after a step, in this order.
#[derive(Debug)]
pub(crate) struct Effects<W> {
    /// Ends to tell.
    pub(crate) ended: Vec<(W, Key, End)>,
    /// Running jobs that nobody wants any more.
    pub(crate) signals: Vec<CancellationToken>,
    /// Lanes that got work.
    pub(crate) woken: Vec<Lane>,
    /// Whether [`State::next_deadline`] may be earlier than before.
    pub(crate) is_deadline_earlier: bool,
}

impl<W> Default for Effects<W> {
    fn default() -> Self {
        Self {
            ended: Vec::new(),
            signals: Vec::new(),
            woken: Vec::new(),
            is_deadline_earlier: false,
        }
    }
}

impl<W> Effects<W> {
    fn wake(&mut self, lane: &Lane) {
        if !self.woken.contains(lane) {
            self.woken.push(lane.clone());
        }
    }
}

/// How a job ended without a result.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Failed(Arc<DeadLetter>),
    Cancelled,
}

/// The state; `W` tells whoever submitted a job of its end.
#[derive(Debug)]
pub(crate) struct State<W> {
    limits: Limits,
    jobs: HashMap<Key, Entry<W>>,
    ready: Ready,
    delayed: Delayed,
    /// Leases that may run out; those in completion are not among them.
    leases: std::collections::BTreeSet<(Timestamp, Key)>,
    graves: Graves,
    leased: usize,
    waits: usize,
    next_seq: u64,
    next_fence: u64,
    refused: u64,
    losses: u64,
}

impl<W: Clone + PartialEq> State<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            jobs: HashMap::new(),
            ready: Ready::default(),
            delayed: Delayed::default(),
            leases: std::collections::BTreeSet::new(),
            graves: Graves::default(),
            leased: 0,
            waits: 0,
            next_seq: 0,
            next_fence: 1,
            refused: 0,
            losses: 0,
        }
    }

    /// Adds or joins jobs. New ones are held back until [`State::checked`] has said whether their
    /// result is stored; their keys are returned. `jobs` has no two equal keys.
    pub(crate) fn submit(
        &mut self,
        now: Timestamp,
        jobs: Vec<Enqueue>,
        waiter: &W,
        fx: &mut Effects<W>,
    ) -> Result<Vec<Key>, Error> {
        self.admit(&jobs)?;
        let mut to_check = Vec::with_capacity(jobs.len());
        for job in jobs {
            let wait = Waiter {
                run: job.run.clone(),
                to: waiter.clone(),
            };
            self.waits += 1;
            if let Some(entry) = self.jobs.get_mut(&job.key) {
                entry.waiters.push(wait);
                self.hasten(now, &job, fx);
            } else {
                self.graves.remove(&job.key);
                to_check.push(job.key);
                let seq = self.next_seq;
                self.next_seq += 1;
                self.jobs.insert(job.key, Entry::new(now, seq, job, wait));
            }
        }
        Ok(to_check)
    }

    fn admit(&self, jobs: &[Enqueue]) -> Result<(), Error> {
        if let Some(job) = jobs.iter().find(|job| job.job.len() > JOB_BYTES_MAX) {
            let (key, bytes) = (job.key, job.job.len());
            return Err(Error::JobTooLarge {
                key,
                bytes,
                max: JOB_BYTES_MAX,
            });
        }
        let full = |new: usize, present: usize, max: usize| {
            if new > max - present.min(max) {
                Err(Error::QueueFull { new, present, max })
            } else {
                Ok(())
            }
        };
        let new = jobs
            .iter()
            .filter(|job| !self.jobs.contains_key(&job.key))
            .count();
        full(new, self.jobs.len(), self.limits.jobs_max)?;
        let waits_max = self.limits.jobs_max.saturating_mul(WAITS_PER_JOB_MAX);
        full(jobs.len(), self.waits, waits_max)
    }

    /// Applies the urgency of a second submission to a job that is here.
    fn hasten(&mut self, now: Timestamp, job: &Enqueue, fx: &mut Effects<W>) {
        let Some(entry) = self.jobs.get_mut(&job.key) else {
            return;
        };
        let is_raised = job.priority > entry.priority;
        match entry.place {
            Place::Ready if is_raised => {
                self.ready.remove(entry);
                entry.priority = job.priority;
                self.ready.insert(job.key, entry);
            }
            _ if is_raised => entry.priority = job.priority,
            _ => {}
        }
        let wanted = job.not_before.unwrap_or(now);
        match entry.place {
            Place::Checking { not_before } => {
                entry.place = Place::Checking {
                    not_before: not_before.min(wanted),
                };
            }
            Place::Delayed {
                until,
                is_backoff: false,
            } if wanted < until => {
                self.delayed.remove(until, entry.seq);
                self.put(now, job.key, wanted, false, fx);
            }
            _ => {}
        }
    }

    /// Lets a job that was held back go on: `is_stored` jobs end here, and whoever waits for them
    /// is returned.
    pub(crate) fn checked(
        &mut self,
        now: Timestamp,
        key: Key,
        is_stored: bool,
        fx: &mut Effects<W>,
    ) -> Vec<W> {
        let Some(entry) = self.jobs.get(&key) else {
            return Vec::new();
        };
        match entry.place {
            // Its completion will tell the waiters.
            Place::Leased(_) => Vec::new(),
            _ if is_stored => self.forget(key),
            Place::Checking { not_before } => {
                self.put(now, key, not_before, false, fx);
                Vec::new()
            }
            Place::Ready | Place::Delayed { .. } => Vec::new(),
        }
    }

    /// Takes back what one submission asked for, as if it had never been.
    pub(crate) fn abandon(&mut self, now: Timestamp, waiter: &W, fx: &mut Effects<W>) {
        let mut touched = Vec::new();
        for (key, entry) in &mut self.jobs {
            let before = entry.waiters.len();
            entry.waiters.retain(|w| w.to != *waiter);
            self.waits -= before - entry.waiters.len();
            if before != entry.waiters.len() {
                touched.push((entry.seq, *key));
            }
        }
        touched.sort_unstable();
        for (_, key) in touched {
            let Some(entry) = self.jobs.get(&key) else {
                continue;
            };
            if entry.waiters.is_empty() {
                self.orphan(key, fx);
            } else if matches!(entry.place, Place::Checking { .. }) {
                // Somebody joined while the check that now never ends was under way.
                self.checked(now, key, false, fx);
            }
        }
    }

    /// Whether one of the lanes has a job that could be leased now.
    pub(crate) fn has_ready(&self, lane: &Lane) -> bool {
        self.ready.has(lane)
    }

    /// Withdraws jobs of a run.
    pub(crate) fn cancel(
        &mut self,
        run: &RunId,
        which: Which<'_>,
        fx: &mut Effects<W>,
    ) -> Withdrawn {
        // In the order of arrival, so that the notices do not depend on the map.
        let seq = |key: &Key| self.jobs.get(key).map(|entry| (entry.seq, *key));
        let mut keys: Vec<(u64, Key)> = match which {
            Which::All => self
                .jobs
                .iter()
                .map(|(key, entry)| (entry.seq, *key))
                .collect(),
            Which::Keys(keys) => keys.iter().filter_map(seq).collect(),
            Which::Idle => self
                .jobs
                .iter()
                .filter(|(_, entry)| !matches!(entry.place, Place::Leased(_)))
                .map(|(key, entry)| (entry.seq, *key))
                .collect(),
        };
        keys.sort_unstable();
        let mut withdrawn = Withdrawn::default();
        for (_, key) in keys {
            let Some(entry) = self.jobs.get_mut(&key) else {
                continue;
            };
            let before = entry.waiters.len();
            for waiter in entry.waiters.extract_if(.., |waiter| waiter.run == *run) {
                fx.ended.push((waiter.to, key, End::Cancelled));
            }
            let gone = before - entry.waiters.len();
            self.waits -= gone;
            match (gone, entry.waiters.is_empty(), &entry.place) {
                (0, ..) => continue,
                (_, false, _) => withdrawn.shared += 1,
                (_, true, Place::Leased(_)) => withdrawn.signalled += 1,
                (_, true, _) => withdrawn.removed += 1,
            }
            if entry.waiters.is_empty() {
                self.orphan(key, fx);
            }
        }
        withdrawn
    }

    /// Returns when [`State::tick`] has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let lease = self.leases.first().map(|(at, _)| *at);
        [self.delayed.first(), lease].into_iter().flatten().min()
    }

    pub(crate) fn dead_letters(&self, max: usize) -> Vec<Arc<DeadLetter>> {
        self.graves.newest(max)
    }

    pub(crate) fn stats(&self, now: Timestamp) -> Stats {
        let oldest = self.ready.oldest().filter_map(|key| self.jobs.get(&key));
        let oldest = oldest.map(|entry| now.since(entry.enqueued_at)).max();
        Stats {
            queued: self.ready.len(),
            delayed: self.delayed.len(),
            leased: self.leased,
            dead: self.graves.len(),
            oldest: oldest.unwrap_or_default(),
            refused: self.refused,
            losses: self.losses,
        }
    }

    /// Returns the lanes that have ready jobs, by name.
    pub(crate) fn lanes(&self, now: Timestamp) -> Vec<LaneStats> {
        let mut lanes: Vec<LaneStats> = self
            .ready
            .lanes()
            .map(|(lane, queued)| LaneStats {
                lane: lane.clone(),
                queued,
                oldest: Duration::ZERO,
            })
            .collect();
        lanes.sort_by(|a, b| a.lane.cmp(&b.lane));
        for entry in self.ready.oldest().filter_map(|key| self.jobs.get(&key)) {
            if let Ok(at) = lanes.binary_search_by(|stats| stats.lane.cmp(&entry.lane)) {
                lanes[at].oldest = lanes[at].oldest.max(now.since(entry.enqueued_at));
            }
        }
        lanes
    }

    /// Returns where a job is.
    pub(crate) fn state_of(&self, key: &Key) -> JobState {
        let Some(entry) = self.jobs.get(key) else {
            return match self.graves.get(key) {
                Some(letter) => JobState::Dead(letter.clone()),
                None => JobState::Unknown,
            };
        };
        match &entry.place {
            Place::Checking { .. } | Place::Ready => JobState::Waiting {
                since: entry.enqueued_at,
                losses: entry.losses,
            },
            Place::Delayed { until, is_backoff } => JobState::Delayed {
                until: *until,
                cause: entry.last_word().filter(|_| *is_backoff),
            },
            Place::Leased(lease) => JobState::Leased {
                worker: lease.worker.clone(),
                since: lease.granted_at,
                expires_at: lease.expires_at,
            },
        }
    }

    /// Returns who waits for a job.
    pub(crate) fn asked(&self, key: &Key) -> Option<Asked> {
        let entry = self.jobs.get(key)?;
        let mut runs: Vec<RunId> = Vec::new();
        for waiter in &entry.waiters {
            if !runs.contains(&waiter.run) {
                runs.push(waiter.run.clone());
            }
        }
        Some(Asked {
            lane: entry.lane.clone(),
            since: entry.enqueued_at,
            runs,
        })
    }

    /// Counts the jobs for which none of `but` waits, by run and lane.
    pub(crate) fn runs(&self, now: Timestamp, but: &[RunId]) -> Vec<RunStats> {
        let mut found: BTreeMap<(&RunId, &Lane), RunStats> = BTreeMap::new();
        for entry in self.jobs.values() {
            let Some(first) = entry.waiters.first() else {
                continue;
            };
            if entry.waiters.iter().any(|waiter| but.contains(&waiter.run)) {
                continue;
            }
            let stats = found.entry((&first.run, &entry.lane)).or_insert(RunStats {
                run: first.run.clone(),
                lane: entry.lane.clone(),
                waiting: 0,
                leased: 0,
                oldest: now,
            });
            if matches!(entry.place, Place::Leased(_)) {
                stats.leased += 1;
            } else {
                stats.waiting += 1;
                stats.oldest = stats.oldest.min(entry.enqueued_at);
            }
        }
        found.into_values().collect()
    }

    /// Places a job that is in no index: ready, or delayed until `until`.
    fn put(
        &mut self,
        now: Timestamp,
        key: Key,
        until: Timestamp,
        is_backoff: bool,
        fx: &mut Effects<W>,
    ) {
        let Some(entry) = self.jobs.get_mut(&key) else {
            return;
        };
        if entry.waiters.is_empty() {
            self.jobs.remove(&key);
        } else if until > now {
            entry.place = Place::Delayed { until, is_backoff };
            let seq = entry.seq;
            fx.is_deadline_earlier |= self.next_deadline().is_none_or(|first| until < first);
            self.delayed.insert(until, seq, key);
        } else {
            entry.place = Place::Ready;
            self.ready.insert(key, entry);
            fx.wake(&entry.lane);
        }
    }

    /// Deals with a job that nobody waits for any more.
    fn orphan(&mut self, key: Key, fx: &mut Effects<W>) {
        match self.jobs.get(&key).map(|entry| &entry.place) {
            Some(Place::Leased(lease)) => fx.signals.push(lease.cancelled.clone()),
            Some(_) => drop(self.forget(key)),
            None => {}
        }
    }

    /// Removes a job from everywhere and returns who waited for it.
    fn forget(&mut self, key: Key) -> Vec<W> {
        let Some(entry) = self.jobs.remove(&key) else {
            return Vec::new();
        };
        match &entry.place {
            Place::Checking { .. } => {}
            Place::Ready => self.ready.remove(&entry),
            Place::Delayed { until, .. } => self.delayed.remove(*until, entry.seq),
            Place::Leased(lease) => {
                self.leased -= 1;
                if !lease.is_committing {
                    self.leases.remove(&(lease.expires_at, key));
                }
            }
        }
        self.waits -= entry.waiters.len();
        entry.waiters.into_iter().map(|waiter| waiter.to).collect()
    }
}
