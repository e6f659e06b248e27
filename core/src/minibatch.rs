//! Groups of results for the analysts: failures and successes apart, a few in each group.
//!
//! The grouping is a function of the results as a set and of the seed: results are sorted by id
//! before they are shuffled (D24). Source: training spec, 1.13, 6.2 with D23.

use serde_json::{Map, Value};

use crate::hash::Hash;
use crate::loose;
use crate::patch::Side;

/// Below this `hard` is a failure.
const HARD_MIN: f64 = 1e-9;

/// One analyst call's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Which analyst gets it.
    pub side: Side,
    /// Position among the groups of its side, 0-based: names its patch file.
    pub index: usize,
    /// Positions in the list of results that was grouped.
    pub members: Vec<usize>,
}

/// How to group.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Leave the successes out.
    pub failure_only: bool,
    /// Results of a group; 0 acts as 1.
    pub size: usize,
    /// Seed of the micro-batch; `None` keeps the order of the input.
    pub seed: Option<u64>,
}

/// Returns whether a result is a failure: its `hard` missing, null or (nearly) zero.
#[must_use]
pub fn is_failure(row: &Map<String, Value>) -> bool {
    loose::number(row.get("hard")) < HARD_MIN
}

/// Groups results, failure groups first.
#[must_use]
pub fn groups(rows: &[&Map<String, Value>], settings: Settings) -> Vec<Group> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    if settings.seed.is_some() {
        order.sort_by_cached_key(|&i| rows.get(i).map(|row| loose::field(row, "id")));
    }
    let (failures, successes): (Vec<usize>, Vec<usize>) = order
        .into_iter()
        .partition(|&i| rows.get(i).is_some_and(|row| is_failure(row)));
    let mut groups = cut(Side::Failure, failures, settings);
    if !settings.failure_only {
        groups.extend(cut(Side::Success, successes, settings));
    }
    groups
}

fn cut(side: Side, mut members: Vec<usize>, settings: Settings) -> Vec<Group> {
    if let Some(seed) = settings.seed {
        let purpose = match side {
            Side::Failure => "failure minibatches",
            Side::Success => "success minibatches",
        };
        shuffle(&mut members, seed, purpose);
    }
    members
        .chunks(settings.size.max(1))
        .enumerate()
        .map(|(index, members)| Group {
            side,
            index,
            members: members.to_vec(),
        })
        .collect()
}

/// Shuffles `values` by the stream of (seed, purpose): each gets a place by the hash of its
/// position, so the order depends on nothing else.
fn shuffle<T: Copy>(values: &mut [T], seed: u64, purpose: &str) {
    let mut keyed: Vec<(Hash, T)> = values
        .iter()
        .enumerate()
        .map(|(i, value)| {
            let (seed, i) = (seed.to_le_bytes(), (i as u64).to_le_bytes());
            let parts: [&[u8]; 3] = [&seed, purpose.as_bytes(), &i];
            (Hash::of_parts(parts), *value)
        })
        .collect();
    keyed.sort_by_key(|(hash, _)| *hash);
    for (slot, (_, value)) in values.iter_mut().zip(keyed) {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grouped_ids(ids: &[&str], seed: u64) -> Vec<Vec<String>> {
        let rows: Vec<Map<String, Value>> = ids
            .iter()
            .filter_map(|id| json!({"id": id, "hard": 0}).as_object().cloned())
            .collect();
        let rows: Vec<&Map<String, Value>> = rows.iter().collect();
        let settings = Settings {
            failure_only: false,
            size: 2,
            seed: Some(seed),
        };
        groups(&rows, settings)
            .iter()
            .map(|g| g.members.iter().map(|&i| ids[i].to_owned()).collect())
            .collect()
    }

    #[test]
    fn grouping_does_not_depend_on_the_order_of_arrival() {
        let one = grouped_ids(&["a", "b", "c", "d", "e"], 7);
        assert_eq!(one, grouped_ids(&["e", "c", "a", "d", "b"], 7));
        assert_eq!(one.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    }

    #[test]
    fn seeds_give_different_orders() {
        let ids: Vec<String> = (0..20).map(|i| format!("{i:02}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_ne!(grouped_ids(&ids, 1), grouped_ids(&ids, 2));
    }
}
