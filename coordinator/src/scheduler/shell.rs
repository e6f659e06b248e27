//! The scheduler as others see it.

use std::sync::Arc;

use skillopt_queue::{Clock, Queue, RunId, Store};

use super::share::{Limits, Offer, RunShare};
use super::standing::Standing;

/// Hands the jobs of many runs to one queue, fairly.
pub struct Scheduler {}

impl Scheduler {
    /// Starts a scheduler in front of `queue`, whose results are kept in `store`. Needs a tokio
    /// runtime; [`Scheduler::close`] ends its task.
    #[must_use]
    pub fn start(
        queue: Arc<dyn Queue>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Self {
        todo!()
    }

    /// Returns the queue that a run's session uses. When the last handle of a run is dropped, its
    /// waiting jobs are forgotten; those in the queue go on.
    #[must_use]
    pub fn handle(&self, share: RunShare) -> Arc<dyn Queue> {
        todo!()
    }

    /// Changes a run's weight and priority from now on.
    pub fn reshare(&self, share: RunShare) {
        todo!()
    }

    /// Releases nothing more of a run, and takes back what no worker has begun. Running jobs go on.
    pub async fn pause(&self, run: &RunId) {
        todo!()
    }

    /// Goes on with a paused run.
    pub fn resume(&self, run: &RunId) {
        todo!()
    }

    /// Says what live workers offer: the size of the window follows it.
    pub fn set_capacity(&self, offers: &[Offer]) {
        todo!()
    }

    /// Returns where all jobs are.
    #[must_use]
    pub fn standing(&self) -> Standing {
        todo!()
    }

    /// Ends the task that fills the queue, and waits for it. Submissions fail from now on; jobs
    /// that are in the queue stay there for whoever takes the runs over.
    pub async fn close(&self) {
        todo!()
    }
}
