//! What calls came to, by who paid or by what they were for.

use std::collections::BTreeMap;

use skillopt_proto::v1;
use skillopt_queue::ledger::{Balance, Counts, Tally, Use};

/// A part of what a call was for.
pub type Part = fn(&Use) -> &str;

/// Adds up what purses were used for.
#[must_use]
pub fn by_part(tallies: &[Tally], part: Part) -> Vec<v1::Usage> {
    let mut rows: BTreeMap<String, Counts> = BTreeMap::new();
    for (of, counts) in tallies.iter().flat_map(|tally| &tally.0) {
        rows.entry(part(of).to_owned()).or_default().add(counts);
    }
    rows.into_iter()
        .map(|(id, counts)| of_counts(id, counts))
        .collect()
}

fn of_counts(id: String, counts: Counts) -> v1::Usage {
    v1::Usage {
        id,
        requests: counts.requests,
        prompt_tokens: counts.prompt_tokens,
        completion_tokens: counts.completion_tokens,
        cached_tokens: counts.cached_tokens,
        reasoning_tokens: counts.reasoning_tokens,
        micro_usd: (counts.unpriced == 0).then_some(counts.micro_usd),
        unpriced_requests: counts.unpriced,
        outcomes: counts.outcomes.into_iter().collect(),
        ..v1::Usage::default()
    }
}

/// Returns what a purse holds. Its sums are those that caps look at; what they were for is told
/// a moment later.
#[must_use]
pub fn of_purse(id: String, name: String, balance: &Balance, tally: &Tally) -> v1::Usage {
    v1::Usage {
        name,
        requests: balance.spent.requests,
        prompt_tokens: balance.spent.prompt_tokens,
        completion_tokens: balance.spent.completion_tokens,
        micro_usd: (!balance.has_unpriced).then_some(balance.spent.micro_usd),
        reserved_requests: balance.reserved.requests,
        reserved_tokens: balance.reserved.tokens(),
        reserved_micro_usd: balance.reserved.micro_usd,
        cap_requests: balance.caps.requests,
        cap_tokens: balance.caps.tokens,
        cap_micro_usd: balance.caps.micro_usd,
        ..of_counts(id, tally.total())
    }
}
