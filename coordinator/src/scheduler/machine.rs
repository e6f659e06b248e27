//! The scheduler as a pure state machine: facts and the time in, jobs to release out.
//!
//! It knows no queue, no store, no task and no clock. Invariants, kept by every method and checked
//! by [`Machine::check`]: a job waits here or is released, never both; a waiting job is in the line
//! of each run that wants it; the window is never exceeded; what is charged to tenants, groups and
//! runs adds up to what is released.
//!
//! **Fairness.** Of the runs that have waiting jobs those of the highest priority go first. Among
//! equals a freed place goes to the tenant whose released jobs are fewest, within it to the group
//! (a sweep is one group), then to the run, each by weight; ties go to whoever was served longest
//! ago. So shares are measured in places that are held and not in jobs that were released: long
//! jobs do not push out short ones, and a newcomer catches up at once instead of waiting for its
//! turn. While several groups want a pool's slots, none keeps more jobs at hand in the queue than it
//! takes to keep the slots busy, and jobs of a group that has less than its share of the slots go
//! there one level higher, so that they do not wait behind what others have at hand.
//!
//! **Age.** Within a priority nobody starves by the rule above. A line of a lower priority that got
//! nothing for `age_max`, and a job that was overtaken in the queue for so long, get every fourth
//! place.

mod check;
mod field;
mod job;
mod leave;
mod look;
mod pick;
mod pools;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use skillopt_core::job::Key;
use skillopt_queue::queue::{Error, JOB_BYTES_MAX};
use skillopt_queue::{Enqueue, RunId, Timestamp, store};

use self::job::{Entry, LineId, Place, Wait};
use self::pools::Pools;
use self::runs::Runs;
use super::share::{Limits, Offer, RunShare};

pub use self::leave::Cancelled;
pub use self::look::InQueue;
pub use self::pick::Batch;

/// The state; `W` tells whoever submitted a job of its end.
#[derive(Debug)]
pub struct Machine<W> {
    limits: Limits,
    runs: Runs,
    jobs: HashMap<Key, Entry<W>>,
    /// Lines with waiting jobs.
    lines: BTreeMap<LineId, Lineup>,
    /// Waiting jobs that are in several lines.
    shared: BTreeSet<Key>,
    /// Released jobs in the order of their release.
    out: BTreeMap<u64, Key>,
    waiting: usize,
    waits: usize,
    pools: Pools,
    /// Released jobs that the queue should hasten.
    hasten: BTreeSet<Key>,
    /// The last released job that was looked at for its age.
    looked_at: u64,
    next_batch: u64,
    /// Counts releases, so that ties go to whoever was served longest ago.
    turn: u64,
}

/// The waiting jobs of one line, first in first out.
#[derive(Debug)]
struct Lineup {
    /// Keys, among them some that wait here no more.
    keys: VecDeque<Key>,
    /// How many do wait here.
    live: usize,
    /// When the line got a place last, or was empty.
    served_at: Timestamp,
    served: u64,
}

impl<W: Clone> Machine<W> {
    /// Makes a scheduler without runs that knows of no worker.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            runs: Runs::default(),
            jobs: HashMap::new(),
            lines: BTreeMap::new(),
            shared: BTreeSet::new(),
            out: BTreeMap::new(),
            waiting: 0,
            waits: 0,
            pools: Pools::new(limits),
            hasten: BTreeSet::new(),
            looked_at: 0,
            next_batch: 1,
            turn: 0,
        }
    }

    /// Lets a run submit jobs, once more for each call, and sets its share.
    pub fn open(&mut self, share: &RunShare) {
        self.reshare_to(share);
        self.runs.hold(&share.run);
    }

    /// Changes the share of a run that is open.
    pub fn reshare(&mut self, share: &RunShare) {
        if self.runs.id(&share.run).is_some() {
            self.reshare_to(share);
        }
    }

    fn reshare_to(&mut self, share: &RunShare) {
        if self.runs.set(share) {
            // What it has released is charged to another group now.
            self.pools.remake();
            self.refill_pools();
        }
    }

    /// Says what live workers offer.
    pub fn set_capacity(&mut self, offers: &[Offer]) {
        if !self.pools.is_news(offers) {
            return;
        }
        self.pools.remake();
        self.refill_pools();
    }

    /// Adds jobs of a run; of two equal keys in `jobs` the first counts, the caller sees to that.
    ///
    /// # Errors
    /// [`Error::QueueFull`] if they do not fit, [`Error::JobTooLarge`], or an error of the store's
    /// if the run is not open; then none is taken.
    pub fn submit(
        &mut self,
        now: Timestamp,
        run: &RunId,
        jobs: Vec<Enqueue>,
        to: &W,
    ) -> Result<(), Error> {
        let id = self.admit(run, &jobs)?;
        let new = jobs.len();
        for job in jobs {
            let line = LineId {
                run: id,
                lane: job.lane.clone(),
                urgency: job.priority.level(),
            };
            self.waits += 1;
            self.add(now, line, job, to.clone());
        }
        self.runs.wait_for(id, new);
        Ok(())
    }

    fn admit(&self, run: &RunId, jobs: &[Enqueue]) -> Result<u64, Error> {
        let open = self.runs.open(run);
        let (id, present) = open.ok_or_else(|| store::Error::Closed {
            place: format!("scheduler of run {run}"),
        })?;
        if let Some(job) = jobs.iter().find(|job| job.job.len() > JOB_BYTES_MAX) {
            return Err(Error::JobTooLarge {
                key: job.key,
                bytes: job.job.len(),
                max: JOB_BYTES_MAX,
            });
        }
        let new = jobs.len();
        let fits = |present: usize, max: usize| {
            if new > max.saturating_sub(present) {
                Err(Error::QueueFull { new, present, max })
            } else {
                Ok(())
            }
        };
        fits(present, self.limits.waiting_per_run_max)?;
        fits(self.waits, self.limits.waiting_max)?;
        Ok(id)
    }

    fn add(&mut self, now: Timestamp, line: LineId, job: Enqueue, to: W) {
        let key = job.key;
        let level = self.runs.level(&line);
        let wait = Wait {
            line: line.clone(),
            to,
        };
        let Some(entry) = self.jobs.get_mut(&key) else {
            self.jobs.insert(key, Entry::new(now, job, wait));
            self.waiting += 1;
            self.stand_in_line(now, &line, key, false);
            return;
        };
        entry.hasten(&job);
        let is_new_line = !entry.stands_in(&line);
        entry.waits.push(wait);
        match &mut entry.place {
            Place::Waiting if is_new_line => {
                self.shared.insert(key);
                self.stand_in_line(now, &line, key, false);
            }
            Place::Waiting => {}
            Place::Out(out) => {
                if level > out.priority {
                    out.priority = level;
                    self.hasten.insert(key);
                }
            }
        }
    }

    /// Puts a job into a line, at its end or its front.
    fn stand_in_line(&mut self, now: Timestamp, id: &LineId, key: Key, is_first: bool) {
        let is_paused = self.runs.is_paused(id.run);
        let line = self.lines.entry(id.clone()).or_insert_with(|| Lineup {
            keys: VecDeque::new(),
            live: 0,
            served_at: now,
            served: 0,
        });
        line.live += 1;
        if is_first {
            line.keys.push_front(key);
        } else {
            line.keys.push_back(key);
        }
        if !is_paused {
            self.pools.of_mut(&id.lane).lines.insert(id.clone());
        }
    }

    /// Takes a job out of the count of a line.
    fn leave_line(&mut self, id: &LineId) {
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        line.live -= 1;
        if line.live == 0 {
            self.lines.remove(id);
            self.pools.of_mut(&id.lane).lines.remove(id);
            self.pools.tidy(&id.lane);
        } else if line.keys.len() > 2 * line.live + 64 {
            let (jobs, mut seen) = (&self.jobs, BTreeSet::new());
            line.keys.retain(|key| {
                let is_live = jobs.get(key).is_some_and(|entry| entry.waits_in(id));
                is_live && seen.insert(*key)
            });
        }
    }

    /// Enters lines and released jobs into pools that are empty.
    fn refill_pools(&mut self) {
        for id in self.lines.keys() {
            if !self.runs.is_paused(id.run) {
                self.pools.of_mut(&id.lane).lines.insert(id.clone());
            }
        }
        for key in self.out.values() {
            let Some(Place::Out(out)) = self.jobs.get(key).map(|entry| &entry.place) else {
                continue;
            };
            if let Some(owner) = self.runs.owner(out.line.run) {
                self.pools.charge(&out.line.lane, owner);
            }
        }
    }
}
