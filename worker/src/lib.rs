//! A stateless worker: takes jobs, runs them, keeps the lease, drains.
//!
//! It knows models and benchmarks, never runs or scores of runs. It decides what a failure means
//! for its job (try again later, give up) and leaves what that means for the run to the run.
//! Start at [`Worker::run`].

mod blobs;
mod execute;
mod lease;
mod stop;
mod target;

use std::sync::Arc;
use std::time::Duration;

use skillopt_backends::{CallError, ChatModel};
use skillopt_core::job::Profile;
use skillopt_queue::{Lane, Queue, Store};

use crate::blobs::Blobs;

/// The lane of chat calls and of rollouts that only call chat models.
pub const CHAT_LANE: &str = "chat";

/// Makes the client of a model; the composition root supplies it, with the credentials.
pub type ModelFactory =
    Arc<dyn Fn(&Profile) -> Result<Arc<dyn ChatModel>, CallError> + Send + Sync>;

/// What a worker needs to be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in evidence and lists.
    pub name: Arc<str>,
    /// Jobs that it runs at the same time.
    pub slots: usize,
    /// How long a lease lasts unless renewed.
    pub lease_ttl: Duration,
    /// Memory for items, skills and prompts, in bytes.
    pub cache_bytes: usize,
}

impl Settings {
    /// Returns the settings of a worker with `slots` slots inside one process.
    #[must_use]
    pub fn local(slots: usize) -> Self {
        Self {
            name: "local".into(),
            slots: slots.max(1),
            lease_ttl: Duration::from_secs(60),
            cache_bytes: 8 << 20,
        }
    }
}

/// A worker.
pub struct Worker {
    settings: Settings,
    queue: Arc<dyn Queue>,
    blobs: Blobs,
    lanes: Vec<Lane>,
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
            lanes: vec![Lane::new(CHAT_LANE)],
        }
    }
}
