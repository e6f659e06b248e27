//! What the calls of the last minutes cost, by tenant: the ledger says what was spent in all, and
//! this remembers what it said before.

use std::collections::{BTreeMap, VecDeque};

use skillopt_queue::{Board, Ledger};

use super::error::Error;
use super::purse;
use super::table::tenants;

/// Time between two looks at the ledger.
const EVERY_MS: u64 = 10_000;
/// How far back it goes.
const SPAN_MS: u64 = 600_000;
/// Tenants that are counted.
const TENANTS_MAX: usize = 1_000;

/// Millionths of a dollar that a tenant has spent; nothing if a price is unknown.
type Spent = BTreeMap<String, Option<u64>>;

/// What was spent, and when it was looked.
#[derive(Debug, Default)]
pub(super) struct Costs(VecDeque<(u64, Spent)>);

impl Costs {
    /// Whether it is time to look.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let last = self.0.back().map(|(at, _)| *at);
        last.is_none_or(|at| now_ms.saturating_sub(at) >= EVERY_MS)
    }

    /// Remembers what was spent until now.
    pub(super) fn add(&mut self, now_ms: u64, spent: Spent) {
        self.0.push_back((now_ms, spent));
        while self.0.front().is_some_and(|(at, _)| at + SPAN_MS < now_ms) {
            self.0.pop_front();
        }
    }

    /// Returns the dollars that an hour costs at the pace of the last minutes, for one tenant or all
    /// of them; nothing if a price is unknown, or nobody has looked twice yet.
    pub(super) fn usd_an_hour(&self, tenant: Option<&str>) -> Option<f64> {
        let ((from, before), (to, now)) = (self.0.front()?, self.0.back()?);
        let span_ms = to.checked_sub(*from).filter(|span| *span > 0)?;
        let mut micro_usd = 0;
        let is_meant = |name: &str| tenant.is_none_or(|tenant| tenant == name);
        for (_, spent) in now.iter().filter(|(name, _)| is_meant(name)) {
            micro_usd += (*spent)?;
        }
        for (_, spent) in before.iter().filter(|(name, _)| is_meant(name)) {
            // One that became unknown since is unknown now.
            micro_usd = micro_usd.saturating_sub((*spent)?);
        }
        #[expect(clippy::cast_precision_loss, reason = "a pace for people")]
        let pace = micro_usd as f64 / 1e6 * 3_600_000.0 / span_ms as f64;
        Some(pace)
    }
}

/// Asks the ledger what tenants have spent.
///
/// # Errors
/// The board or the ledger cannot be reached.
pub(super) async fn spent(board: &dyn Board, ledger: &dyn Ledger) -> Result<Spent, Error> {
    let tenants = tenants(board, TENANTS_MAX).await?;
    let purses: Vec<String> = tenants.iter().map(|name| purse::tenant(name)).collect();
    let balances = ledger.balances(&purses).await?;
    let known =
        |b: &skillopt_queue::ledger::Balance| (!b.has_unpriced).then_some(b.spent.micro_usd);
    Ok(tenants
        .into_iter()
        .zip(balances.iter().map(known))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_the_last_minutes() {
        let spent = |a: Option<u64>, b: Option<u64>| {
            Spent::from([("a".to_owned(), a), ("b".to_owned(), b)])
        };
        let mut costs = Costs::default();
        costs.add(0, spent(Some(5_000_000), Some(0)));
        assert_eq!(costs.usd_an_hour(None), None, "one look says nothing");
        assert!(!costs.is_due(9_999) && costs.is_due(10_000));
        costs.add(60_000, spent(Some(6_000_000), Some(500_000)));
        assert_eq!(costs.usd_an_hour(None), Some(90.0));
        assert_eq!(costs.usd_an_hour(Some("b")), Some(30.0));
        assert_eq!(costs.usd_an_hour(Some("c")), Some(0.0));
        // What lies further back does not count.
        costs.add(660_000, spent(Some(6_000_000), None));
        assert_eq!(costs.usd_an_hour(Some("a")), Some(0.0));
        assert_eq!(costs.usd_an_hour(None), None, "a price is unknown");
    }
}
