//! What calls came to, by who paid or by what they were for.

use std::collections::BTreeMap;

use skillopt_core::suggest;
use skillopt_proto::v1;
use skillopt_queue::ledger::{Balance, Counts, Tally, Use};

use super::super::error::Error;

/// A part of what a call was for.
pub(super) type Part = fn(&Use) -> &str;

/// Names all that use is counted by.
const BY: [&str; 6] = ["run", "sweep", "tenant", "role", "stage", "model"];

/// Returns the part of that name.
///
/// # Errors
/// There is none.
pub(super) fn part(by: &str) -> Result<Part, Error> {
    match by {
        "role" => Ok(|of| &of.role),
        "stage" => Ok(|of| &of.stage),
        "model" => Ok(|of| &of.model),
        other => {
            let near = suggest::hint(other, BY);
            let known = BY.join(", ");
            let words = format!("use is counted by one of {known}, not by `{other}`{near}");
            Err(Error::Invalid(words))
        }
    }
}

/// Adds up what purses were used for.
pub(super) fn by_part(tallies: &[Tally], part: Part) -> Vec<v1::Usage> {
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
pub(super) fn of_purse(id: String, name: String, balance: &Balance, tally: &Tally) -> v1::Usage {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unknown_price_makes_the_sum_unknown_and_not_less() {
        let counts = |requests, micro_usd, unpriced| Counts {
            requests,
            micro_usd,
            unpriced,
            ..Counts::default()
        };
        let mut tally = Tally::default();
        tally.add(Use::new("target", "rollout", "a"), &counts(2, 10, 0));
        tally.add(Use::new("optimizer", "merge", "b"), &counts(3, 0, 3));
        tally.add(Use::new("optimizer", "rank", "a"), &counts(1, 5, 0));
        let rows = |by| {
            let rows = by_part(std::slice::from_ref(&tally), part(by).ok().unwrap());
            let row = |row: v1::Usage| (row.id, row.requests, row.micro_usd);
            rows.into_iter().map(row).collect::<Vec<_>>()
        };
        let named = |id: &str, n, usd| (id.to_owned(), n, usd);
        assert_eq!(
            rows("model"),
            [named("a", 3, Some(15)), named("b", 3, None)]
        );
        assert_eq!(
            rows("role"),
            [named("optimizer", 4, None), named("target", 2, Some(10))]
        );
        assert!(part("stages").is_err_and(|e| e.to_string().contains("`stage`")));
    }
}
