//! Typed forms of stored objects: reads what is there, writes exactly the documented fields.
//!
//! Source: training spec, 2.1, 2.2, 2.4, 2.6, 2.11.

use serde_json::{Map, Value, json};

use super::Patch;
use crate::loose;

/// Returns the typed form of an edit: known fields only, empty ones left out (2.1).
#[must_use]
pub fn edit(from: &Map<String, Value>) -> Map<String, Value> {
    let mut to = Map::new();
    let op = from.get("op").filter(|op| !op.is_null());
    to.insert("op".into(), op.cloned().unwrap_or_else(|| "append".into()));
    to.insert("content".into(), loose::field(from, "content").into());
    keep(from, &mut to, &["target"], loose::is_truthy);
    let present = |value: &Value| !value.is_null();
    keep(
        from,
        &mut to,
        &["support_count", "source_type", "merge_level"],
        present,
    );
    keep(
        from,
        &mut to,
        &["update_origin", "update_target"],
        loose::is_truthy,
    );
    to
}

/// Returns the typed form of a patch of edits (2.2).
#[must_use]
pub fn patch(from: &Map<String, Value>) -> Patch {
    let edits: Vec<Value> = from
        .get("edits")
        .and_then(Value::as_array)
        .map(|edits| edits.iter().filter_map(Value::as_object))
        .into_iter()
        .flatten()
        .map(|from| Value::Object(edit(from)))
        .collect();
    let mut to = Map::new();
    to.insert("reasoning".into(), loose::field(from, "reasoning").into());
    to.insert("edits".into(), Value::Array(edits));
    keep(from, &mut to, &["ranking_details"], loose::is_truthy);
    to
}

/// Returns the typed form of an analyst's answer, `None` if it holds no patch object (2.6).
#[must_use]
pub fn raw_patch(from: &Value) -> Option<Map<String, Value>> {
    let from = from.as_object()?;
    let inner = match from.get("patch") {
        Some(inner) => inner.as_object()?,
        None => from,
    };
    let mut to = Map::new();
    to.insert("patch".into(), Value::Object(patch(inner)));
    let source = loose::first_field(from, &["source_type"]);
    let source = if source.is_empty() {
        "failure".to_owned()
    } else {
        source
    };
    to.insert("source_type".into(), source.into());
    let size = from.get("batch_size").and_then(loose::integer).unwrap_or(0);
    to.insert("batch_size".into(), size.into());
    keep(
        from,
        &mut to,
        &["failure_summary", "success_patterns", "appendix_notes"],
        loose::is_truthy,
    );
    Some(to)
}

/// Returns the typed form of a rollout's result; unknown fields stay (2.4).
#[must_use]
pub fn rollout_result(from: &Map<String, Value>) -> Map<String, Value> {
    const OPTIONAL: &[&str] = &[
        "n_turns",
        "fail_reason",
        "task_type",
        "task_description",
        "predicted_answer",
        "question",
        "reference_text",
        "target_system_prompt",
        "target_user_prompt",
        "spreadsheet_preview",
    ];
    let mut to = Map::new();
    to.insert("id".into(), loose::field(from, "id").into());
    to.insert("hard".into(), json!(loose::number(from.get("hard"))));
    to.insert("soft".into(), json!(loose::number(from.get("soft"))));
    keep(from, &mut to, OPTIONAL, loose::is_truthy);
    for (key, value) in from {
        if !OPTIONAL.contains(&key.as_str()) && !to.contains_key(key) {
            to.insert(key.clone(), value.clone());
        }
    }
    to
}

/// Returns the typed form of a slow update's result (2.11).
#[must_use]
pub fn slow_update_result(from: &Map<String, Value>) -> Map<String, Value> {
    let mut to = Map::new();
    for key in ["reasoning", "slow_update_content"] {
        to.insert(key.into(), loose::field(from, key).into());
    }
    let present = |value: &Value| !value.is_null();
    keep(from, &mut to, &["action"], loose::is_truthy);
    keep(
        from,
        &mut to,
        &[
            "epoch",
            "time_s",
            "prev_hard",
            "curr_hard",
            "selection_hard",
            "selection_soft",
        ],
        present,
    );
    keep(
        from,
        &mut to,
        &["candidate_hash", "update_origin", "update_target"],
        loose::is_truthy,
    );
    to
}

/// Copies the fields whose values are wanted.
fn keep(
    from: &Map<String, Value>,
    to: &mut Map<String, Value>,
    keys: &[&str],
    wanted: impl Fn(&Value) -> bool,
) {
    for key in keys {
        if let Some(value) = from.get(*key).filter(|value| wanted(value)) {
            to.insert((*key).to_owned(), value.clone());
        }
    }
}
