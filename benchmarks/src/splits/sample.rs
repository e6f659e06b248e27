//! A diverse sample of failures and successes (benchmarks spec 8.1).

use std::collections::BTreeSet;

use super::mersenne::Mersenne;

/// One result to choose from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// The item's type.
    pub task_type: &'a str,
    /// Whether it counts as a success.
    pub success: bool,
}

/// Returns indices of `failures` failed and then `successes` successful candidates: one per task
/// type first, then filled up, in the order the seed gives.
#[must_use]
pub fn representative(
    candidates: &[Candidate<'_>],
    failures: usize,
    successes: usize,
    seed: i64,
) -> Vec<usize> {
    let mut random = Mersenne::new(seed);
    let mut chosen = Vec::new();
    for (success, count) in [(false, failures), (true, successes)] {
        if count == 0 {
            continue;
        }
        let mut pool: Vec<usize> = (0..candidates.len())
            .filter(|&i| candidates[i].success == success)
            .collect();
        random.shuffle(&mut pool);
        let mut types = BTreeSet::new();
        let (first, rest): (Vec<usize>, Vec<usize>) = pool
            .into_iter()
            .partition(|&i| types.insert(candidates[i].task_type));
        chosen.extend(first.into_iter().chain(rest).take(count));
    }
    chosen
}
