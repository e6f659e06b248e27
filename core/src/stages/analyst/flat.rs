//! The analyst's answer in schema-bound mode: one small change in a flat object, turned into an
//! ordinary raw patch.
//!
//! Small models often get the shape right and the details wrong, so what can be repaired without
//! guessing is repaired, and the rest is dropped: a change that cannot apply is no proposal.

use serde_json::{Map, Value, json};

use super::{Input, Rules};
use crate::loose;
use crate::patch::Side;
use crate::stages::schema;
use crate::text;
use crate::update_mode::UpdateMode;

/// The operations a flat answer may name.
const OPS: [&str; 4] = ["append", "insert_after", "replace", "delete"];

/// Returns the fields of the answer, in the order in which they are written: first what is only
/// copied from the evidence, then what follows from it, last where it goes. A model that begins
/// with the conclusion repeats its instructions instead.
pub(super) fn fields(rules: &Rules) -> Vec<(&'static str, Value)> {
    let mut fields = match (rules.side, rules.mode) {
        (Side::Failure, UpdateMode::Patch | UpdateMode::Suggestions) => vec![
            ("kind", schema::text()),
            ("wrong", schema::text()),
            ("right", schema::text()),
        ],
        _ => Vec::new(),
    };
    fields.push(("pattern", schema::text()));
    match rules.mode {
        UpdateMode::Patch => fields.extend([
            ("content", schema::text()),
            ("op", schema::one_of(&OPS)),
            ("target", schema::text()),
        ]),
        UpdateMode::Suggestions => {
            fields.extend([("title", schema::text()), ("instruction", schema::text())]);
        }
        UpdateMode::FullRewrite => fields.push(("new_skill", schema::text())),
    }
    fields
}

/// Turns a flat answer into a raw patch; `None` if it has none of the fields.
pub(super) fn raw_patch(
    flat: &Map<String, Value>,
    input: &Input<'_>,
) -> Option<Map<String, Value>> {
    let mode = input.rules.mode;
    let known = |(name, _): &(&str, Value)| flat.contains_key(*name);
    if !fields(&input.rules).iter().any(known) && !flat.contains_key("rule") {
        return None;
    }
    let pattern = text::trim(&loose::field(flat, "pattern")).to_owned();
    let item = match mode {
        UpdateMode::FullRewrite => candidate(flat),
        _ if is_without_evidence(flat, &input.trajectories.text) => None,
        UpdateMode::Patch => edit(flat, input.skill),
        UpdateMode::Suggestions => suggestion(flat),
    };
    let count = input.trajectories.count;
    let mut raw = Map::new();
    raw.insert("batch_size".to_owned(), count.into());
    let (key, summary) = match input.rules.side {
        Side::Failure => (
            "failure_summary",
            json!([{"failure_type": pattern, "count": count, "description": ""}]),
        ),
        Side::Success => ("success_patterns", json!([pattern])),
    };
    raw.insert(key.to_owned(), summary);
    let items: Vec<Value> = item.into_iter().collect();
    raw.insert(
        "patch".to_owned(),
        json!({"reasoning": pattern, mode.payload_key(): items}),
    );
    Some(raw)
}

fn edit(flat: &Map<String, Value>, skill: &str) -> Option<Value> {
    let content = loose::first_field(flat, &["content", "rule"]);
    let content = text::trim(&content);
    let target = loose::field(flat, "target");
    let target = find_target(&target, skill);
    let op = loose::field(flat, "op").to_lowercase();
    if op == "delete" {
        return target.map(|target| json!({"op": "delete", "target": target}));
    }
    // What the skill already says is no proposal; a replacement by nothing is a slip.
    let bare = content.trim_start_matches(['-', '*', ' ']);
    if bare.is_empty() || skill.contains(bare) || is_about_one_task(bare) {
        return None;
    }
    match (op.as_str(), target) {
        ("replace", Some(target)) => {
            Some(json!({"op": "replace", "target": target, "content": content}))
        }
        ("insert_after", Some(target)) => {
            Some(json!({"op": "insert_after", "target": target, "content": content}))
        }
        _ => Some(json!({"op": "append", "content": content})),
    }
}

/// Whether the evidence that was to be copied is no evidence: right is the same as wrong, or
/// neither stands in the trajectories, as when a model repeats the example of its instructions.
/// An answer that copies nothing is judged by its rule alone.
fn is_without_evidence(flat: &Map<String, Value>, shown: &str) -> bool {
    let copied = |name: &str| text::trim(&loose::field(flat, name)).to_owned();
    let (wrong, right) = (copied("wrong"), copied("right"));
    let is_shown = |part: &str| !part.is_empty() && shown.contains(part);
    let is_blank = wrong.is_empty() && right.is_empty();
    !is_blank && (wrong == right || !(is_shown(&wrong) || is_shown(&right)))
}

/// Whether a rule speaks of a task by its position in the prompt ("Task 3"), which means nothing
/// outside it.
fn is_about_one_task(rule: &str) -> bool {
    rule.match_indices("Task ").any(|(at, word)| {
        let rest = rule.get(at + word.len()..).unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Returns the part of the skill that a target names: as it stands, or without the blanks and
/// quotes a model put around it.
fn find_target(target: &str, skill: &str) -> Option<String> {
    let trimmed = text::trim(target);
    let bare = trimmed.trim_matches(['"', '\'', '`']);
    [target, trimmed, bare]
        .into_iter()
        .find(|target| !text::is_blank(target) && skill.contains(target))
        .map(str::to_owned)
}

fn suggestion(flat: &Map<String, Value>) -> Option<Value> {
    let instruction = loose::first_field(flat, &["instruction", "rule"]);
    let instruction = text::trim(&instruction);
    (!instruction.is_empty()).then(|| {
        json!({
            "type": "add_rule",
            "title": loose::field(flat, "title"),
            "motivation": loose::field(flat, "pattern"),
            "instruction": instruction,
            "priority_hint": "medium",
        })
    })
}

fn candidate(flat: &Map<String, Value>) -> Option<Value> {
    let document = loose::field(flat, "new_skill");
    let summary = loose::field(flat, "pattern");
    (!text::is_blank(&document))
        .then(|| json!({"title": summary, "change_summary": [summary], "new_skill": document}))
}
