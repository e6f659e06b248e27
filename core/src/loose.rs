//! Small readings of JSON that models and adapters wrote loosely.

use serde_json::{Map, Value};

/// Returns whether a value counts as true: not null, false, zero, or empty.
#[must_use]
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64().is_none_or(|n| n != 0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
    }
}

/// Returns a value as text: strings as they are, null as nothing, the rest as JSON.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// Returns the field as text, "" if it is missing.
#[must_use]
pub fn field(map: &Map<String, Value>, key: &str) -> String {
    map.get(key).map(text).unwrap_or_default()
}

/// Returns the first truthy field of `keys` as text, "" if there is none.
#[must_use]
pub fn first_field(map: &Map<String, Value>, keys: &[&str]) -> String {
    keys.iter()
        .filter_map(|key| map.get(*key))
        .find(|value| is_truthy(value))
        .map(text)
        .unwrap_or_default()
}

/// Returns a number, also from a boolean or numeric text; missing, null and the rest are 0 (D7).
#[must_use]
pub fn number(value: Option<&Value>) -> f64 {
    let number = match value {
        Some(Value::Number(n)) => n.as_f64().unwrap_or(0.0),
        Some(Value::Bool(b)) => f64::from(u8::from(*b)),
        Some(Value::String(s)) => s.trim().parse().unwrap_or(0.0),
        _ => 0.0,
    };
    if number.is_finite() { number } else { 0.0 }
}

/// Returns an integer of JSON: whole numbers and numeric texts; nothing else.
#[must_use]
pub fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64().or_else(|| whole(n.as_f64()?)),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    }
}

/// Returns the float as an integer, cutting off its fraction, if it fits.
fn whole(number: f64) -> Option<i64> {
    // 2^53: beyond it a float no longer names one integer.
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked against the limit")]
    (number.abs() <= LIMIT).then_some(number as i64)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Any small JSON value whose objects often have the keys that models use.
    pub(crate) fn any_json() -> impl Strategy<Value = Value> {
        const KEYS: &[&str] = &[
            "patch",
            "edits",
            "revise_suggestions",
            "skill_candidates",
            "op",
            "target",
            "content",
            "source_type",
            "batch_size",
            "support_count",
            "merge_level",
            "appendix_notes",
            "note",
            "selected_indices",
            "learning_rate",
            "new_skill",
            "pattern",
            "rule",
            "texts",
            "type",
            "role",
            "action",
            "step",
            "id",
            "hard",
            "fail_reason",
            "failure_summary",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            prop::sample::select(vec!["append", "delete", "replace", "success", "tool_call"])
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((prop::sample::select(KEYS), inner), 0..5).prop_map(
                    |fields| {
                        Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                    }
                ),
            ]
        })
    }

    #[test]
    fn numbers_are_read_loosely_and_never_infinite() {
        for (value, want) in [
            (json!(0.5), 0.5),
            (json!("0.5"), 0.5),
            (json!(true), 1.0),
            (json!("inf"), 0.0),
            (json!([1]), 0.0),
            (Value::Null, 0.0),
        ] {
            assert!(
                (number(Some(&value)) - want).abs() < f64::EPSILON,
                "{value}"
            );
        }
        assert!(number(None).abs() < f64::EPSILON);
    }

    #[test]
    fn integers_are_whole_numbers_or_numeric_texts() {
        for (value, want) in [
            (json!(3), Some(3)),
            (json!(2.9), Some(2)),
            (json!(" 7 "), Some(7)),
            (json!("7 edits"), None),
            (json!(1e300), None),
            (json!(true), None),
        ] {
            assert_eq!(integer(&value), want, "{value}");
        }
    }
}
