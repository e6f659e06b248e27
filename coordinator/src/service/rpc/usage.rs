//! By what use can be counted.

use skillopt_core::suggest;

use super::super::error::Error;
use crate::usage::Part;

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

#[cfg(test)]
mod tests {
    use skillopt_proto::v1;
    use skillopt_queue::ledger::{Counts, Tally, Use};

    use super::*;
    use crate::usage::by_part;

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
