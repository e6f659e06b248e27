//! What a sweep needs of the runs around it.

use std::sync::Arc;

use async_trait::async_trait;
use skillopt_core::Hash;
use skillopt_core::job::Price;
use skillopt_queue::RunId;

use crate::prepare::Prepared;
use crate::sample::Sample;
use crate::session::Common;

/// What a run of a sweep does with its bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Train.
    Train,
    /// Score a skill on the bundle's test items.
    Evaluate {
        /// Blob of the skill folder, in place of the bundle's own.
        skill: Hash,
    },
}

/// A run that a sweep asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The same key again is the same run.
    pub client_key: String,
    /// Shown to people.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// Who submitted the sweep.
    pub owner: String,
    /// The inputs.
    pub bundle: Hash,
    /// What to do with them.
    pub what: What,
    /// The sweep: its group for the scheduler, and one of its purses.
    pub sweep: String,
    /// The cell.
    pub cell: String,
    /// Share of the sweep against other runs of the tenant.
    pub weight: u32,
    /// Whether the sweep has a cap, so that each call is reserved in its purse before it is made.
    pub capped: bool,
}

/// What a person wants of a run or a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// It goes on.
    #[default]
    Run,
    /// It waits.
    Pause,
    /// It ends for good.
    Cancel,
}

/// How a run stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNow {
    /// State in words; see [`crate::read_model::is_over`].
    pub state: String,
    /// Why it is paused or failed.
    pub cause: String,
    /// `budget`, `provider`, `infrastructure`, `data` or `person`, if paused or failed.
    pub cause_class: String,
    /// Milliseconds since 1970 by the board's clock, 0 if not yet.
    pub started_ms: u64,
    /// As `started_ms`.
    pub ended_ms: u64,
    /// The read model's row as JSON, or empty.
    pub row_json: String,
}

/// What the results need to know about a bundle.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// What all jobs of a run of this bundle share.
    pub common: Common,
    /// The test items that its runs are scored on, in order.
    pub test: Vec<Sample>,
    /// Blob of the first skill.
    pub initial: Hash,
    /// Prices of the target's and of the optimizer's model, where known.
    pub prices: [Option<Price>; 2],
}

impl Inputs {
    /// Takes what the results need out of a training.
    #[must_use]
    pub fn of(prepared: &Prepared) -> Self {
        let payers = [
            &prepared.common.payers.target,
            &prepared.common.payers.optimizer,
        ];
        let test = prepared.plan.scored_items();
        Self {
            common: prepared.common.clone(),
            test: test.into_iter().cloned().collect(),
            initial: prepared.plan.initial.hash(),
            prices: payers.map(|payer| payer.as_ref().and_then(|payer| payer.price)),
        }
    }
}

/// Why runs did not do what a sweep asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// This request can never be met, e.g. a bundle that was not uploaded.
    #[error("{0}")]
    Refused(String),
    /// Not now; the same request may be made again.
    #[error("{0}")]
    Unavailable(String),
}

/// The runs of the cluster, as a sweep sees them.
#[async_trait]
pub trait Runs: Send + Sync + 'static {
    /// Takes a run and returns its id. The same `client_key` answers with the run of the first time.
    ///
    /// # Errors
    /// See [`Error`].
    async fn submit(&self, run: NewRun) -> Result<String, Error>;

    /// Returns how runs stand, in order; `None` for one that is not known.
    ///
    /// # Errors
    /// See [`Error`].
    async fn get(&self, ids: &[String]) -> Result<Vec<Option<RunNow>>, Error>;

    /// Sets what is wanted of a run; for one that has ended nothing happens.
    ///
    /// # Errors
    /// See [`Error`].
    async fn set_wish(&self, id: &str, wish: Wish) -> Result<(), Error>;

    /// Returns the name under which the store has a run's log.
    fn log(&self, id: &str) -> RunId;

    /// Opens a bundle.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not there or cannot be used.
    async fn inputs(&self, bundle: Hash) -> Result<Arc<Inputs>, Error>;
}
