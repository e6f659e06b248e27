//! Scores of a batch, and the short hash that names a skill text.
//!
//! Source: training spec, chapter 0 with D7.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Hash;

/// Exact success and partial credit, each the plain mean over a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Mean of the rows' `hard`.
    pub hard: f64,
    /// Mean of the rows' `soft`.
    pub soft: f64,
}

/// A row whose `hard` or `soft` is no number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {row} has `{field}`: {seen}; expected a finite number")]
pub struct BadScore {
    /// 0-based place of the row.
    pub row: usize,
    /// `hard` or `soft`.
    pub field: &'static str,
    /// What stands there, as JSON.
    pub seen: String,
}

/// Returns the first 16 hex digits of the SHA-256 of a skill text.
#[must_use]
pub fn skill_hash(text: &str) -> String {
    Hash::of(text.as_bytes()).short()
}

/// Returns the mean scores of result rows; none score (0, 0), an absent or null value counts 0.
///
/// # Errors
/// A value that is neither a number, a boolean nor the text of a number, or is not finite.
pub fn mean<'a>(rows: impl IntoIterator<Item = &'a Map<String, Value>>) -> Result<Score, BadScore> {
    let read = |(row, fields)| Ok((number(fields, row, "hard")?, number(fields, row, "soft")?));
    let scores: Result<Vec<(f64, f64)>, BadScore> =
        rows.into_iter().enumerate().map(read).collect();
    Ok(mean_of(scores?))
}

/// Returns the mean of `(hard, soft)` scores; none score (0, 0).
#[must_use]
pub fn mean_of(scores: impl IntoIterator<Item = (f64, f64)>) -> Score {
    let mut sum = Score::default();
    let mut count = 0_usize;
    for (hard, soft) in scores {
        sum.hard += hard;
        sum.soft += soft;
        count += 1;
    }
    if count == 0 {
        return sum;
    }
    #[expect(clippy::cast_precision_loss, reason = "no batch has 2^52 rows")]
    let count = count as f64;
    Score {
        hard: sum.hard / count,
        soft: sum.soft / count,
    }
}

fn number(row: &Map<String, Value>, at: usize, field: &'static str) -> Result<f64, BadScore> {
    let value = row.get(field).unwrap_or(&Value::Null);
    let number = match value {
        Value::Null => Some(0.0),
        Value::Bool(hit) => Some(f64::from(u8::from(*hit))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => crate::text::trim(text).parse().ok(),
        Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|n| n.is_finite()).ok_or_else(|| BadScore {
        row: at,
        field,
        seen: crate::text::head(&value.to_string(), 80).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_score_that_is_no_number_names_its_row() {
        for bad in [json!("high"), json!([1]), json!("nan"), json!("inf")] {
            let rows = [json!({"hard": 1}), json!({"soft": bad})];
            let error = mean(rows.iter().filter_map(Value::as_object)).unwrap_err();
            assert_eq!((error.row, error.field), (1, "soft"));
        }
    }
}
