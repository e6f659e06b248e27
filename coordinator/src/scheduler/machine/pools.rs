//! Pools of slots: lanes that share workers share a window.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use skillopt_queue::{Lane, Priority};

use super::job::LineId;
use super::runs::Owner;
use crate::scheduler::share::{Limits, Offer};

/// One pool. Lanes are in one pool if a worker offers them both, directly or over others; a lane
/// that nobody offers is a pool without slots.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) slots: usize,
    /// Most released jobs.
    pub(super) window: usize,
    /// Released jobs.
    pub(super) out: usize,
    pub(super) lanes: BTreeMap<Lane, LaneUse>,
    /// Released jobs by owner; those with none are left out.
    pub(super) tenants: BTreeMap<u64, usize>,
    pub(super) groups: BTreeMap<u64, GroupUse>,
    pub(super) runs: BTreeMap<u64, usize>,
    /// Lines that may be served.
    pub(super) lines: BTreeSet<LineId>,
    /// Grows with each ordinary release; releases by age cost it.
    pub(super) credit: u32,
    /// The last batch with a job of each priority.
    pub(super) last: [u64; Priority::FIRST.level() as usize + 1],
    is_offered: bool,
}

/// One group in a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupUse {
    pub(super) tenant: u64,
    pub(super) out: usize,
}

/// One lane of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneUse {
    /// Most released jobs of the lane: its own slots may be fewer than the pool's.
    pub(super) window: usize,
    pub(super) out: usize,
}

#[derive(Debug)]
pub(super) struct Pools {
    limits: Limits,
    /// What was said last, put in order.
    offers: BTreeMap<BTreeSet<Lane>, usize>,
    pools: BTreeMap<u64, Pool>,
    by_lane: HashMap<Lane, u64>,
    next: u64,
}

impl Pools {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            offers: BTreeMap::new(),
            pools: BTreeMap::new(),
            by_lane: HashMap::new(),
            next: 0,
        }
    }

    /// Returns whether workers offer something else than before, and remembers it.
    pub(super) fn is_news(&mut self, offers: &[Offer]) -> bool {
        let mut merged: BTreeMap<BTreeSet<Lane>, usize> = BTreeMap::new();
        for offer in offers.iter().filter(|offer| offer.slots > 0) {
            *merged
                .entry(offer.lanes.iter().cloned().collect())
                .or_default() += offer.slots;
        }
        let is_news = self.offers != merged;
        self.offers = merged;
        is_news
    }

    /// Makes empty pools from what workers offer.
    pub(super) fn remake(&mut self) {
        self.pools.clear();
        self.by_lane.clear();
        // Offers with a lane in common grow together.
        let mut parts: Vec<(BTreeSet<Lane>, usize)> = Vec::new();
        for (lanes, slots) in &self.offers {
            let (mut lanes, mut slots) = (lanes.clone(), *slots);
            let touching = parts.extract_if(.., |(part, _)| !part.is_disjoint(&lanes));
            for (others, more) in touching.collect::<Vec<_>>() {
                lanes.extend(others);
                slots += more;
            }
            parts.push((lanes, slots));
        }
        for (lanes, slots) in parts {
            let own = |lane: &Lane| {
                let fitting = self.offers.iter().filter(|(lanes, _)| lanes.contains(lane));
                fitting.map(|(_, slots)| slots).sum()
            };
            let lanes: Vec<(Lane, usize)> =
                lanes.into_iter().map(|l| (l.clone(), own(&l))).collect();
            self.add(lanes, slots, true);
        }
    }

    fn add(&mut self, lanes: Vec<(Lane, usize)>, slots: usize, is_offered: bool) -> u64 {
        let limits = self.limits;
        let window = |slots: usize| {
            let places = slots.saturating_mul(limits.places_per_slot);
            places.max(limits.window_min).min(limits.window_max)
        };
        let id = self.next;
        self.next += 1;
        let mut pool = Pool {
            slots,
            window: window(slots),
            is_offered,
            ..Pool::default()
        };
        for (lane, slots) in lanes {
            self.by_lane.insert(lane.clone(), id);
            let window = window(slots);
            pool.lanes.insert(lane, LaneUse { window, out: 0 });
        }
        self.pools.insert(id, pool);
        id
    }

    pub(super) fn of(&self, lane: &Lane) -> Option<&Pool> {
        self.pools.get(self.by_lane.get(lane)?)
    }

    /// Returns the pool of a lane; a lane that nobody offers gets one without slots.
    pub(super) fn of_mut(&mut self, lane: &Lane) -> &mut Pool {
        let id = match self.by_lane.get(lane) {
            Some(id) => *id,
            None => self.add(vec![(lane.clone(), 0)], 0, false),
        };
        self.pools.entry(id).or_default()
    }

    /// Returns the pools that have lines, beginning with another one each time.
    pub(super) fn with_lines(&self, turn: u64) -> Vec<u64> {
        let pools = self.pools.iter().filter(|(_, pool)| !pool.lines.is_empty());
        let mut ids: Vec<u64> = pools.map(|(id, _)| *id).collect();
        if let Some(len) = u64::try_from(ids.len()).ok().filter(|len| *len > 0) {
            ids.rotate_left(usize::try_from(turn % len).unwrap_or(0));
        }
        ids
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Pool> {
        self.pools.values()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Pool> {
        self.pools.get(&id)
    }

    pub(super) fn charge(&mut self, lane: &Lane, owner: Owner) {
        let pool = self.of_mut(lane);
        pool.out += 1;
        pool.lanes.entry(lane.clone()).or_default().out += 1;
        *pool.tenants.entry(owner.tenant).or_default() += 1;
        *pool.runs.entry(owner.run).or_default() += 1;
        let group = pool.groups.entry(owner.group).or_default();
        group.tenant = owner.tenant;
        group.out += 1;
    }

    pub(super) fn uncharge(&mut self, lane: &Lane, owner: Owner) {
        let pool = self.of_mut(lane);
        pool.out -= 1;
        if let Some(lane) = pool.lanes.get_mut(lane) {
            lane.out -= 1;
        }
        take_one(&mut pool.tenants, owner.tenant);
        take_one(&mut pool.runs, owner.run);
        if let Some(group) = pool.groups.get_mut(&owner.group) {
            group.out -= 1;
            if group.out == 0 {
                pool.groups.remove(&owner.group);
            }
        }
        self.tidy(lane);
    }

    /// Forgets the pool of a lane that nobody offers or uses.
    pub(super) fn tidy(&mut self, lane: &Lane) {
        let is_unused = |pool: &Pool| !pool.is_offered && pool.out == 0 && pool.lines.is_empty();
        if self.of(lane).is_some_and(is_unused)
            && let Some(id) = self.by_lane.remove(lane)
        {
            self.pools.remove(&id);
        }
    }
}

fn take_one(counts: &mut BTreeMap<u64, usize>, id: u64) {
    if let Some(count) = counts.get_mut(&id) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&id);
        }
    }
}
