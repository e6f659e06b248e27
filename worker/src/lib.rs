//! A stateless worker: takes jobs, runs them, keeps the lease, drains.
//!
//! It knows models and benchmarks, never runs or scores of runs. It decides what a failure means
//! for its job (try again later, give up) and leaves what that means for the run to the run.
//! Start at [`Worker::run`]: loops take jobs (`lease`), each delivery is run and told (`deliver`),
//! and a thread of its own renews leases and gives signs of life (`pulse`).

mod beat;
mod blobs;
mod calls;
mod check;
mod deliver;
mod execute;
mod health;
mod hedge;
mod held;
mod lacks;
mod lease;
mod lifeline;
mod meter;
mod metrics;
mod model;
mod offers;
mod ops;
mod patience;
mod pulse;
mod settings;
mod shift;
mod stop;
mod target;
#[cfg(test)]
mod tests;

use std::net::TcpListener;
use std::sync::Arc;

use skillopt_queue::{Queue, Store};

pub use lifeline::{Connect, Connecting, Lifeline};
pub use meter::Meter;
pub use model::{ModelFactory, Unusable};
pub use offers::lanes;
pub use settings::{Place, Settings};

use crate::blobs::Blobs;
use crate::metrics::Metrics;

/// Hears what people should know: a line for each change for the worse or the better.
pub type Teller = Arc<dyn Fn(&str) + Send + Sync>;

/// A worker.
pub struct Worker {
    settings: Settings,
    queue: Arc<dyn Queue>,
    blobs: Blobs,
    metrics: Metrics,
    meter: Option<Arc<Meter>>,
    connect: Connect,
    ops: Option<TcpListener>,
    teller: Option<Teller>,
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
        let own = Lifeline {
            queue: Arc::clone(&queue),
            board: None,
        };
        Self {
            blobs: Blobs::new(store, models, &settings),
            settings,
            queue,
            metrics: Metrics::new(),
            meter: None,
            connect: Arc::new(move || Box::pin(std::future::ready(Ok(own.clone())))),
            ops: None,
            teller: None,
        }
    }

    /// Renews leases and gives signs of life through connections that nothing else uses, so that
    /// no work can hold them up.
    #[must_use]
    pub fn with_lifeline(mut self, connect: Connect) -> Self {
        self.connect = connect;
        self
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` on `listener` while it runs.
    #[must_use]
    pub fn with_ops(mut self, listener: TcpListener) -> Self {
        self.ops = Some(listener);
        self
    }

    /// Makes calls under caps and rates.
    #[must_use]
    pub fn with_meter(mut self, meter: Meter) -> Self {
        self.meter = Some(Arc::new(meter));
        self
    }

    /// Tells `teller` what people should know.
    #[must_use]
    pub fn with_teller(mut self, teller: Teller) -> Self {
        self.teller = Some(teller);
        self
    }

    fn tell(&self, text: &str) {
        if let Some(teller) = &self.teller {
            teller(text);
        }
    }
}
