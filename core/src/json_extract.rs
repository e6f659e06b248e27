//! Finding the one JSON value in a model's answer.
//!
//! Source: training spec, 6.11 with D29–D32.

use serde_json::{Map, Value};

/// Returns the JSON object of an answer, or `None` if there is none or more than one to choose from.
#[must_use]
pub fn object(text: &str) -> Option<Map<String, Value>> {
    let strict = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Some(map),
        _ => None,
    };
    fenced(text)
        .and_then(strict)
        .or_else(|| strict(text.get(text.find('{')?..=text.rfind('}')?)?))
}

/// Returns the JSON array of an answer, or `None` if there is none or more than one to choose from.
#[must_use]
pub fn array(text: &str) -> Option<Vec<Value>> {
    let strict = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Array(list)) => Some(list),
        _ => None,
    };
    fenced(text)
        .and_then(strict)
        .or_else(|| strict(text.get(text.find('[')?..=text.rfind(']')?)?))
}

/// Returns the body of the first block fenced by three backticks and labelled `json`.
fn fenced(text: &str) -> Option<&str> {
    const OPEN: &str = "```json";
    let (open, _) = text
        .match_indices(OPEN)
        .find(|(at, _)| !text[..*at].ends_with('`'))?;
    let body = text.get(open + OPEN.len()..)?;
    body.find("```").and_then(|end| body.get(..end))
}
