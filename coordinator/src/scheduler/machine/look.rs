//! What the scheduler can say of its jobs.

use std::collections::{BTreeMap, BTreeSet};

use skillopt_core::job::Key;
use skillopt_queue::RunId;

use super::job::{Entry, LineId, Place};
use super::pools::Pool;
use super::{Lineup, Machine};
use crate::scheduler::standing::{Hold, Line, Released, Standing};

/// A job that is in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InQueue {
    /// The job.
    pub key: Key,
    /// The run that the queue knows it under.
    pub run: RunId,
    /// The batch that it was released with.
    pub batch: u64,
}

impl<W: Clone> Machine<W> {
    /// Returns where all jobs are.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let elsewhere = self.counted_elsewhere();
        let line = |(id, line): (&LineId, &Lineup)| {
            let run = self.runs.get(id.run)?;
            let waiting = line.live - elsewhere.get(id).copied().unwrap_or(0);
            let mut entries = line.keys.iter().filter_map(|key| self.jobs.get(key));
            let oldest = entries.find(|entry| entry.waits_in(id) && self.home(entry) == Some(id));
            Some(Line {
                run: run.name.clone(),
                lane: id.lane.clone(),
                priority: self.runs.level(id),
                waiting,
                oldest: oldest?.since,
                hold: self.hold(id),
            })
        };
        let mut released = Vec::with_capacity(self.out.len());
        for key in self.out.values() {
            let Some(entry) = self.jobs.get(key) else {
                continue;
            };
            if let Place::Out(out) = &entry.place
                && let Some(run) = self.runs.get(out.line.run)
            {
                released.push(Released {
                    key: *key,
                    run: run.name.clone(),
                    lane: out.line.lane.clone(),
                    since: entry.since,
                });
            }
        }
        released.sort_unstable_by_key(|released| released.key);
        Standing {
            lines: self.lines.iter().filter_map(line).collect(),
            released,
        }
    }

    /// Returns all jobs that are in the queue, or on their way there.
    #[must_use]
    pub fn in_queue(&self) -> Vec<InQueue> {
        let out = |key: &Key| match &self.jobs.get(key)?.place {
            Place::Out(out) => Some(InQueue {
                key: *key,
                run: out.submitted_as.clone(),
                batch: out.batch,
            }),
            Place::Waiting => None,
        };
        self.out.values().filter_map(out).collect()
    }

    /// Returns the jobs that `is_meant`, with the runs that want each.
    pub fn wanted(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<(Key, Vec<RunId>)> {
        let name = |line: LineId| Some(self.runs.get(line.run)?.name.clone());
        let meant = self.jobs.iter().filter(|(key, _)| is_meant(key));
        meant
            .map(|(key, entry)| (*key, entry.lines().into_iter().filter_map(name).collect()))
            .collect()
    }

    /// Returns how many jobs wait here.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns how many jobs are in the queue.
    #[must_use]
    pub fn released(&self) -> usize {
        self.out.len()
    }

    /// Returns whether a job is in the queue, or on its way there.
    #[must_use]
    pub fn is_released(&self, key: &Key) -> bool {
        let entry = self.jobs.get(key);
        entry.is_some_and(|entry| matches!(entry.place, Place::Out(_)))
    }

    /// The line that a waiting job is counted for: the first that can be served, else the first.
    fn home<'a>(&self, entry: &'a Entry<W>) -> Option<&'a LineId> {
        let mut lines = entry.waits.iter().map(|wait| &wait.line);
        let first = lines.clone().next();
        lines.find(|line| !self.runs.is_paused(line.run)).or(first)
    }

    /// Counts, for each line, its jobs that are counted for another one.
    fn counted_elsewhere(&self) -> BTreeMap<LineId, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.shared.iter().filter_map(|key| self.jobs.get(key)) {
            let home = self.home(entry);
            for line in entry.lines() {
                if home != Some(&line) {
                    *counts.entry(line).or_default() += 1;
                }
            }
        }
        counts
    }

    fn hold(&self, id: &LineId) -> Hold {
        if self.runs.is_paused(id.run) {
            return Hold::Paused;
        }
        let Some(pool) = self.pools.of(&id.lane) else {
            return Hold::Others;
        };
        let out = pool.runs.get(&id.run).copied().unwrap_or(0);
        let mine = self.runs.level(id);
        let others = || pool.lines.iter().filter(|line| line.run != id.run);
        let is_alone = others().next().is_none() && pool.out == out;
        let is_outranked = others().any(|line| self.runs.level(line) > mine);
        if out > 0 && (is_alone || (!is_outranked && out >= self.share(pool, id))) {
            Hold::Own { out }
        } else {
            Hold::Others
        }
    }

    /// Returns the places that a run has at most while all others want some, too: at least one.
    fn share(&self, pool: &Pool, id: &LineId) -> usize {
        let mut active: BTreeSet<u64> = pool.lines.iter().map(|line| line.run).collect();
        active.extend(pool.runs.keys());
        let owners = active.iter().filter_map(|run| self.runs.get(*run));
        let Some(me) = self.runs.get(id.run) else {
            return 1;
        };
        let weights = self.runs.group_weights();
        let (mut tenants, mut groups) = (BTreeSet::new(), BTreeSet::new());
        let mut runs = 0;
        for run in owners {
            tenants.insert(run.owner.tenant);
            if run.owner.tenant == me.owner.tenant {
                groups.insert(run.owner.group);
            }
            if run.owner.group == me.owner.group {
                runs += u128::from(run.weight);
            }
        }
        let weight = |group: &u64| u128::from(weights.get(group).copied().unwrap_or(1));
        let group_sum: u128 = groups.iter().map(weight).sum();
        let window = pool
            .lanes
            .get(&id.lane)
            .map_or(pool.window, |lane| lane.window);
        let part =
            window.min(pool.window) as u128 * weight(&me.owner.group) * u128::from(me.weight);
        let of = (tenants.len() as u128) * group_sum.max(1) * runs.max(1);
        usize::try_from(part / of.max(1))
            .unwrap_or(usize::MAX)
            .max(1)
    }
}
