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
    reach: Reach,
    baseline_in: Option<u64>,
    committed: u64,
    accounts: BTreeMap<Lane, String>,
}

impl LiveRun {
    /// Returns how far the last stage that moved is.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.lock().reach.clone()
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
                let (n, of) = (*n as u64, *of as u64);
                let mut inner = self.lock();
                if inner.reach.stage != *stage || n == 0 {
                    inner.reach = Reach {
                        stage: (*stage).to_owned(),
                        done: 0,
                        total: of,
                    };
                }
                inner.reach.done += n;
                if *stage == "selection_eval_baseline" {
                    inner.baseline_in = Some(inner.reach.done);
                }
            }
            Progress::Committed(_) => {
                self.lock().committed += 1;
                self.bell.ring();
            }
            Progress::Asked { .. } | Progress::Answered { .. } => {}
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
