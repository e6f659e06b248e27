//! Running cells again that were lost.

use std::collections::BTreeMap;

use super::desk::{Caller, Sweeps};
use super::error::Error;
use super::gather::stands;
use super::record::{Cell, Sweep};
use super::runs::Wish;

impl Sweeps {
    /// Runs cells again that failed or were cancelled: those named, or all. Repeating the call for
    /// cells that wait already changes nothing.
    ///
    /// # Errors
    /// A named cell is unknown or neither failed nor cancelled, or there is none to run again.
    pub async fn retry(&self, caller: &Caller, id: &str, names: &[String]) -> Result<Sweep, Error> {
        let (sweep, _) = self.resolve(caller, id).await?;
        let (now, _) = self.gather.standing(&sweep).await?;
        let is_lost = |at: usize, cell: &Cell| {
            let (state, _) = stands(cell, now.get(at).and_then(Option::as_ref));
            matches!(state.as_str(), "failed" | "cancelled")
        };
        let mut wanted = BTreeMap::new();
        for name in names {
            let Some(at) = sweep.cells.iter().position(|cell| cell.name == *name) else {
                let all = sweep.cells.iter().map(|cell| cell.name.as_str());
                let near = skillopt_config::suggest::nearest(name, all);
                let hint =
                    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(Error::Invalid(format!(
                    "the sweep has no cell `{name}`{hint}"
                )));
            };
            let Some(cell) = sweep.cells.get(at) else {
                continue;
            };
            if is_lost(at, cell) {
                wanted.insert(at, cell.attempt);
            } else if cell.run.is_some() || cell.attempt == 0 {
                let (state, _) = stands(cell, now.get(at).and_then(Option::as_ref));
                return Err(Error::Precondition(format!(
                    "cell `{name}` is {state}; only failed and cancelled cells are run again"
                )));
            }
        }
        if names.is_empty() {
            let lost = sweep
                .cells
                .iter()
                .enumerate()
                .filter(|(at, cell)| is_lost(*at, cell));
            wanted.extend(lost.map(|(at, cell)| (at, cell.attempt)));
        }
        let had_checks_lost = sweep.checks.iter().any(|check| check.refused.is_some());
        let is_waiting = sweep
            .cells
            .iter()
            .any(|cell| cell.attempt > 0 && cell.run.is_none());
        if wanted.is_empty() && !had_checks_lost && !is_waiting {
            return Err(Error::Precondition(
                "no cell failed or was cancelled, so there is nothing to run again".to_owned(),
            ));
        }
        self.change(caller, &sweep.id, |sweep| {
            for (at, attempt) in &wanted {
                // Somebody else may have done it meanwhile.
                if let Some(cell) = sweep
                    .cells
                    .get_mut(*at)
                    .filter(|cell| cell.attempt == *attempt)
                {
                    cell.attempt += 1;
                    cell.run = None;
                    cell.refused = None;
                    cell.initial = None;
                    cell.best = None;
                    cell.over = false;
                }
            }
            sweep.round += 1;
            sweep.checks.retain(|check| check.refused.is_none());
            sweep.wish = Wish::Run;
            sweep.untold = false;
            sweep.ended_ms = 0;
            sweep.results = None;
            Ok(())
        })
        .await
    }
}
