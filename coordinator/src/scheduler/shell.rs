//! The scheduler as others see it.

use std::sync::{Arc, Mutex, PoisonError};

use skillopt_core::job::Key;
use skillopt_queue::queue::{Error, JobState};
use skillopt_queue::{Clock, Queue, RunId, Store};
use tokio::task::JoinSet;

use super::handle::Handle;
use super::machine::Machine;
use super::pump;
use super::share::{Limits, Offer, RunShare};
use super::shared::Shared;
use super::standing::Standing;

/// Jobs whose places are asked for in one call.
const STATES_CHUNK: usize = 1_024;

/// Hands the jobs of many runs to one queue, fairly.
pub struct Scheduler {
    shared: Arc<Shared>,
    /// The one task that talks to the queue.
    tasks: Mutex<JoinSet<()>>,
}

impl Scheduler {
    /// Starts a scheduler in front of `queue`, whose results are kept in `store`. Needs a tokio
    /// runtime; [`Scheduler::close`] ends its task, and so does dropping it.
    #[must_use]
    pub fn start(
        queue: Arc<dyn Queue>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Self {
        let shared = Shared::new(queue, store, clock, Machine::new(limits));
        let shared = Arc::new(shared);
        let mut tasks = JoinSet::new();
        tasks.spawn(pump::run(Arc::clone(&shared)));
        Self {
            shared,
            tasks: Mutex::new(tasks),
        }
    }

    /// Returns the queue that a run's session uses. When the last handle of a run is dropped, its
    /// waiting jobs are forgotten; those in the queue go on.
    #[must_use]
    pub fn handle(&self, share: RunShare) -> Arc<dyn Queue> {
        self.shared.step(|inner, _| inner.machine.open(&share));
        Arc::new(Handle {
            run: share.run,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Changes a run's weight and priority from now on.
    pub fn reshare(&self, share: &RunShare) {
        self.shared.step(|inner, _| inner.machine.reshare(share));
    }

    /// Releases nothing more of a run, and takes back what no worker has begun. Running jobs go
    /// on, and so do those that another run wants.
    ///
    /// # Errors
    /// If the queue cannot be reached: then what is in the queue stays there.
    pub async fn pause(&self, run: &RunId) -> Result<(), Error> {
        let released = self.shared.step(|inner, _| {
            inner.machine.pause(run);
            inner.machine.released_for_paused(run)
        });
        for keys in released.chunks(STATES_CHUNK) {
            let states = self.shared.queue.states(keys).await?;
            let is_idle = |state: &JobState| {
                matches!(state, JobState::Waiting { .. } | JobState::Delayed { .. })
            };
            let idle = keys.iter().zip(&states).filter(|(_, state)| is_idle(state));
            let idle: Vec<Key> = idle.map(|(key, _)| *key).collect();
            let back = self
                .shared
                .step(|inner, now| inner.machine.take_back(now, run, &idle));
            self.shared.withdraw(back).await?;
        }
        Ok(())
    }

    /// Goes on with a paused run.
    pub fn resume(&self, run: &RunId) {
        self.shared.step(|inner, _| inner.machine.resume(run));
    }

    /// Says what live workers offer: the size of the window follows it.
    pub fn set_capacity(&self, offers: &[Offer]) {
        self.shared
            .step(|inner, _| inner.machine.set_capacity(offers));
    }

    /// Returns where all jobs are.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.shared.lock().machine.standing()
    }

    /// Returns the jobs that `is_meant`, with the runs that want each.
    pub fn wanted(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<(Key, Vec<RunId>)> {
        self.shared.lock().machine.wanted(is_meant)
    }

    /// Ends the task that fills the queue, and waits for it. Runs are told that their jobs were
    /// cancelled, and cannot submit any more; jobs that are in the queue stay there for whoever
    /// takes the runs over.
    pub async fn close(&self) {
        self.shared.close();
        let mut tasks = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *tasks)
        };
        while tasks.join_next().await.is_some() {}
    }
}
