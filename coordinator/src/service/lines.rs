//! The way of a run's jobs into the queue: through the scheduler, which shares it out.

use std::sync::Arc;

use skillopt_queue::queue::Which;
use skillopt_queue::{Priority, Queue, RunId};

use super::parts::Parts;
use super::record::RunRecord;
use crate::scheduler::{Limits, Offer, RunShare, Scheduler};

/// Where runs submit their jobs; clones share it.
#[derive(Clone)]
pub struct Lines {
    queue: Arc<dyn Queue>,
    scheduler: Arc<Scheduler>,
}

impl Lines {
    /// Starts a scheduler in front of the queue. Needs a tokio runtime.
    #[must_use]
    pub fn start(parts: &Parts, limits: Limits) -> Self {
        let (queue, store) = (Arc::clone(&parts.queue), Arc::clone(&parts.store));
        let clock = Arc::clone(&parts.clock);
        let scheduler = Scheduler::start(Arc::clone(&queue), store, clock, limits);
        Self {
            queue,
            scheduler: Arc::new(scheduler),
        }
    }

    /// Returns the queue that a run's session uses.
    #[must_use]
    pub fn of(&self, run: &RunRecord) -> Arc<dyn Queue> {
        let id = RunId::new(&run.id);
        // It may have been paused here before.
        self.scheduler.resume(&id);
        self.scheduler.handle(RunShare {
            tenant: run.tenant.clone(),
            group: if run.sweep.is_empty() {
                run.id.clone()
            } else {
                run.sweep.clone()
            },
            weight: run.weight,
            priority: Priority::new(run.priority),
            run: id,
        })
    }

    /// Returns the scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Says what live workers offer.
    pub fn set_capacity(&self, offers: &[Offer]) {
        self.scheduler.set_capacity(offers);
    }

    /// Takes back what no worker has begun; what is under way is paid for and goes on.
    pub async fn pause(&self, run: &RunId) {
        // Jobs that stay are run for the store, at worst.
        drop(self.scheduler.pause(run).await);
    }

    /// Takes back what no worker has begun of a run that nobody works on.
    pub async fn clear(&self, run: &RunId) {
        // Jobs that stay are run for the store, at worst.
        drop(self.queue.cancel(run, Which::Idle).await);
    }

    /// Takes back all jobs of a run, those under way too.
    pub async fn withdraw(&self, run: &RunId) {
        drop(self.queue.cancel(run, Which::All).await);
    }

    /// Ends the scheduler.
    pub async fn close(&self) {
        self.scheduler.close().await;
    }
}
