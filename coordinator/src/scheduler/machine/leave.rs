//! How jobs leave: they end, their run does not want them any more, or goes away.

use std::collections::BTreeSet;

use skillopt_core::job::Key;
use skillopt_queue::queue::Which;
use skillopt_queue::{RunId, Timestamp};

use super::Machine;
use super::job::{LineId, Out, Place};

/// What became of jobs that a run withdrew.
#[derive(Debug)]
pub struct Cancelled<W> {
    /// Who is to be told.
    pub told: Vec<(W, Key)>,
    /// How many left without having been in the queue.
    pub removed: usize,
    /// How many go on for other runs.
    pub shared: usize,
    /// Those that are to be withdrawn from the queue, by the run it knows them under.
    pub in_queue: Vec<(RunId, Key)>,
}

impl<W: Clone> Machine<W> {
    /// Ends a job and returns who waits for it. The end of an earlier `batch` than the job's own
    /// counts only if it is a result.
    pub fn ended(&mut self, key: Key, batch: u64, is_result: bool) -> Vec<W> {
        let is_own = match self.jobs.get(&key).map(|entry| &entry.place) {
            Some(Place::Out(out)) => out.batch == batch,
            Some(Place::Waiting) => false,
            None => return Vec::new(),
        };
        if !is_own && !is_result {
            return Vec::new();
        }
        let Some(entry) = self.jobs.remove(&key) else {
            return Vec::new();
        };
        match &entry.place {
            Place::Out(out) => self.uncharge(out),
            Place::Waiting => {
                self.waiting -= 1;
                self.shared.remove(&key);
                for line in entry.lines() {
                    self.leave_line(&line);
                }
            }
        }
        self.waits -= entry.waits.len();
        for wait in &entry.waits {
            self.runs.waited_for(wait.line.run, 1);
        }
        entry.waits.into_iter().map(|wait| wait.to).collect()
    }

    /// Withdraws jobs of a run.
    pub fn cancel(&mut self, run: &RunId, which: Which<'_>) -> Cancelled<W> {
        let mut cancelled = Cancelled {
            told: Vec::new(),
            removed: 0,
            shared: 0,
            in_queue: Vec::new(),
        };
        let Some(id) = self.runs.id(run) else {
            return cancelled;
        };
        let keys = match which {
            Which::All => self.keys_of(id),
            Which::Keys(keys) => keys.to_vec(),
            Which::Idle => {
                let mut keys = self.keys_of(id);
                keys.retain(|key| {
                    let entry = self.jobs.get(key);
                    entry.is_some_and(|entry| matches!(entry.place, Place::Waiting))
                });
                keys
            }
        };
        for key in keys {
            self.withdraw(id, key, &mut cancelled);
        }
        cancelled
    }

    /// Takes one holder of a run away; with the last one its waiting jobs are forgotten, while
    /// released ones go on.
    pub fn close(&mut self, run: &RunId) {
        if !self.runs.let_go(run) {
            return;
        }
        let Some(id) = self.runs.id(run) else {
            return;
        };
        self.set_paused(run, false);
        for key in self.keys_of(id) {
            let Some(entry) = self.jobs.get_mut(&key) else {
                continue;
            };
            if matches!(entry.place, Place::Out(_)) {
                let before = entry.waits.len();
                entry.waits.retain(|wait| wait.line.run != id);
                let gone = before - entry.waits.len();
                self.waits -= gone;
                self.runs.waited_for(id, gone);
            } else {
                let mut unheard = Cancelled {
                    told: Vec::new(),
                    removed: 0,
                    shared: 0,
                    in_queue: Vec::new(),
                };
                self.withdraw(id, key, &mut unheard);
            }
        }
        self.runs.forget(id);
    }

    /// Releases nothing more of a run.
    pub fn pause(&mut self, run: &RunId) {
        self.set_paused(run, true);
    }

    /// Goes on with a paused run.
    pub fn resume(&mut self, run: &RunId) {
        self.set_paused(run, false);
    }

    fn set_paused(&mut self, run: &RunId, is_paused: bool) {
        let Some(id) = self
            .runs
            .id(run)
            .filter(|_| self.runs.set_paused(run, is_paused))
        else {
            return;
        };
        for line in self.lines_of(id) {
            if is_paused {
                self.pools.of_mut(&line.lane).lines.remove(&line);
            } else {
                self.pools.of_mut(&line.lane).lines.insert(line);
            }
        }
    }

    /// Forgets all jobs and returns who waited for them.
    pub fn abandon(&mut self) -> Vec<(W, Key)> {
        let names: Vec<RunId> = self.runs.iter().map(|(_, run)| run.name.clone()).collect();
        let all = names
            .iter()
            .flat_map(|run| self.cancel(run, Which::All).told);
        all.collect()
    }

    /// Returns the released jobs of a batch.
    #[must_use]
    pub fn keys_of_batch(&self, batch: u64) -> Vec<Key> {
        let is_of = |key: &Key| match self.jobs.get(key).map(|entry| &entry.place) {
            Some(Place::Out(out)) => out.batch == batch,
            _ => false,
        };
        let out = self.out.values().copied();
        out.filter(is_of).collect()
    }

    /// Returns the released jobs that `run` wants, and no run that is not paused.
    #[must_use]
    pub fn released_for_paused(&self, run: &RunId) -> Vec<Key> {
        let Some(id) = self.runs.id(run) else {
            return Vec::new();
        };
        let is_idle = |key: &Key| {
            let waits = self.jobs.get(key).map(|entry| &entry.waits);
            waits.is_some_and(|waits| {
                waits.iter().any(|wait| wait.line.run == id)
                    && waits.iter().all(|wait| self.runs.is_paused(wait.line.run))
            })
        };
        let out = self.out.values().copied();
        out.filter(is_idle).collect()
    }

    /// Lets released jobs wait here again, at the front of their lines, and returns what is to be
    /// withdrawn from the queue, by the run it knows it under. Does nothing to jobs that have been
    /// withdrawn or joined meanwhile, and nothing at all if `run` is not paused any more.
    pub fn take_back(&mut self, now: Timestamp, run: &RunId, keys: &[Key]) -> Vec<(RunId, Key)> {
        let mut in_queue = Vec::new();
        let idle: BTreeSet<Key> = self.released_for_paused(run).into_iter().collect();
        // The first of them comes to the front last.
        for key in keys.iter().rev() {
            let Some(entry) = self.jobs.get_mut(key).filter(|_| idle.contains(key)) else {
                continue;
            };
            let lines = entry.lines();
            let Place::Out(out) = std::mem::replace(&mut entry.place, Place::Waiting) else {
                continue;
            };
            self.uncharge(&out);
            self.waiting += 1;
            if lines.len() > 1 {
                self.shared.insert(*key);
            }
            for line in lines {
                self.stand_in_line(now, &line, *key, true);
            }
            in_queue.push((out.submitted_as, *key));
        }
        in_queue.reverse();
        in_queue
    }

    /// Returns the jobs that a run wants, waiting ones first, each in order.
    fn keys_of(&self, run: u64) -> Vec<Key> {
        let mut keys = Vec::new();
        for line in self.lines_of(run) {
            let waiting = self
                .lines
                .get(&line)
                .into_iter()
                .flat_map(|line| &line.keys);
            let is_live = |key: &&Key| {
                self.jobs
                    .get(key)
                    .is_some_and(|entry| entry.waits_in(&line))
            };
            keys.extend(waiting.filter(is_live));
        }
        let wants = |key: &&Key| {
            let entry = self.jobs.get(key);
            entry.is_some_and(|entry| entry.waits.iter().any(|wait| wait.line.run == run))
        };
        keys.extend(self.out.values().filter(wants));
        keys
    }

    fn lines_of(&self, run: u64) -> Vec<LineId> {
        let lines = self.lines.keys().filter(|line| line.run == run);
        lines.cloned().collect()
    }

    fn withdraw(&mut self, run: u64, key: Key, cancelled: &mut Cancelled<W>) {
        let Some(entry) = self.jobs.get_mut(&key) else {
            return;
        };
        let lines = entry.lines();
        let gone: Vec<_> = entry
            .waits
            .extract_if(.., |wait| wait.line.run == run)
            .collect();
        if gone.is_empty() {
            return;
        }
        let heir = entry.waits.first().map(|wait| wait.line.clone());
        let is_out = matches!(entry.place, Place::Out(_));
        self.waits -= gone.len();
        cancelled.shared += usize::from(heir.is_some());
        if is_out {
            self.disown(run, key, heir, cancelled);
        } else {
            self.step_out(run, key, &lines, cancelled);
        }
        self.runs.waited_for(run, gone.len());
        cancelled
            .told
            .extend(gone.into_iter().map(|wait| (wait.to, key)));
    }

    /// Takes a waiting job out of the lines of a run that has withdrawn it.
    fn step_out(&mut self, run: u64, key: Key, lines: &[LineId], cancelled: &mut Cancelled<W>) {
        let left = lines.iter().filter(|line| line.run != run).count();
        if left == 0 {
            self.jobs.remove(&key);
            self.waiting -= 1;
            cancelled.removed += 1;
        }
        if left < 2 {
            self.shared.remove(&key);
        }
        for line in lines.iter().filter(|line| line.run == run) {
            self.leave_line(line);
        }
    }

    /// Passes a released job on to `heir`, or takes it out of the queue.
    fn disown(&mut self, run: u64, key: Key, heir: Option<LineId>, cancelled: &mut Cancelled<W>) {
        let Some(entry) = self.jobs.get_mut(&key) else {
            return;
        };
        let Place::Out(out) = &mut entry.place else {
            return;
        };
        match heir {
            None => {
                if let Some(entry) = self.jobs.remove(&key)
                    && let Place::Out(out) = entry.place
                {
                    self.uncharge(&out);
                    cancelled.in_queue.push((out.submitted_as, key));
                }
            }
            Some(heir) if out.line.run == run => {
                let before = std::mem::replace(&mut out.line, heir.clone());
                self.move_charge(&before, &heir);
            }
            Some(_) => {}
        }
    }

    fn move_charge(&mut self, from: &LineId, to: &LineId) {
        if let (Some(from_owner), Some(to_owner)) =
            (self.runs.owner(from.run), self.runs.owner(to.run))
        {
            self.pools.charge(&to.lane, to_owner);
            self.runs.charge(to.run);
            self.pools.uncharge(&from.lane, from_owner);
            self.runs.uncharge(from.run);
        }
    }

    fn uncharge(&mut self, out: &Out) {
        self.out.remove(&out.turn);
        if let Some(owner) = self.runs.owner(out.line.run) {
            self.pools.uncharge(&out.line.lane, owner);
            self.runs.uncharge(out.line.run);
        }
    }
}
