//! What was used and not told to the ledger yet.

use std::collections::BTreeMap;

use skillopt_core::job::Payer;
use skillopt_queue::ledger::{Amount, Settlement, Tally};

use super::cost::purses;

/// Settlements that may wait; with more of them no further call is made.
const WAITING_MAX: usize = 10_000;

/// What was used and not told yet.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Ends of reservations, one by one.
    reserved: Vec<Settlement>,
    /// Calls without a reservation: one sum for all of one payer; `true` if the price is unknown.
    /// What they were for is told in sums of all calls.
    free: BTreeMap<(Vec<String>, bool), (Amount, Tally)>,
    /// Batches that could not be told.
    kept: Vec<Settlement>,
}

impl Gathered {
    pub(super) fn add(&mut self, id: &str, payer: &Payer, used: Amount, tally: &Tally) {
        let (purses, is_unpriced) = (purses(payer), payer.price.is_none());
        if payer.is_capped {
            self.reserved.push(Settlement {
                id: id.to_owned(),
                purses: purses.clone(),
                is_reserved: true,
                used,
                is_unpriced,
                tally: Tally::default(),
            });
        }
        let (sum, uses) = self.free.entry((purses, is_unpriced)).or_default();
        uses.join(tally);
        if !payer.is_capped {
            *sum = sum.plus(used);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.reserved.len() + self.free.len() + self.kept.len() > WAITING_MAX
    }

    pub(super) fn take_reserved(&mut self) -> Vec<Settlement> {
        std::mem::take(&mut self.reserved)
    }

    /// Takes everything; `batch` names the sums.
    pub(super) fn take_all(&mut self, batch: &str) -> Vec<Settlement> {
        let mut all = std::mem::take(&mut self.kept);
        all.append(&mut self.reserved);
        let sums = std::mem::take(&mut self.free).into_iter().enumerate();
        all.extend(
            sums.map(|(i, ((purses, is_unpriced), (used, tally)))| Settlement {
                id: format!("{batch}/{i}"),
                purses,
                is_reserved: false,
                used,
                is_unpriced,
                tally,
            }),
        );
        all
    }

    /// Takes back what could not be told.
    pub(super) fn keep(&mut self, done: Vec<Settlement>) {
        self.kept.extend(done);
    }
}
