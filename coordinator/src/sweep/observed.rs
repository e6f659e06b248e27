//! What depends on when and by whom a sweep was run: times, and who paid. Kept apart from the
//! results, which do not.

use serde::{Deserialize, Serialize};
use skillopt_queue::ledger::Balance;

/// Times and payments (`timings.json` of a sweep).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The sweep.
    pub sweep: String,
    /// Milliseconds since 1970 by the board's clock.
    pub submitted_ms: u64,
    /// When it ended; absent while it goes on.
    pub ended_ms: Option<u64>,
    /// How long it took, in seconds; absent while it goes on.
    pub wall_s: Option<f64>,
    /// What was paid for, by all cells together.
    pub paid: Option<Paid>,
    /// Calls whose answers were used, by all cells together, whoever paid; of finished cells.
    pub calls_used: u64,
    /// The cells, in the order of the file.
    pub cells: Vec<CellObserved>,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellObserved {
    /// Its name.
    pub cell: String,
    /// Its run.
    pub run: Option<String>,
    /// How often it was begun anew.
    pub retries: u32,
    /// How long the run took, in seconds.
    pub wall_s: Option<f64>,
    /// Why there is no time.
    pub wall_s_missing_reason: Option<String>,
    /// What it paid for; answers that another cell had paid for are not among them.
    pub paid: Option<Paid>,
}

/// Calls that were made, and what they came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// Calls.
    pub requests: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// Dollars; absent if the price of a call is unknown.
    pub cost_usd: Option<f64>,
}

impl Paid {
    /// Reads a purse.
    #[must_use]
    pub fn of(balance: &Balance) -> Self {
        let spent = balance.spent;
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact below nine billion dollars"
        )]
        let dollars = spent.micro_usd as f64 / 1e6;
        Self {
            requests: spent.requests,
            prompt_tokens: spent.prompt_tokens,
            completion_tokens: spent.completion_tokens,
            cost_usd: (!balance.has_unpriced).then_some(dollars),
        }
    }
}

/// Seconds from one time to another; `None` unless both are there.
#[must_use]
pub fn seconds(from_ms: u64, to_ms: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "spans are short")]
    (from_ms > 0 && to_ms >= from_ms).then(|| (to_ms - from_ms) as f64 / 1e3)
}
