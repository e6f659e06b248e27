//! What a run in this process may spend, what it has spent in earlier processes, and how fast the
//! accounts of providers bear its calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skillopt_config::RunConfig;
use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::{Halt, payers};
use skillopt_queue::ledger::{Amount, Caps, Ledger, Tally};
use skillopt_queue::rates::{Account, Rates};
use skillopt_queue::{Clock, MemoryLedger, MemoryRates, SystemClock};
use skillopt_runtime::Retry;
use skillopt_worker::Meter;

use crate::failure::Failure;
use crate::spent::{Spent, Used};

/// The purse of a run.
pub(crate) struct Purse {
    ledger: MemoryLedger,
    rates: MemoryRates,
    name: String,
    caps: Caps,
    /// What calls of earlier processes were for.
    earlier: Tally,
    /// See [`Meter::with_failing_max`].
    failing_max: Duration,
    /// What was written down last.
    written: Mutex<Option<Spent>>,
}

impl Purse {
    /// Opens the purse of `run`.
    ///
    /// # Errors
    /// What was spent earlier cannot be read.
    pub(crate) fn open(config: &RunConfig, folder: &RunFolder, run: &str) -> Result<Self, Failure> {
        let spent = Spent::read(folder)?.unwrap_or_default();
        let (name, caps) = (format!("run/{run}"), payers::caps(config));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ledger = MemoryLedger::new(Arc::clone(&clock));
        Ok(Self {
            ledger: ledger.with_purse(&name, caps, spent.amount),
            rates: MemoryRates::new(clock),
            name,
            caps,
            earlier: spent.tally(),
            failing_max: tried_for(config),
            written: Mutex::default(),
        })
    }

    /// Makes calls under this purse, as fast as the accounts bear them.
    pub(crate) fn meter(&self) -> Meter {
        let rates: Arc<dyn Rates> = Arc::new(self.rates.clone());
        let meter = Meter::new("local", Arc::new(self.ledger.clone()), Some(rates));
        meter.with_failing_max(self.failing_max)
    }

    /// Returns how the accounts are doing that were in trouble lately.
    pub(crate) async fn accounts(&self) -> Vec<Account> {
        // In memory they can always be reached.
        self.rates.accounts().await.unwrap_or_default()
    }

    /// Writes down what was spent; with what is held for calls under way if they may be lost.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) async fn write(&self, folder: &RunFolder, with_held: bool) -> Result<(), Halt> {
        let purse = std::slice::from_ref(&self.name);
        let balances = self.ledger.balances(purse).await;
        let tallies = self.ledger.tallies(purse).await;
        let balances = balances.map_err(Halt::infrastructure)?;
        let balance = balances.first().copied().unwrap_or_default();
        let held = match with_held {
            true => balance.reserved,
            false => Amount::default(),
        };
        let mut tally = self.earlier.clone();
        for new in tallies.map_err(Halt::infrastructure)? {
            tally.join(&new);
        }
        let spent = Spent {
            amount: balance.spent.plus(held),
            held,
            caps: self.caps,
            uses: Used::rows(&tally),
        };
        // No section under this lock can panic half-way.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.as_ref() != Some(&spent) {
            spent.write(folder)?;
            *written = Some(spent);
        }
        Ok(())
    }
}

/// Returns how long a job tries by itself at an address where nobody is. An account that answers
/// nothing is not waited for any longer, though its jobs wait while it is in trouble.
fn tried_for(config: &RunConfig) -> Duration {
    let retry = Retry {
        attempts: config.retry_attempts,
        base: Duration::from_millis(config.retry_base_ms),
        cap: Duration::from_millis(config.retry_cap_ms),
    };
    let waits = (1..config.retry_attempts).filter_map(|failures| retry.wait(failures, None, 1.0));
    waits.fold(Duration::ZERO, Duration::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_tries_for_as_long_as_its_waits() {
        let config = |attempts, base, cap| RunConfig {
            retry_attempts: attempts,
            retry_base_ms: base,
            retry_cap_ms: cap,
            ..RunConfig::default()
        };
        for (attempts, base, cap, seconds) in [
            (1, 500, 30_000, 0.0),
            (4, 500, 30_000, 3.5),
            (8, 500, 30_000, 61.5),
            (3, 4_000, 5_000, 9.0),
        ] {
            let tried = tried_for(&config(attempts, base, cap));
            assert_eq!(tried, Duration::from_secs_f64(seconds), "{attempts}");
        }
    }
}
