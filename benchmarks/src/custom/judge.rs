//! The built-in judges.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use skillopt_core::json_extract;

use super::definition::Scorer;
use crate::searchqa::score;

/// What a judge says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// What the gate reads, 0 to 1.
    pub hard: f64,
    /// Partial credit, 0 to 1.
    pub soft: f64,
    /// Why it is not right; empty on success.
    pub reason: String,
}

impl Verdict {
    pub(super) fn all_or_nothing(right: bool, reason: impl FnOnce() -> String) -> Self {
        let points = f64::from(u8::from(right));
        let reason = if right { String::new() } else { reason() };
        Self {
            hard: points,
            soft: points,
            reason,
        }
    }
}

/// Judges `reply` with a built-in judge. `gold` is the item's gold value.
///
/// # Errors
/// The gold value or the pattern cannot be used.
pub(super) fn judge(scorer: &Scorer, gold: &Value, reply: &str) -> Result<Verdict, String> {
    let answer = score::extract_answer(reply);
    let missed = || format!("answer_mismatch: answered `{answer}`");
    Ok(match scorer {
        Scorer::Exact { case_sensitive, .. } => {
            let fold = |text: &str| {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if *case_sensitive {
                    text
                } else {
                    text.to_lowercase()
                }
            };
            let answer = fold(answer);
            let right = accepted(gold)?.iter().any(|gold| fold(gold) == answer);
            Verdict::all_or_nothing(right, missed)
        }
        Scorer::F1 { .. } => {
            let golds = accepted(gold)?;
            let golds: Vec<&str> = golds.iter().map(String::as_str).collect();
            let found = score::evaluate(reply, &golds);
            let reason = if found.em < 1.0 {
                missed()
            } else {
                String::new()
            };
            Verdict {
                hard: found.em,
                soft: found.f1,
                reason,
            }
        }
        Scorer::Regex { pattern, .. } => {
            let pattern = match (pattern, gold) {
                (Some(pattern), _) => pattern,
                (None, Value::String(gold)) => gold,
                _ => return Err("the regular expression must be a text".to_owned()),
            };
            let right = compile(pattern)?.is_match(reply);
            Verdict::all_or_nothing(right, || {
                "pattern_mismatch: the reply does not match".into()
            })
        }
        Scorer::JsonField { field, .. } => json_field(field, gold, reply),
        Scorer::Numeric { tolerance, .. } => {
            let gold = number(gold).ok_or("the gold value is not a number")?;
            let last = NUMBER.find_iter(answer).last();
            let found = last.and_then(|found| found.as_str().replace(',', "").parse::<f64>().ok());
            match found {
                None => Verdict::all_or_nothing(false, || {
                    format!("answer_format: no number in `{answer}`")
                }),
                Some(found) => {
                    let slack = tolerance.max(1e-9 * gold.abs());
                    Verdict::all_or_nothing((found - gold).abs() <= slack, missed)
                }
            }
        }
        Scorer::Files { .. } => return Err("only an agent writes files".to_owned()),
        Scorer::Command { .. } => return Err("a command judge has no built-in form".to_owned()),
    })
}

#[allow(
    clippy::unwrap_used,
    reason = "a constant expression, compiled by a test"
)]
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?").unwrap());

/// What is wrong with a regular expression of nothing.
const EMPTY_PATTERN: &str = "the regular expression is empty, so that every reply would be right";

/// Compiles a pattern of the user's; its compiled size is bounded.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.is_empty() {
        return Err(EMPTY_PATTERN.to_owned());
    }
    regex::RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|e| format!("`{pattern}` is not a usable regular expression: {e}"))
}

fn json_field(field: &str, gold: &Value, reply: &str) -> Verdict {
    let Some(object) = json_extract::object(reply) else {
        return Verdict::all_or_nothing(false, || "answer_format: no JSON object found".to_owned());
    };
    let found = object.get(field);
    let right = found.is_some_and(|found| same(found, gold));
    Verdict::all_or_nothing(right, || match found {
        Some(found) => format!("answer_mismatch: `{field}` is `{found}`"),
        None => format!("answer_format: the JSON object has no `{field}`"),
    })
}

/// Compares values; a number and its text are the same, because CSV knows only text.
fn same(found: &Value, gold: &Value) -> bool {
    if found == gold {
        return true;
    }
    match (number(found), number(gold)) {
        (Some(found), Some(gold)) => found == gold,
        _ => match (found, gold) {
            (Value::String(found), Value::String(gold)) => found.trim() == gold.trim(),
            (Value::Bool(found), Value::String(gold)) => found.to_string() == gold.trim(),
            _ => false,
        },
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().replace(',', "").parse().ok(),
        _ => None,
    }
    .filter(|number| number.is_finite())
}

/// The accepted answers: a text, a number or a list of these.
fn accepted(gold: &Value) -> Result<Vec<String>, String> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err("the gold answer must be a text, a number or a list of these".to_owned()),
    };
    match gold {
        Value::Array(list) if !list.is_empty() => list.iter().map(one).collect(),
        other => Ok(vec![one(other)?]),
    }
}

/// Says what is wrong with a gold value, before anything is paid for.
pub(super) fn check(scorer: &Scorer, gold: &Value) -> Result<(), String> {
    if scorer.gold().is_some() && is_empty(gold) {
        return Err(match scorer {
            Scorer::Regex { .. } => EMPTY_PATTERN.to_owned(),
            _ => "the gold answer is empty, so that no answer could be right".to_owned(),
        });
    }
    judge(scorer, gold, "").map(drop)
}

/// Whether there is no gold answer at all: nothing, blank text, or a list of these.
fn is_empty(gold: &Value) -> bool {
    match gold {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => list.iter().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check_points(scorer: Value, gold: Value, reply: &str, hard: f64) {
        let scorer: Scorer = serde_json::from_value(scorer).unwrap();
        let verdict = judge(&scorer, &gold, reply).unwrap();
        assert_eq!(verdict.hard, hard, "{scorer:?} {gold} {reply} {verdict:?}");
        assert_eq!(verdict.reason.is_empty(), hard == 1.0);
    }

    #[test]
    fn built_in_judges() {
        let exact = json!({"kind": "exact"});
        check_points(
            exact.clone(),
            json!("Oslo"),
            "Hm.\n<answer> oslo </answer>",
            1.0,
        );
        check_points(
            exact.clone(),
            json!(["Oslo", "Christiania"]),
            "christiania",
            1.0,
        );
        check_points(exact.clone(), json!(7), "7", 1.0);
        check_points(exact, json!("Oslo"), "It is Oslo", 0.0);
        let strict = json!({"kind": "exact", "case_sensitive": true});
        check_points(strict, json!("Oslo"), "oslo", 0.0);
        check_points(json!({"kind": "f1"}), json!("Oslo"), "The Oslo!", 1.0);
        check_points(json!({"kind": "regex"}), json!("(?i)^yes"), "Yes, sir", 1.0);
        let number = json!({"kind": "numeric", "tolerance": 0.5});
        check_points(number.clone(), json!("1,200"), "about 1,200.4 m", 1.0);
        check_points(number.clone(), json!(1200), "1201", 0.0);
        check_points(number, json!(1200), "none", 0.0);
        let field = json!({"kind": "json_field", "field": "n"});
        check_points(field.clone(), json!("3"), "so {\"n\": 3}", 1.0);
        check_points(field.clone(), json!(3), "{\"m\": 3}", 0.0);
        check_points(field, json!(3), "3", 0.0);
    }

    #[test]
    fn unusable_golds_are_found_early() {
        let scorer = |kind: &str| serde_json::from_value(json!({"kind": kind})).unwrap();
        for (kind, gold) in [
            ("exact", json!({})),
            ("f1", json!([])),
            ("f1", json!(["", " "])),
            ("exact", json!(" ")),
            ("numeric", json!("")),
            ("numeric", json!("x")),
            ("regex", json!("(")),
            ("regex", json!("")),
        ] {
            assert!(check(&scorer(kind), &gold).is_err(), "{kind}");
        }
    }
}
