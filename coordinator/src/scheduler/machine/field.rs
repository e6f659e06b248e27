//! The lines that compete for the places of one pool while it is filled.
//!
//! Everything that is compared lies in one table of numbers, so that a choice is a look along it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use skillopt_queue::{Lane, Priority, Timestamp};

use super::job::LineId;
use super::pools::{LaneUse, Pool};
use super::runs::{Owner, Runs};

/// Fractions of a place that shares are compared in.
const FINE: u64 = 1 << 16;

pub(super) struct Field {
    candidates: Vec<Candidate>,
    /// The pool's lanes in order, with the places that each has left.
    lanes: Vec<(Lane, usize)>,
    slots: u64,
    out: u64,
    weights: BTreeMap<u64, u32>,
    contests: BTreeMap<Priority, Contest>,
}

/// Who shares the slots among the lines of one priority: the groups of the lines, and those whose
/// jobs are all in the queue.
#[derive(Default)]
struct Contest {
    groups: usize,
    /// By tenant, the sum of the weights of its groups.
    tenants: BTreeMap<u64, u64>,
}

/// A line that may get a place.
struct Candidate {
    id: LineId,
    lane: usize,
    level: Priority,
    owner: Owner,
    tenant: Holding,
    group: Holding,
    run: Holding,
    /// Since when its first job has been waiting without the line being served.
    since: Timestamp,
    served: u64,
    is_gone: bool,
}

/// What somebody holds, and when it was served last.
#[derive(Clone, Copy)]
struct Holding {
    out: u64,
    weight: u64,
    served: u64,
}

impl Holding {
    const fn rank(self) -> (u64, u64) {
        (self.out * FINE / self.weight, self.served)
    }

    const fn serve(&mut self, turn: u64) {
        self.out += 1;
        self.served = turn;
    }
}

impl Field {
    pub(super) fn new(pool: &Pool, weights: &BTreeMap<u64, u32>) -> Self {
        let room = |(lane, places): (&Lane, &LaneUse)| {
            (lane.clone(), places.window.saturating_sub(places.out))
        };
        Self {
            candidates: Vec::with_capacity(pool.lines.len()),
            lanes: pool.lanes.iter().map(room).collect(),
            slots: count(pool.slots),
            out: count(pool.out),
            weights: weights.clone(),
            contests: BTreeMap::new(),
        }
    }

    fn weight(&self, group: u64) -> u64 {
        u64::from(self.weights.get(&group).copied().unwrap_or(1))
    }

    pub(super) fn add(
        &mut self,
        pool: &Pool,
        runs: &Runs,
        id: &LineId,
        since: Timestamp,
        served: u64,
    ) {
        let lane = self.lanes.binary_search_by(|(lane, _)| lane.cmp(&id.lane));
        let (Ok(lane), Some(run)) = (lane, runs.get(id.run)) else {
            return;
        };
        let owner = run.owner;
        let (tenant_served, group_served) = runs.served(owner);
        let holding = |out: Option<usize>, weight: u64, served: u64| Holding {
            out: count(out.unwrap_or(0)),
            weight,
            served,
        };
        let group_out = pool.groups.get(&owner.group).map(|group| group.out);
        let (tenant_out, run_out) = (pool.tenants.get(&owner.tenant), pool.runs.get(&id.run));
        let weight = self.weight(owner.group);
        self.candidates.push(Candidate {
            id: id.clone(),
            lane,
            level: runs.level(id),
            owner,
            tenant: holding(tenant_out.copied(), 1, tenant_served),
            group: holding(group_out, weight, group_served),
            run: holding(run_out.copied(), u64::from(run.weight), run.served),
            since,
            served,
            is_gone: false,
        });
    }

    /// Finds out who shares with whom, after the last line was added.
    pub(super) fn count(&mut self, pool: &Pool) {
        let mut waiting: BTreeMap<Priority, BTreeMap<u64, u64>> = BTreeMap::new();
        for candidate in &self.candidates {
            let groups = waiting.entry(candidate.level).or_default();
            groups.insert(candidate.owner.group, candidate.owner.tenant);
        }
        let is_waiting = |group: &u64| waiting.values().any(|groups| groups.contains_key(group));
        let idle = pool.groups.iter().filter(|(group, _)| !is_waiting(group));
        let idle: Vec<(u64, u64)> = idle.map(|(group, used)| (*group, used.tenant)).collect();
        for (level, mut groups) in waiting.clone() {
            groups.extend(idle.iter().copied());
            let mut contest = Contest {
                groups: groups.len(),
                ..Contest::default()
            };
            for (group, tenant) in groups {
                *contest.tenants.entry(tenant).or_default() += self.weight(group);
            }
            self.contests.insert(level, contest);
        }
    }

    pub(super) fn line(&self, at: usize) -> (LineId, Priority) {
        let candidate = &self.candidates[at];
        (candidate.id.clone(), candidate.level)
    }

    /// Returns the candidate that is served next, and whether for its age, if one that got nothing
    /// for `age_max` may be.
    pub(super) fn choose(
        &self,
        now: Timestamp,
        age_max: Option<Duration>,
    ) -> Option<(usize, bool)> {
        let has_room = |c: &Candidate| !c.is_gone && self.lanes[c.lane].1 > 0;
        let open = || {
            self.candidates
                .iter()
                .enumerate()
                .filter(|(_, c)| has_room(c))
        };
        let top = open().map(|(_, c)| c.level).max()?;
        if let Some(age_max) = age_max {
            let is_old = |c: &Candidate| c.level < top && now.since(c.since) >= age_max;
            let old = open().filter(|(_, c)| is_old(c));
            if let Some((at, _)) = old.min_by_key(|(_, c)| (c.since, c.served)) {
                return Some((at, true));
            }
        }
        let is_narrow =
            self.contest(top).is_some() && self.out >= self.slots + (self.slots / 8).max(1);
        let equals = open().filter(|(_, c)| c.level == top && (!is_narrow || self.is_below(c)));
        let first = equals.min_by_key(|(_, c)| {
            let urgency = Reverse(c.id.urgency);
            let shares = (c.tenant.rank(), c.group.rank(), c.run.rank());
            (shares, urgency, c.served)
        });
        first.map(|(at, _)| (at, false))
    }

    /// Returns whether a candidate's job goes ahead of others in the queue: its group has less than
    /// its share of the slots, while others have jobs at hand there.
    pub(super) fn is_ahead(&self, at: usize) -> bool {
        let candidate = &self.candidates[at];
        self.contest(candidate.level).is_some() && self.is_below(candidate)
    }

    /// Several groups want the slots. Then none keeps more at hand than it takes to keep the slots
    /// busy, or whoever has longer jobs would fill the slots with them.
    fn contest(&self, level: Priority) -> Option<&Contest> {
        let contest = self.contests.get(&level);
        contest.filter(|contest| self.slots > 0 && contest.groups > 1)
    }

    /// Whether a group has fewer released jobs than its share of the slots, and an eighth more, so
    /// that one is at hand when another ends.
    fn is_below(&self, candidate: &Candidate) -> bool {
        let Some(contest) = self.contest(candidate.level) else {
            return true;
        };
        let sum = contest
            .tenants
            .get(&candidate.owner.tenant)
            .copied()
            .unwrap_or(1);
        let all = count(contest.tenants.len()).saturating_mul(sum);
        let share = self.slots.saturating_mul(candidate.group.weight);
        candidate.group.out.saturating_mul(all).saturating_mul(8) < share.saturating_mul(9)
    }

    /// Notes that a candidate got a place.
    pub(super) fn serve(&mut self, at: usize, now: Timestamp, turn: u64) {
        let candidate = &mut self.candidates[at];
        (candidate.since, candidate.served) = (now, turn);
        let owner = candidate.owner;
        self.lanes[candidate.lane].1 -= 1;
        self.out += 1;
        for other in &mut self.candidates {
            if other.owner.tenant == owner.tenant {
                other.tenant.serve(turn);
            }
            if other.owner.group == owner.group {
                other.group.serve(turn);
            }
            if other.owner.run == owner.run {
                other.run.serve(turn);
            }
        }
    }

    /// Takes a candidate out.
    pub(super) fn drop(&mut self, at: usize) {
        self.candidates[at].is_gone = true;
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
