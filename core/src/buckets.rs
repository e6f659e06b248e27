//! Scores by task type.
//!
//! Source: training spec, 8.2 (test `summary.json`).

use serde_json::{Map, Value, json};

use crate::loose;

/// Sums of one task type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    /// Results.
    pub total: u64,
    /// Sum of `hard`.
    pub hard: f64,
    /// Sum of `soft`.
    pub soft: f64,
}

impl Bucket {
    fn add(&mut self, row: &Map<String, Value>) {
        self.total += 1;
        self.hard += loose::number(row.get("hard"));
        self.soft += loose::number(row.get("soft"));
    }

    /// Returns the mean of `hard`, 0 without results.
    #[must_use]
    pub fn hard_acc(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts of results are small")]
        let total = self.total.max(1) as f64;
        self.hard / total
    }
}

/// Sums results by task type: the listed types first, then `overall`, then types seen besides;
/// a missing type is `other`.
#[must_use]
pub fn by_task_type<'a>(
    rows: impl IntoIterator<Item = &'a Map<String, Value>>,
    task_types: &[&str],
) -> Vec<(String, Bucket)> {
    let mut buckets: Vec<(String, Bucket)> = task_types
        .iter()
        .copied()
        .chain(["overall"])
        .map(|name| (name.to_owned(), Bucket::default()))
        .collect();
    for row in rows {
        let task_type = loose::first_field(row, &["task_type"]);
        let task_type = if task_type.is_empty() {
            "other"
        } else {
            &task_type
        };
        bucket(&mut buckets, "overall").add(row);
        if task_type != "overall" {
            bucket(&mut buckets, task_type).add(row);
        }
    }
    buckets
}

fn bucket<'a>(buckets: &'a mut Vec<(String, Bucket)>, name: &str) -> &'a mut Bucket {
    let found = buckets.iter().position(|(known, _)| known == name);
    let at = found.unwrap_or_else(|| {
        buckets.push((name.to_owned(), Bucket::default()));
        buckets.len() - 1
    });
    &mut buckets[at].1
}

/// Returns the test summary: `{<task type>: {total, hard_acc}}`.
#[must_use]
pub fn summary(buckets: &[(String, Bucket)]) -> Map<String, Value> {
    buckets
        .iter()
        .map(|(name, bucket)| {
            let value = json!({"total": bucket.total, "hard_acc": bucket.hard_acc()});
            (name.clone(), value)
        })
        .collect()
}
