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
