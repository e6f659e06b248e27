//! Runs as rows of the read model, with what only their coordinator or the ledger knows.

use skillopt_queue::RunId;

use super::error::Error;
use super::live::Live;
use super::parts::Parts;
use super::purse;
use super::record::{RunRecord, State};
use crate::log;
use crate::read_model::{LedgerRow, RunView};

/// Makes rows; clones share everything.
#[derive(Clone)]
pub struct Rows {
    parts: Parts,
    live: Live,
}

impl Rows {
    /// Makes rows of runs in `parts`.
    #[must_use]
    pub fn new(parts: Parts, live: Live) -> Self {
        Self { parts, live }
    }

    /// Returns all rows of a run.
    ///
    /// # Errors
    /// Its log or the ledger cannot be read.
    pub async fn of(&self, run: &RunRecord) -> Result<RunView, Error> {
        let store = self.parts.store.as_ref();
        let events = log::read(store, &RunId::new(&run.id)).await;
        let events = events.map_err(|e| Error::Unavailable(e.to_string()))?;
        let mut view = RunView::of(&run.id, &events);
        let live = self.live.get(&run.id);
        view.stands(&state_words(run), live.and_then(|live| live.baseline_in()));
        let purse = purse::run(&run.id);
        let balance = self
            .parts
            .ledger
            .balances(std::slice::from_ref(&purse))
            .await?;
        if let Some(balance) = balance.first() {
            view.spends(&LedgerRow::of(&purse, balance));
        }
        Ok(view)
    }
}

/// Returns how a run stands, with who or what stopped it.
#[must_use]
pub fn state_words(run: &RunRecord) -> String {
    match (run.state, run.cause_class.as_str()) {
        (State::Paused, "person" | "") => "paused (by hand)".to_owned(),
        (State::Paused, class) => format!("paused ({class})"),
        (state, _) => state.word().to_owned(),
    }
}

/// Returns a run's row as JSON. An evaluation has a row of its own kind once it is measured.
///
/// # Errors
/// It cannot be written.
pub fn json(run: &RunRecord, view: &RunView) -> Result<String, Error> {
    let text = match &view.evaluation {
        Some(evaluation) if run.kind == "eval" => serde_json::to_string(evaluation),
        _ => serde_json::to_string(&view.run),
    };
    text.map_err(|e| Error::Internal(e.to_string()))
}
