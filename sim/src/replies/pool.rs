//! Calls about a numbered pool of edits: which to take, and how many.

use serde_json::json;

use super::{Call, number_after};
use crate::keys;
use crate::markers::Markers;
use crate::settings::Params;
use crate::stage::has;
use crate::unit::unit;

/// Most edits that the autonomous rate applies.
const RATE_MAX: usize = 3;
/// Taken off the score of an edit that is seen to be harmful.
const HARM: i64 = 1000;
/// Taken off the score of a note.
const NOTE: i64 = 10;

/// A line of the pool: `[3] op=append …`.
struct Line<'a> {
    index: u64,
    text: &'a str,
}

/// Returns the lines of a message that begin with a number in brackets and a blank.
fn pool(user: &str) -> Vec<Line<'_>> {
    let parse = |text| {
        let (number, _) = str::strip_prefix(text, "[")?.split_once("] ")?;
        let is_number = number.bytes().all(|b| b.is_ascii_digit());
        let index = is_number.then(|| number.parse().ok())??;
        Some(Line { index, text })
    };
    user.lines().filter_map(parse).collect()
}

/// Returns the key and the indices of the best lines.
pub(super) fn ranking(params: &Params, call: &Call<'_>) -> (String, String) {
    let pool = pool(call.user);
    let n = number_after(call.user, "budget").unwrap_or(pool.len());
    let lines: Vec<&str> = pool.iter().map(|line| line.text).collect();
    let key = keys::ranking(call, n, &lines);

    let mut scored: Vec<(i64, u64)> = pool
        .iter()
        .map(|line| (score(params, line.text), line.index))
        .collect();
    scored.sort_by_key(|(score, index)| (std::cmp::Reverse(*score), *index));
    let selected: Vec<u64> = scored.into_iter().take(n).map(|(_, index)| index).collect();
    let reasoning = "Well supported rules come first, notes and risky lines last.";
    let answer = json!({"reasoning": reasoning, "selected_indices": selected});
    (key, answer.to_string())
}

/// Scores a line by its support. Half of the harmful ones are seen through.
fn score(params: &Params, line: &str) -> i64 {
    let markers = Markers::of(line);
    let is_delete = has(line, "op=delete");
    let is_harmful =
        (!markers.traps.is_empty() && !is_delete) || (!markers.rules.is_empty() && is_delete);
    let mut score = support(line);
    if is_harmful && unit(params.seed, &["spot", line]) < 0.5 {
        score -= HARM;
    }
    if !markers.notes.is_empty() {
        score -= NOTE;
    }
    score
}

/// Returns the number after `support=`, else 1.
fn support(line: &str) -> i64 {
    memchr::memmem::find_iter(line.as_bytes(), "support=")
        .find_map(|start| {
            let rest = line.get(start + "support=".len()..)?;
            let end = rest.bytes().take_while(u8::is_ascii_digit).count();
            // Far from overflow when the penalties are taken off.
            rest.get(..end)?.parse::<u32>().ok().map(i64::from)
        })
        .unwrap_or(1)
}

/// Returns the key and the number of edits to apply.
pub(super) fn lr_autonomous(call: &Call<'_>) -> (String, String) {
    let pool = pool(call.user);
    let lines: Vec<&str> = pool.iter().map(|line| line.text).collect();
    let answer = json!({
        "learning_rate": lines.len().min(RATE_MAX),
        "reasoning": "A few edits at a time keep their effects apart.",
        "confidence": "medium",
        "risk_notes": [],
    });
    (keys::lr_autonomous(call, &lines), answer.to_string())
}
