//! The connections of a worker's pulse.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use skillopt_queue::{Board, Queue, store};

/// What renewals and signs of life go through: connections that nothing else uses.
#[derive(Clone)]
pub struct Lifeline {
    /// The worker's queue.
    pub queue: Arc<dyn Queue>,
    /// Where workers are listed, if anywhere.
    pub board: Option<Arc<dyn Board>>,
}

/// Opens a lifeline. It is called on the thread that uses it, so that whatever it starts runs
/// there; it is called again if it fails.
pub type Connect = Arc<dyn Fn() -> Connecting + Send + Sync>;

/// The future of [`Connect`].
pub type Connecting = Pin<Box<dyn Future<Output = Result<Lifeline, store::Error>> + Send>>;
