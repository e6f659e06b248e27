//! A stateless worker: takes jobs, runs them, keeps the lease, drains.
//!
//! It knows models and benchmarks, never runs or scores of runs. It decides what a failure means
//! for its job (try again later, give up) and leaves what that means for the run to the run.
//! Start at [`Worker::run`].

mod blobs;
mod calls;
mod execute;
mod lease;
mod metrics;
mod model;
mod offers;
mod settings;
mod stop;
mod target;

use std::sync::Arc;

use skillopt_queue::{Queue, Store};

pub use model::{ModelFactory, Unusable};
pub use offers::{CHAT_LANE, lanes};
pub use settings::{Place, Settings};

use crate::blobs::Blobs;
use crate::metrics::Metrics;

/// A worker.
pub struct Worker {
    settings: Settings,
    queue: Arc<dyn Queue>,
    blobs: Blobs,
    metrics: Metrics,
}

impl Worker {
    /// Makes a worker of `queue`; it does nothing before [`Worker::run`].
    #[must_use]
    pub fn new(
        settings: Settings,
        queue: Arc<dyn Queue>,
        store: Arc<dyn Store>,
        models: ModelFactory,
    ) -> Self {
        let blobs = Blobs::new(store, models, settings.cache_bytes);
        Self {
            settings,
            queue,
            blobs,
            metrics: Metrics::new(),
        }
    }
}
