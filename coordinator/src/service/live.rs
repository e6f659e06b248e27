//! What this process knows of the runs it works on, beyond what is written down.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skillopt_queue::Lane;

use super::bell::Bell;
use crate::progress::{Progress, Watcher};

/// How far a stage is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Folder of the stage below the run folder.
    pub stage: String,
    /// Rollouts that are in.
    pub done: u64,
    /// Rollouts of the stage.
    pub total: u64,
}

/// One run at work.
#[derive(Debug, Default)]
pub struct LiveRun {
    /// Rung with every commit and at the end.
    pub bell: Bell,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The stages that are not complete yet and the one that moved last, which is the last.
    stages: Vec<Reach>,
    baseline_in: Option<u64>,
    committed: u64,
    accounts: BTreeMap<Lane, String>,
}

impl Inner {
    /// Takes in that `n` more of the `of` rollouts of a stage are in, and returns how many are.
    /// Stages move in turns: each keeps its own count.
    fn move_on(&mut self, stage: &str, n: u64, of: u64) -> u64 {
        let known = self.stages.iter().position(|reach| reach.stage == stage);
        let before = match known.map(|at| self.stages.remove(at)) {
            // It is begun anew.
            Some(reach) if n > 0 => reach.done,
            _ => 0,
        };
        self.stages.retain(|reach| reach.done < reach.total);
        let reach = Reach {
            stage: stage.to_owned(),
            done: (before + n).min(of),
            total: of,
        };
        let done = reach.done;
        self.stages.push(reach);
        done
    }
}

impl LiveRun {
    /// Returns how far the last stage that moved is.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.lock().stages.last().cloned().unwrap_or_default()
    }

    /// Returns how many rollouts of the initial skill on the val split are in.
    #[must_use]
    pub fn baseline_in(&self) -> Option<u64> {
        self.lock().baseline_in
    }

    /// Returns how many events were written or found equal.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.lock().committed
    }

    /// Returns the accounts that its jobs of a lane call.
    #[must_use]
    pub fn accounts(&self) -> BTreeMap<Lane, String> {
        self.lock().accounts.clone()
    }

    pub(super) fn set_accounts(&self, accounts: BTreeMap<Lane, String>) {
        self.lock().accounts = accounts;
    }

    /// Makes the watcher that keeps this up to date.
    #[must_use]
    pub fn watcher(self: &Arc<Self>) -> Watcher {
        let live = Arc::clone(self);
        Watcher::new(move |news| live.hear(&news))
    }

    fn hear(&self, news: &Progress<'_>) {
        match news {
            Progress::Rolled { stage, n, of } => {
                let mut inner = self.lock();
                let done = inner.move_on(stage, *n as u64, *of as u64);
                if *stage == "selection_eval_baseline" {
                    inner.baseline_in = Some(done);
                }
            }
            Progress::Committed(_) => {
                self.lock().committed += 1;
                self.bell.ring();
            }
            Progress::Unread { .. } | Progress::Asked { .. } | Progress::Answered { .. } => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No section under this lock can panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All runs at work in this process; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Mutex<HashMap<String, Arc<LiveRun>>>>);

impl Live {
    /// Returns a run, if this process works on it.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.lock().get(id).map(Arc::clone)
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns all runs by their id.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Arc<LiveRun>)> {
        let all = self.lock();
        all.iter()
            .map(|(id, run)| (id.clone(), Arc::clone(run)))
            .collect()
    }

    pub(super) fn add(&self, id: &str) -> Arc<LiveRun> {
        let run = Arc::new(LiveRun::default());
        self.lock().insert(id.to_owned(), Arc::clone(&run));
        run
    }

    pub(super) fn remove(&self, id: &str) {
        if let Some(run) = self.lock().remove(id) {
            run.bell.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_that_move_in_turns_keep_their_own_counts() {
        let live = Arc::new(LiveRun::default());
        let moved = |stage: &str, n| {
            live.hear(&Progress::Rolled { stage, n, of: 4 });
            live.reach().done
        };
        assert_eq!(moved("selection_eval_baseline", 0), 0);
        assert_eq!(moved("rollout", 0), 0);
        assert_eq!(live.baseline_in(), Some(0));
        assert_eq!(moved("rollout", 3), 3);
        assert_eq!(moved("selection_eval_baseline", 1), 1);
        assert_eq!(moved("rollout", 1), 4);
        assert_eq!(moved("selection_eval_baseline", 2), 3);
        assert_eq!(live.baseline_in(), Some(3));
        assert_eq!(moved("selection_eval_baseline", 0), 0, "it is made anew");
        assert_eq!(live.baseline_in(), Some(0));
        assert_eq!(live.lock().stages.len(), 1, "what is complete is forgotten");
    }
}
