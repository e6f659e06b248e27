//! Finding the one JSON value in a model's answer.
//!
//! Models wrap JSON in fences, prose and small mistakes. The rule is to help but never to guess:
//! where two values could be meant, there is none. Every step is linear in the length of the
//! answer and bounded in depth, since answers come from outside.
//! Source: training spec, 6.11 with D29–D32.

mod repair;
mod spans;

use std::ops::Range;

use serde_json::{Map, Value};

use spans::{Brackets, Scan};

/// Returns the JSON object of an answer, or `None` if there is none or more than one to choose
/// from. Numbers in it are finite and texts valid Unicode.
///
/// Tried in this order: the first block fenced as `json`; the text from the first to the last
/// brace; the only stretch in balanced braces that is a JSON object; and, if there is only one
/// such stretch, its repair (trailing and missing commas, raw line ends and quotes in texts,
/// `True`, …).
#[must_use]
pub fn object(text: &str) -> Option<Map<String, Value>> {
    let text = without_thoughts(text);
    let fenced = fenced(text);
    if let Some(found) = fenced.and_then(strict_object) {
        return Some(found);
    }
    if let Some(found) = strict_object(text.get(text.find('{')?..=text.rfind('}')?)?) {
        return Some(found);
    }
    let scan = Scan::of(text, Brackets::Braces);
    if let Some(found) = only(text, &scan, strict_object) {
        return Some(found);
    }
    let candidate = fenced
        .and_then(|body| Some(&body[Scan::of(body, Brackets::Braces).only()?]))
        .or_else(|| Some(&text[scan.only()?]))?;
    repair::object(candidate)
}

/// Returns the JSON array of an answer, or `None` if there is none or more than one to choose
/// from. Arrays are never repaired; those inside of objects or of quoted text do not count.
#[must_use]
pub fn array(text: &str) -> Option<Vec<Value>> {
    let text = without_thoughts(text);
    if let Some(found) = fenced(text).and_then(strict_array) {
        return Some(found);
    }
    only(text, &Scan::of(text, Brackets::All), strict_array)
}

fn strict_object(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

fn strict_array(text: &str) -> Option<Vec<Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Array(array)) => Some(array),
        _ => None,
    }
}

/// Returns the value of the only span that `parse` takes.
///
/// If a quote in the prose has no partner there are two readings of what is quoted (D32). The
/// reading in which the stray quote is plain text counts if the other shows nothing; where both
/// show a value, it must be the same one.
fn only<T>(text: &str, scan: &Scan, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let values = |spans: &[Range<usize>]| -> Vec<(usize, T)> {
        spans
            .iter()
            .filter_map(|span| Some((span.start, parse(text.get(span.clone())?)?)))
            .take(2)
            .collect()
    };
    let mut quoted = values(&scan.spans);
    let Some(unquoted) = &scan.unquoted_spans else {
        return single(quoted);
    };
    if quoted.is_empty() {
        return single(values(unquoted));
    }
    let (start, value) = quoted.pop()?;
    let confirmed = quoted.is_empty() && unquoted.iter().any(|span| span.start == start);
    confirmed.then_some(value)
}

fn single<T>(mut values: Vec<(usize, T)>) -> Option<T> {
    let (_, value) = values.pop()?;
    values.is_empty().then_some(value)
}

/// Returns what follows the thoughts that some models put before their answer. Thoughts without
/// an end mean that the answer never came.
fn without_thoughts(text: &str) -> &str {
    match text.trim_start().strip_prefix("<think>") {
        Some(thoughts) => thoughts
            .split_once("</think>")
            .map_or("", |(_, answer)| answer),
        None => text,
    }
}

/// Returns the body of the first block fenced by exactly three backticks and labelled `json`.
fn fenced(text: &str) -> Option<&str> {
    const OPEN: &str = "```json";
    let (open, _) = text
        .match_indices(OPEN)
        .find(|(at, _)| !text[..*at].ends_with('`'))?;
    let body = text.get(open + OPEN.len()..)?;
    body.find("```").and_then(|end| body.get(..end))
}

#[cfg(test)]
mod tests;
