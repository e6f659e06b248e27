//! The analyst's answer in schema-bound mode: one small change in a flat object, turned into an
//! ordinary raw patch.
//!
//! Small models often get the shape right and the details wrong, so what can be repaired without
//! guessing is repaired, and the rest is dropped: a change that cannot apply is no proposal.

use serde_json::{Map, Value, json};

use super::Input;
use crate::loose;
use crate::patch::Side;
use crate::stages::schema;
use crate::text;
use crate::update_mode::UpdateMode;

/// The operations a flat answer may name.
const OPS: [&str; 4] = ["append", "insert_after", "replace", "delete"];

/// Returns the fields of the answer.
pub(super) fn fields(mode: UpdateMode) -> Vec<(&'static str, Value)> {
    let mut fields = vec![("pattern", schema::text())];
    match mode {
        UpdateMode::Patch => fields.extend([
            ("op", schema::one_of(&OPS)),
            ("target", schema::text()),
            ("content", schema::text()),
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
    if !fields(mode).iter().any(known) && !flat.contains_key("rule") {
        return None;
    }
    let pattern = text::trim(&loose::field(flat, "pattern")).to_owned();
    let item = match mode {
        UpdateMode::Patch => edit(flat, input.skill),
        UpdateMode::Suggestions => suggestion(flat),
        UpdateMode::FullRewrite => candidate(flat),
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
    if bare.is_empty() || skill.contains(bare) {
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
