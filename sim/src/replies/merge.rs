//! Merging patches: equal edits are joined and their support added.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value, json};

use super::Call;
use super::proposal::candidate;
use crate::keys;
use crate::markers::Markers;
use crate::stage::{Mode, Stage};

/// Fields that make up the text of an edit, in order.
const TEXT_FIELDS: [&str; 5] = ["op", "target", "content", "instruction", "new_skill"];

/// Returns the key and the merged patch.
pub(super) fn reply(stage: Stage, call: &Call<'_>) -> (String, String) {
    let mode = Mode::of(call.sys);
    let edits = collect(&trailing_array(call.user), mode.payload_key());
    let texts: Vec<&str> = edits.iter().map(|(text, _)| text.as_str()).collect();
    let key = keys::merge(stage, call, &texts);
    let merged = if mode == Mode::FullRewrite {
        one_candidate(stage, &edits)
    } else {
        join(stage, edits)
    };
    let reasoning = "Equal proposals were joined, the best supported ones come first.";
    let answer = json!({"reasoning": reasoning, mode.payload_key(): merged});
    (key, answer.to_string())
}

/// Returns the array that the message ends with: from the first line start that parses.
fn trailing_array(user: &str) -> Vec<Value> {
    memchr::memmem::find_iter(user.as_bytes(), "\n[")
        .find_map(|start| serde_json::from_str(user.get(start..)?).ok())
        .unwrap_or_default()
}

/// Returns the edits of all patches, each with its text.
fn collect(patches: &[Value], payload_key: &str) -> Vec<(String, Map<String, Value>)> {
    let payload = |patch: &Value| -> Option<Vec<Value>> {
        let found = patch
            .get(payload_key)
            .or_else(|| patch.get("patch")?.get(payload_key))?;
        found.as_array().cloned()
    };
    patches
        .iter()
        .filter_map(payload)
        .flatten()
        .filter_map(|edit| match edit {
            Value::Object(edit) => Some((edit_text(&edit), edit)),
            _ => None,
        })
        .collect()
}

fn edit_text(edit: &Map<String, Value>) -> String {
    let mut text = String::new();
    for field in TEXT_FIELDS {
        if let Some(part) = edit.get(field).and_then(Value::as_str) {
            text.push_str(part);
            text.push('|');
        }
    }
    text
}

/// Joins edits of equal text: support falling, then by text.
fn join(stage: Stage, edits: Vec<(String, Map<String, Value>)>) -> Vec<Value> {
    let mut joined: BTreeMap<String, (u64, Map<String, Value>)> = BTreeMap::new();
    for (text, edit) in edits {
        let support = support_of(&edit);
        match joined.entry(text) {
            Entry::Vacant(entry) => {
                entry.insert((support, edit));
            }
            Entry::Occupied(mut entry) => {
                let sum = &mut entry.get_mut().0;
                *sum = sum.saturating_add(support);
            }
        }
    }
    let mut joined: Vec<_> = joined.into_values().collect();
    // The sort is stable: equal support stays in the order of the texts.
    joined.sort_by_key(|(support, _)| std::cmp::Reverse(*support));
    joined
        .into_iter()
        .map(|(support, edit)| finish(stage, support, edit))
        .collect()
}

fn support_of(edit: &Map<String, Value>) -> u64 {
    edit.get("support_count")
        .and_then(Value::as_u64)
        .unwrap_or(1)
}

/// Writes the support and the source at the end of an edit; its level is the caller's business.
fn finish(stage: Stage, support: u64, mut edit: Map<String, Value>) -> Value {
    edit.shift_remove("merge_level");
    edit.shift_remove("support_count");
    let source = edit
        .shift_remove("source_type")
        .filter(Value::is_string)
        .unwrap_or_else(|| json!(source_of(stage)));
    edit.insert("support_count".to_owned(), json!(support));
    edit.insert("source_type".to_owned(), source);
    Value::Object(edit)
}

fn source_of(stage: Stage) -> &'static str {
    if stage == Stage::MergeSuccess {
        "success"
    } else {
        "failure"
    }
}

/// Returns one candidate that lists every marker of the others; none if there are none.
fn one_candidate(stage: Stage, edits: &[(String, Map<String, Value>)]) -> Vec<Value> {
    let mut markers = Markers::default();
    let mut support = 0u64;
    for (_, edit) in edits {
        markers.scan(
            edit.get("new_skill")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
        support = support.saturating_add(support_of(edit));
    }
    match candidate(&markers) {
        Value::Object(merged) if !edits.is_empty() => vec![finish(stage, support, merged)],
        _ => Vec::new(),
    }
}
