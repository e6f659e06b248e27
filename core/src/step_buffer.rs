//! What was tried earlier in this epoch: one entry per step that reached the gate.
//!
//! Source: training spec, 2.9, 5.5, with D6 and D7.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::loose;
use crate::minibatch;
use crate::update_mode::UpdateMode;

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// What they have in common.
    pub pattern: String,
    /// How many.
    pub count: u64,
    /// Which items.
    pub task_ids: Vec<String>,
}

/// One step (`trajectory_digest.json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Global step number.
    pub step: u64,
    /// What the gate did.
    pub action: String,
    /// Results of the step, at least 1.
    pub n_total: u64,
    /// Failures among them.
    pub n_fail: u64,
    /// The failures by kind.
    pub failure_patterns: Vec<Pattern>,
    /// What was rejected, if it was.
    #[serde(flatten)]
    pub rejected: Option<Rejected>,
}

/// What an entry says about a rejected step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rejected {
    /// The incumbent's gate score; null if it was never scored.
    pub score_before: Option<f64>,
    /// The candidate's gate score.
    pub score_after: Option<f64>,
    /// The items, as [`crate::patch::summary`] gives them.
    pub rejected_edits: Vec<Value>,
}

/// One analyst answer with the items it was given.
#[derive(Clone, Copy, Debug)]
pub struct Analysis<'a> {
    /// Ids of the results in its minibatch.
    pub task_ids: &'a [String],
    /// The raw patch.
    pub raw_patch: &'a Value,
}

impl Entry {
    /// Makes the entry of a step from its results and the answers of its analysts.
    #[must_use]
    pub fn new(
        step: u64,
        action: &str,
        rows: &[&Map<String, Value>],
        analyses: &[Analysis<'_>],
        rejected: Option<Rejected>,
    ) -> Self {
        Self {
            step,
            action: action.to_owned(),
            n_total: rows.len().max(1) as u64,
            n_fail: rows.iter().filter(|row| minibatch::is_failure(row)).count() as u64,
            failure_patterns: failure_patterns(rows, analyses),
            rejected,
        }
    }
}

/// Groups failed results by the part of `fail_reason` before its first colon, in order of first
/// appearance.
///
/// A group is labelled with an analyst's words only if that analyst saw failures of this group
/// alone: then they cannot speak of another one (D6). Else the reason itself is the label.
#[must_use]
pub fn failure_patterns(rows: &[&Map<String, Value>], analyses: &[Analysis<'_>]) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for row in rows.iter().filter(|row| minibatch::is_failure(row)) {
        let reason = reason(row);
        let id = loose::field(row, "id");
        match patterns.iter_mut().find(|p| p.pattern == reason) {
            Some(pattern) => {
                pattern.count += 1;
                pattern.task_ids.push(id);
            }
            None => patterns.push(Pattern {
                pattern: reason,
                count: 1,
                task_ids: vec![id],
            }),
        }
    }
    let labels: Vec<Option<String>> = patterns
        .iter()
        .map(|pattern| label(pattern, &patterns, analyses))
        .collect();
    for (pattern, label) in patterns.iter_mut().zip(labels) {
        if let Some(label) = label {
            pattern.pattern = label;
        }
    }
    patterns
}

/// Returns the part of the fail reason before its colon; missing or null is `unknown` (D7).
fn reason(row: &Map<String, Value>) -> String {
    let Some(reason) = row.get("fail_reason").filter(|r| !r.is_null()) else {
        return "unknown".to_owned();
    };
    let reason = loose::text(reason);
    let prefix = reason.split(':').next().unwrap_or_default();
    crate::text::trim(prefix).to_owned()
}

fn label(pattern: &Pattern, all: &[Pattern], analyses: &[Analysis<'_>]) -> Option<String> {
    let saw = |analysis: &Analysis<'_>, pattern: &Pattern| {
        pattern
            .task_ids
            .iter()
            .any(|id| analysis.task_ids.contains(id))
    };
    analyses
        .iter()
        .filter(|a| saw(a, pattern) && all.iter().filter(|p| saw(a, p)).count() == 1)
        .find_map(|a| first_description(a.raw_patch))
}

/// Returns the first failure the analyst named, as "type: description" or the type alone.
fn first_description(raw_patch: &Value) -> Option<String> {
    let summary = raw_patch.get("failure_summary")?.as_array()?;
    summary
        .iter()
        .filter_map(Value::as_object)
        .find_map(|entry| {
            let kind = loose::field(entry, "failure_type");
            let description = loose::field(entry, "description");
            match (kind.is_empty(), description.is_empty()) {
                (false, false) => Some(format!("{kind}: {description}")),
                (false, true) => Some(kind),
                (true, false) => Some(description),
                (true, true) => None,
            }
        })
}

/// Renders the buffer for a prompt; an empty buffer gives an empty text.
#[must_use]
pub fn render(entries: &[Entry], mode: UpdateMode) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "This is what was tried earlier in this epoch. Do not repeat proposals that did not help, \
         and give priority to the failure patterns that are still unsolved.\n",
    );
    for entry in entries {
        text.push('\n');
        render_entry(&mut text, entry, mode);
    }
    text
}

fn render_entry(text: &mut String, entry: &Entry, mode: UpdateMode) {
    text.push_str(&format!(
        "Step {}: {}, {} of {} rollouts failed.\n",
        entry.step, entry.action, entry.n_fail, entry.n_total
    ));
    for pattern in &entry.failure_patterns {
        text.push_str(&format!(
            "- failure pattern \"{}\": {} (tasks {})\n",
            pattern.pattern,
            pattern.count,
            pattern.task_ids.join(", ")
        ));
    }
    let Some(rejected) = &entry.rejected else {
        return;
    };
    let score = |score: Option<f64>| score.map_or_else(|| "none".to_owned(), |s| format!("{s:.4}"));
    text.push_str(&format!(
        "Rejected: the score went from {} to {} with these {}:\n",
        score(rejected.score_before),
        score(rejected.score_after),
        mode.item_noun()
    ));
    for item in &rejected.rejected_edits {
        text.push_str(&format!("- {item}\n"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(reasons: &[(&str, Value)]) -> Vec<Map<String, Value>> {
        let row = |(id, reason): &(&str, Value)| {
            json!({"id": id, "hard": 0, "fail_reason": reason})
                .as_object()
                .cloned()
        };
        reasons.iter().filter_map(row).collect()
    }

    #[test]
    fn an_analyst_labels_only_the_kind_it_saw() {
        let rows = rows(&[
            ("1", json!("a: x")),
            ("2", json!("b: y")),
            ("3", json!(null)),
        ]);
        let rows: Vec<&Map<String, Value>> = rows.iter().collect();
        let about = |kind: &str| json!({"failure_summary": [{"failure_type": kind}]});
        let (mixed, only_b) = (about("mixed"), about("only b"));
        let (both, second) = (["1".to_owned(), "2".to_owned()], ["2".to_owned()]);
        let analyses = [
            Analysis {
                task_ids: &both,
                raw_patch: &mixed,
            },
            Analysis {
                task_ids: &second,
                raw_patch: &only_b,
            },
        ];
        let labels: Vec<String> = failure_patterns(&rows, &analyses)
            .into_iter()
            .map(|pattern| pattern.pattern)
            .collect();
        assert_eq!(labels, ["a", "only b", "unknown"]);
    }

    #[test]
    fn a_rejection_is_told_with_its_items_in_full() {
        let rows = rows(&[("1", json!("a: x"))]);
        let rows: Vec<&Map<String, Value>> = rows.iter().collect();
        let rejected = Rejected {
            score_before: Some(0.5),
            score_after: Some(0.25),
            rejected_edits: vec![json!({"op": "append", "content": "- long rule", "target": ""})],
        };
        let entry = Entry::new(3, "reject", &rows, &[], Some(rejected));
        let text = render(std::slice::from_ref(&entry), UpdateMode::Patch);
        for part in [
            "Step 3: reject, 1 of 1",
            "\"a\": 1 (tasks 1)",
            "0.5000 to 0.2500",
            "- long rule",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
        assert_eq!(render(&[], UpdateMode::Patch), "");
        let saved = serde_json::to_value(&entry).unwrap();
        assert_eq!(saved["score_after"], 0.25);
        assert_eq!(serde_json::from_value::<Entry>(saved).unwrap(), entry);
    }

    #[test]
    fn an_accepted_step_has_no_rejection() {
        let saved = serde_json::to_value(Entry::new(1, "accept", &[], &[], None)).unwrap();
        let want = json!({
            "step": 1, "action": "accept", "n_total": 1, "n_fail": 0, "failure_patterns": [],
        });
        assert_eq!(saved, want);
        assert_eq!(
            serde_json::from_value::<Entry>(saved).unwrap().rejected,
            None
        );
    }
}
