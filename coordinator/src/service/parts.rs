//! The implementations that a coordinator works with, as the composition root chose them.

use std::path::Path;
use std::sync::Arc;

use skillopt_queue::{Board, Clock, Ledger, Queue, Rates, Store, store};

/// Makes a store in a file, for `skillopt replay` of a run that was made elsewhere.
pub type StoreMaker = Arc<dyn Fn(&Path) -> Result<Arc<dyn Store>, store::Error> + Send + Sync>;

/// What all parts of a coordinator share; cheap to clone.
#[derive(Clone)]
pub struct Parts {
    /// Blobs, results and logs.
    pub store: Arc<dyn Store>,
    /// Jobs.
    pub queue: Arc<dyn Queue>,
    /// Runs, workers, tokens.
    pub board: Arc<dyn Board>,
    /// Spend.
    pub ledger: Arc<dyn Ledger>,
    /// Provider accounts.
    pub rates: Arc<dyn Rates>,
    /// Time, for waits of this process.
    pub clock: Arc<dyn Clock>,
    /// For downloads with all answers.
    pub export: StoreMaker,
}
