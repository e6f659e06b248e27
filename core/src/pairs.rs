//! Longitudinal comparison: the same items under an earlier and the present skill.
//!
//! Source: training spec, 1.10, 2.8.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::loose;
use crate::update_mode::{UnknownName, parse_name};

/// What became of an item between two skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Failed before, passes now.
    Improved,
    /// Passed before, fails now.
    Regressed,
    /// Fails under both.
    PersistentFail,
    /// Passes under both.
    StableSuccess,
}

impl Category {
    /// Returns the category of an item that passed before, and passes now, or not.
    #[must_use]
    pub const fn of(passed_before: bool, passes_now: bool) -> Self {
        match (passed_before, passes_now) {
            (false, true) => Self::Improved,
            (true, false) => Self::Regressed,
            (false, false) => Self::PersistentFail,
            (true, true) => Self::StableSuccess,
        }
    }
}

/// Which pairs the slow update looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Every pair.
    #[default]
    Mixed,
    /// Improved and regressed ones, topped up with more items if too few.
    Changed,
    /// Persistent failures and stable successes.
    Unchanged,
}

impl Policy {
    /// Reads a spelling, whatever its case; empty text means [`Self::Mixed`].
    ///
    /// # Errors
    /// The spelling is unknown.
    pub fn parse(text: &str) -> Result<Self, UnknownName> {
        const SPELLINGS: &[(&str, Policy)] = &[
            ("mixed", Policy::Mixed),
            ("default", Policy::Mixed),
            ("random", Policy::Mixed),
            ("all", Policy::Mixed),
            ("changed", Policy::Changed),
            ("change", Policy::Changed),
            ("delta", Policy::Changed),
            ("10_01", Policy::Changed),
            ("01_10", Policy::Changed),
            ("unchanged", Policy::Unchanged),
            ("stable", Policy::Unchanged),
            ("same", Policy::Unchanged),
            ("00_11", Policy::Unchanged),
        ];
        parse_name("longitudinal pair policy", text, Self::Mixed, SPELLINGS)
    }

    /// Returns the canonical name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }

    /// Returns whether pairs of `category` are kept.
    #[must_use]
    pub const fn keeps(self, category: Category) -> bool {
        let changed = matches!(category, Category::Improved | Category::Regressed);
        match self {
            Self::Mixed => true,
            Self::Changed => changed,
            Self::Unchanged => !changed,
        }
    }
}

/// One skill's result in a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// 1 if it passed at all, else 0.
    pub hard: u8,
    /// Partial credit.
    pub soft: f64,
    /// The answer, `N/A` if there is none.
    pub predicted_answer: String,
    /// Why it failed, or nothing.
    pub fail_reason: String,
}

/// One item under both skills.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The item's id.
    pub id: String,
    /// What was asked.
    pub task: String,
    /// What became of it.
    pub category: Category,
    /// Under the earlier skill.
    pub prev: Outcome,
    /// Under the present skill.
    pub curr: Outcome,
    /// Rendered trajectory under the earlier skill; not saved.
    #[serde(skip)]
    pub prev_trajectory: String,
    /// Rendered trajectory under the present skill; not saved.
    #[serde(skip)]
    pub curr_trajectory: String,
}

/// A rollout for a pair: its result and its rendered trajectory ("" if it has none).
#[derive(Clone, Copy, Debug)]
pub struct Rollout<'a> {
    /// The result row.
    pub row: &'a Map<String, Value>,
    /// The trajectory as text, see [`crate::trajectory::conversation`].
    pub trajectory: &'a str,
}

/// Pairs the results of each item; of several results of one id the last one counts, a missing
/// result is a failure.
#[must_use]
pub fn build(
    items: &[&Map<String, Value>],
    prev: &[Rollout<'_>],
    curr: &[Rollout<'_>],
) -> Vec<Pair> {
    let by_id = |rollouts: &[Rollout<'_>]| -> BTreeMap<String, usize> {
        let ids = rollouts.iter().map(|r| loose::field(r.row, "id"));
        ids.zip(0..).collect()
    };
    let (prev_ids, curr_ids) = (by_id(prev), by_id(curr));
    items
        .iter()
        .map(|item| {
            let id = loose::field(item, "id");
            let before = prev_ids.get(&id).and_then(|&i| prev.get(i));
            let now = curr_ids.get(&id).and_then(|&i| curr.get(i));
            pair(id, item, before, now)
        })
        .collect()
}

fn pair(
    id: String,
    item: &Map<String, Value>,
    before: Option<&Rollout<'_>>,
    now: Option<&Rollout<'_>>,
) -> Pair {
    let task = loose::first_field(item, &["question", "task_description", "instruction"]);
    let (prev, curr) = (outcome(before), outcome(now));
    let trajectory =
        |r: Option<&Rollout<'_>>| r.map_or_else(String::new, |r| r.trajectory.to_owned());
    Pair {
        task: if task.is_empty() { id.clone() } else { task },
        id,
        category: Category::of(prev.hard == 1, curr.hard == 1),
        prev,
        curr,
        prev_trajectory: trajectory(before),
        curr_trajectory: trajectory(now),
    }
}

fn outcome(rollout: Option<&Rollout<'_>>) -> Outcome {
    let empty = Map::new();
    let row = rollout.map_or(&empty, |r| r.row);
    let answer = ["predicted_answer", "answer"]
        .iter()
        .find_map(|key| row.get(*key).filter(|value| !value.is_null()));
    Outcome {
        hard: u8::from(
            row.get("hard")
                .is_some_and(|_| !crate::minibatch::is_failure(row)),
        ),
        soft: loose::number(row.get("soft")),
        predicted_answer: answer.map_or_else(|| "N/A".to_owned(), loose::text),
        fail_reason: loose::field(row, "fail_reason"),
    }
}

/// Returns a file name for an item id: only letters, digits, `_`, `.`, `-`, at most 80 characters.
#[must_use]
pub fn safe_id(id: &str) -> String {
    let mut safe = String::new();
    for c in id.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') {
            safe.push(c);
        } else if !safe.ends_with('\u{0}') {
            // Marks a run of other characters, so that it differs from underscores of the id.
            safe.push('\u{0}');
        }
    }
    let safe = safe.replace('\u{0}', "_");
    let safe: String = safe.trim_matches('_').chars().take(80).collect();
    if safe.is_empty() {
        "item".to_owned()
    } else {
        safe
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_become_file_names() {
        for (id, want) in [
            ("a/b c", "a_b_c"),
            ("..", ".."),
            ("___", "item"),
            ("_a__b_", "a__b"),
        ] {
            assert_eq!(safe_id(id), want, "{id:?}");
        }
    }

    proptest! {
        #[test]
        fn file_names_are_short_and_plain(id in ".*") {
            let safe = safe_id(&id);
            prop_assert!(!safe.is_empty() && safe.len() <= 80);
            prop_assert!(safe.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)));
        }
    }
}
