//! What a run in this process may spend, and what it has spent in earlier processes.

use std::sync::Arc;

use skillopt_config::RunConfig;
use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::{Halt, payers};
use skillopt_queue::ledger::{Amount, Ledger};
use skillopt_queue::{MemoryLedger, SystemClock};
use skillopt_worker::Meter;

use crate::failure::Failure;

/// Where it is written down, in the run folder.
const FILE: &str = ".skillopt/spent.json";

/// The purse of a run.
pub(crate) struct Purse {
    ledger: MemoryLedger,
    name: String,
}

impl Purse {
    /// Opens the purse of `run`; there is none if nothing is capped and no call is made twice.
    ///
    /// # Errors
    /// What was spent earlier cannot be read.
    pub(crate) fn open(
        config: &RunConfig,
        folder: &RunFolder,
        run: &str,
    ) -> Result<Option<Self>, Failure> {
        let caps = payers::caps(config);
        if caps.is_none() && config.hedge == 0.0 {
            return Ok(None);
        }
        let spent = match std::fs::read(folder.root().join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                Failure::usage(format!(
                    "`{FILE}` of the run is damaged ({e}); remove it to count from zero"
                ))
            })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Amount::default(),
            Err(e) => return Err(e.into()),
        };
        let name = format!("run/{run}");
        let ledger = MemoryLedger::new(Arc::new(SystemClock::new()));
        Ok(Some(Self {
            ledger: ledger.with_purse(&name, caps, spent),
            name,
        }))
    }

    /// Makes calls under this purse.
    pub(crate) fn meter(&self) -> Meter {
        Meter::new("local", Arc::new(self.ledger.clone()), None)
    }

    /// Writes down what was spent; with what is held for calls under way if they may be lost.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) async fn write(&self, folder: &RunFolder, with_held: bool) -> Result<(), Halt> {
        let balances = self.ledger.balances(std::slice::from_ref(&self.name)).await;
        let balances = balances.map_err(Halt::infrastructure)?;
        for balance in balances {
            let held = if with_held {
                balance.reserved
            } else {
                Amount::default()
            };
            folder.json(FILE, &balance.spent.plus(held))?;
        }
        Ok(())
    }
}
