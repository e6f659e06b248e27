//! A ledger in the memory of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::machine::Machine;
use super::{Amount, Balance, Caps, Ledger, Reservation, Reserved, Settlement, Tally};
use crate::clock::Clock;
use crate::store;

/// Keeps purses in memory; they end with the process. Clones share them.
#[derive(Clone)]
pub struct MemoryLedger {
    clock: Arc<dyn Clock>,
    machine: Arc<Mutex<Machine>>,
}

impl MemoryLedger {
    /// Makes a ledger without purses that judges time by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let machine = Arc::default();
        Self { clock, machine }
    }

    /// Begins with a purse that has `caps` and has `spent` already, in an earlier process.
    #[must_use]
    pub fn with_purse(self, purse: &str, caps: Caps, spent: Amount) -> Self {
        {
            let mut machine = self.lock();
            machine.set_caps(purse, caps);
            let earlier = Settlement {
                id: format!("earlier {purse}"),
                purses: vec![purse.to_owned()],
                is_reserved: false,
                used: spent,
                is_unpriced: false,
                tally: Tally::default(),
            };
            machine.settle(self.clock.now(), &earlier);
        }
        self
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        // No critical section can panic half-way, so a poisoned lock is still consistent.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn set_caps(&self, purse: &str, caps: Caps) -> Result<(), store::Error> {
        self.lock().set_caps(purse, caps);
        Ok(())
    }

    async fn reserve(&self, asked: &[Reservation]) -> Result<Vec<Reserved>, store::Error> {
        let mut machine = self.lock();
        let now = self.clock.now();
        Ok(asked.iter().map(|a| machine.reserve(now, a)).collect())
    }

    async fn settle(&self, done: &[Settlement]) -> Result<(), store::Error> {
        let mut machine = self.lock();
        let now = self.clock.now();
        done.iter().for_each(|d| machine.settle(now, d));
        Ok(())
    }

    async fn balances(&self, purses: &[String]) -> Result<Vec<Balance>, store::Error> {
        Ok(self.lock().balances(self.clock.now(), purses))
    }

    async fn tallies(&self, purses: &[String]) -> Result<Vec<Tally>, store::Error> {
        Ok(self.lock().tallies(purses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestClock;
    use crate::conformance::LedgerRig;

    async fn make() -> LedgerRig {
        let clock = TestClock::new();
        LedgerRig {
            ledger: Arc::new(MemoryLedger::new(Arc::new(clock.clone()))),
            clock,
            keep: Box::new(()),
        }
    }

    crate::conformance_ledger!(make);
}
