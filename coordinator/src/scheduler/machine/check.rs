//! The invariants, for tests and simulations.

use std::collections::{BTreeMap, BTreeSet};

use super::Machine;
use super::job::{LineId, Place};

impl<W: Clone> Machine<W> {
    /// Checks all invariants.
    ///
    /// # Errors
    /// Says which one does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.check_places()?;
        self.check_window()?;
        self.check_counts()
    }

    fn check_places(&self) -> Result<(), String> {
        let (mut waiting, mut waits, mut shared) = (0, 0, BTreeSet::new());
        let mut live: BTreeMap<LineId, usize> = BTreeMap::new();
        let mut out = BTreeMap::new();
        for (key, entry) in &self.jobs {
            waits += entry.waits.len();
            match &entry.place {
                Place::Waiting => {
                    waiting += 1;
                    let lines = entry.lines();
                    same(
                        "a waiting job has somebody who wants it",
                        lines.is_empty(),
                        false,
                    )?;
                    if lines.len() > 1 {
                        shared.insert(*key);
                    }
                    for line in lines {
                        *live.entry(line).or_default() += 1;
                    }
                }
                Place::Out(place) => {
                    out.insert(place.turn, *key);
                }
            }
        }
        let lines = self.lines.iter().map(|(id, line)| (id.clone(), line.live));
        same("lines", &lines.collect::<BTreeMap<_, _>>(), &live)?;
        for (id, line) in &self.lines {
            let keys: BTreeSet<_> = line.keys.iter().collect();
            let found = keys
                .iter()
                .filter(|key| self.jobs.get(key).is_some_and(|e| e.waits_in(id)));
            same("keys of a line", found.count(), line.live)?;
        }
        same("waiting jobs", self.waiting, waiting)?;
        same("waits", self.waits, waits)?;
        same("shared jobs", &self.shared, &shared)?;
        same("released jobs", &self.out, &out)
    }

    fn check_window(&self) -> Result<(), String> {
        if self.out.len() > self.limits.window_max {
            return Err(format!("{} jobs are released", self.out.len()));
        }
        let pools = self.pools.all();
        same(
            "released jobs of all pools",
            pools.map(|pool| pool.out).sum(),
            self.out.len(),
        )
    }

    fn check_counts(&self) -> Result<(), String> {
        for pool in self.pools.all() {
            same(
                "lanes",
                pool.lanes.values().map(|lane| lane.out).sum(),
                pool.out,
            )?;
            same("tenants", pool.tenants.values().sum(), pool.out)?;
            same(
                "groups",
                pool.groups.values().map(|group| group.out).sum(),
                pool.out,
            )?;
            same("runs", pool.runs.values().sum(), pool.out)?;
        }
        let mut open = BTreeSet::new();
        for pool in self.pools.all() {
            open.extend(pool.lines.iter().cloned());
        }
        let lines = self.lines.keys().filter(|id| !self.runs.is_paused(id.run));
        same("open lines", &open, &lines.cloned().collect())?;
        let charged = self.runs.iter().map(|(_, run)| run.charged).sum();
        same("charged jobs", charged, self.out.len())?;
        let waits = self.runs.iter().map(|(_, run)| run.waits).sum();
        same("waits of runs", waits, self.waits)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, left: T, right: T) -> Result<(), String> {
    if left == right {
        Ok(())
    } else {
        Err(format!("{what}: {left:?} is not {right:?}"))
    }
}
