//! The runs, and the groups and tenants that they belong to.

use std::collections::{BTreeMap, HashMap};

use skillopt_queue::{Priority, RunId};

use super::job::LineId;
use crate::scheduler::share::{RunShare, WEIGHT_MAX};

#[derive(Debug)]
pub(super) struct Run {
    pub(super) name: RunId,
    pub(super) owner: Owner,
    pub(super) weight: u32,
    priority: Priority,
    pub(super) is_paused: bool,
    /// Open handles.
    holders: usize,
    /// Jobs that it waits for, released ones included.
    pub(super) waits: usize,
    /// Released jobs that are charged to it.
    pub(super) charged: usize,
    pub(super) served: u64,
}

/// Who a run's places are charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) tenant: u64,
    pub(super) group: u64,
    pub(super) run: u64,
}

/// A tenant or a group: there as long as it has runs.
#[derive(Debug)]
pub(super) struct Circle<N> {
    name: N,
    runs: usize,
    pub(super) served: u64,
}

#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<u64, Run>,
    names: HashMap<RunId, u64>,
    tenants: Circles<String>,
    groups: Circles<(u64, String)>,
    next: u64,
}

#[derive(Debug)]
pub(super) struct Circles<N> {
    circles: BTreeMap<u64, Circle<N>>,
    names: HashMap<N, u64>,
    next: u64,
}

impl Runs {
    pub(super) fn id(&self, run: &RunId) -> Option<u64> {
        self.names.get(run).copied()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Run> {
        self.runs.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Run)> {
        self.runs.iter().map(|(id, run)| (*id, run))
    }

    /// Returns an open run and how many jobs it waits for.
    pub(super) fn open(&self, run: &RunId) -> Option<(u64, usize)> {
        let id = self.id(run)?;
        let run = self.get(id).filter(|run| run.holders > 0)?;
        Some((id, run.waits))
    }

    pub(super) fn is_paused(&self, id: u64) -> bool {
        self.get(id).is_some_and(|run| run.is_paused)
    }

    pub(super) fn owner(&self, id: u64) -> Option<Owner> {
        self.get(id).map(|run| run.owner)
    }

    /// Returns when a run's tenant and group were served last.
    pub(super) fn served(&self, owner: Owner) -> (u64, u64) {
        let tenant = self.tenants.served(owner.tenant);
        (tenant, self.groups.served(owner.group))
    }

    /// Notes that a run got a place.
    pub(super) fn serve(&mut self, owner: Owner, turn: u64) {
        self.tenants.serve(owner.tenant, turn);
        self.groups.serve(owner.group, turn);
        if let Some(run) = self.runs.get_mut(&owner.run) {
            run.served = turn;
        }
    }

    /// Returns the weight of a group: that of its heaviest run.
    pub(super) fn group_weights(&self) -> BTreeMap<u64, u32> {
        let mut weights = BTreeMap::new();
        for run in self.runs.values() {
            let weight = weights.entry(run.owner.group).or_insert(1);
            *weight = run.weight.max(*weight);
        }
        weights
    }

    /// Returns the priority of a line's jobs: the run's, moved by the job's own.
    pub(super) fn level(&self, line: &LineId) -> Priority {
        let run = self
            .get(line.run)
            .map_or(Priority::NORMAL, |run| run.priority);
        let moved = (run.level() + line.urgency).saturating_sub(Priority::NORMAL.level());
        Priority::new(moved)
    }

    /// Adds a run or changes its share. Returns whether it moved to another group.
    pub(super) fn set(&mut self, share: &RunShare) -> bool {
        let known = self.id(&share.run);
        let run = known.unwrap_or(self.next);
        let tenant = self.tenants.join(share.tenant.clone());
        let group = self.groups.join((tenant, share.group.clone()));
        let owner = Owner { tenant, group, run };
        let weight = share.weight.clamp(1, WEIGHT_MAX);
        let Some(run) = self.runs.get_mut(&run) else {
            self.next += 1;
            self.names.insert(share.run.clone(), run);
            let run = Run {
                name: share.run.clone(),
                owner,
                weight,
                priority: share.priority,
                is_paused: false,
                holders: 0,
                waits: 0,
                charged: 0,
                served: 0,
            };
            self.runs.insert(owner.run, run);
            return false;
        };
        let before = std::mem::replace(&mut run.owner, owner);
        (run.weight, run.priority) = (weight, share.priority);
        self.groups.leave(before.group);
        self.tenants.leave(before.tenant);
        before != owner
    }

    pub(super) fn hold(&mut self, run: &RunId) {
        if let Some(run) = self.named(run) {
            run.holders += 1;
        }
    }

    /// Takes one holder away. Returns whether it was the last.
    pub(super) fn let_go(&mut self, run: &RunId) -> bool {
        let Some(run) = self.named(run) else {
            return false;
        };
        run.holders = run.holders.saturating_sub(1);
        run.holders == 0
    }

    /// Returns whether that is news.
    pub(super) fn set_paused(&mut self, run: &RunId, is_paused: bool) -> bool {
        let before = self
            .named(run)
            .map(|run| std::mem::replace(&mut run.is_paused, is_paused));
        before.is_some_and(|before| before != is_paused)
    }

    pub(super) fn wait_for(&mut self, id: u64, jobs: usize) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.waits += jobs;
        }
    }

    pub(super) fn waited_for(&mut self, id: u64, jobs: usize) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.waits -= jobs;
        }
        self.forget(id);
    }

    pub(super) fn charge(&mut self, id: u64) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.charged += 1;
        }
    }

    pub(super) fn uncharge(&mut self, id: u64) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.charged -= 1;
        }
        self.forget(id);
    }

    /// Forgets a run that nobody holds and that has nothing left.
    pub(super) fn forget(&mut self, id: u64) {
        let is_over = |run: &Run| run.holders == 0 && run.waits == 0 && run.charged == 0;
        if self.runs.get(&id).is_some_and(is_over)
            && let Some(run) = self.runs.remove(&id)
        {
            self.names.remove(&run.name);
            self.groups.leave(run.owner.group);
            self.tenants.leave(run.owner.tenant);
        }
    }

    fn named(&mut self, run: &RunId) -> Option<&mut Run> {
        self.runs.get_mut(self.names.get(run)?)
    }
}

impl<N> Default for Circles<N> {
    fn default() -> Self {
        Self {
            circles: BTreeMap::new(),
            names: HashMap::new(),
            next: 0,
        }
    }
}

impl<N: Clone + Eq + std::hash::Hash> Circles<N> {
    fn join(&mut self, name: N) -> u64 {
        let next = self.next;
        let id = *self.names.entry(name.clone()).or_insert(next);
        self.next = self.next.max(id + 1);
        let circle = self.circles.entry(id).or_insert(Circle {
            name,
            runs: 0,
            served: 0,
        });
        circle.runs += 1;
        id
    }

    fn leave(&mut self, id: u64) {
        let Some(circle) = self.circles.get_mut(&id) else {
            return;
        };
        circle.runs -= 1;
        if circle.runs == 0
            && let Some(circle) = self.circles.remove(&id)
        {
            self.names.remove(&circle.name);
        }
    }

    fn served(&self, id: u64) -> u64 {
        self.circles.get(&id).map_or(0, |circle| circle.served)
    }

    fn serve(&mut self, id: u64, turn: u64) {
        if let Some(circle) = self.circles.get_mut(&id) {
            circle.served = turn;
        }
    }
}
