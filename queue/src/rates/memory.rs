//! Rates in the memory of this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::machine::Machine;
use super::{Account, Ask, Go, Limits, Outcome, Rates};
use crate::clock::Clock;
use crate::store;

/// Shares the rates of accounts inside this process. Clones share them.
#[derive(Clone)]
pub struct MemoryRates {
    clock: Arc<dyn Clock>,
    accounts: Arc<Mutex<BTreeMap<String, Machine>>>,
}

impl MemoryRates {
    /// Makes rates without accounts that judge time by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let accounts = Arc::default();
        Self { clock, accounts }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Machine>> {
        // No critical section can panic half-way, so a poisoned lock is still consistent.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Rates for MemoryRates {
    async fn set_limits(&self, account: &str, limits: Limits) -> Result<(), store::Error> {
        let mut accounts = self.lock();
        let account = accounts.entry(account.to_owned()).or_default();
        account.set_limits(limits);
        Ok(())
    }

    async fn ask(&self, asked: &[Ask]) -> Result<Vec<Go>, store::Error> {
        let mut accounts = self.lock();
        let now = self.clock.now();
        let mut answer = |ask: &Ask| {
            accounts
                .entry(ask.account.clone())
                .or_default()
                .ask(now, ask)
        };
        Ok(asked.iter().map(&mut answer).collect())
    }

    async fn report(&self, done: &[(String, String, Outcome)]) -> Result<(), store::Error> {
        let mut accounts = self.lock();
        let now = self.clock.now();
        for (name, call, outcome) in done {
            let account = accounts.entry(name.clone()).or_default();
            account.report(now, name, call, *outcome);
        }
        Ok(())
    }

    async fn accounts(&self) -> Result<Vec<Account>, store::Error> {
        let mut accounts = self.lock();
        let now = self.clock.now();
        accounts.retain(|name, account| !account.is_idle(now, name));
        let views = accounts.iter_mut();
        Ok(views.filter_map(|(n, a)| a.view(now, n)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestClock;
    use crate::conformance::RatesRig;

    async fn make() -> RatesRig {
        let clock = TestClock::new();
        RatesRig {
            rates: Arc::new(MemoryRates::new(Arc::new(clock.clone()))),
            clock,
            keep: Box::new(()),
        }
    }

    crate::conformance_rates!(make);
}
