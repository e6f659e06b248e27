//! Patches as the optimizer writes them: JSON objects whose payload list depends on the mode.
//!
//! They stay JSON, since unknown fields travel along. Source: training spec, 1.7 ②, 2.1, 2.2, 2.6.

mod round_trip;

use serde_json::{Map, Value, json};

use crate::loose;
use crate::update_mode::UpdateMode;

pub use round_trip::{edit, patch, raw_patch, rollout_result, slow_update_result};

/// A patch: `{reasoning, <payload key>: [item]}` and whatever else the model wrote.
pub type Patch = Map<String, Value>;

/// Which results a patch was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Failed rollouts.
    Failure,
    /// Successful rollouts.
    Success,
}

impl Side {
    /// Returns `failure` or `success`, as written into `source_type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Success => "success",
        }
    }
}

/// Returns the payload items; a missing or malformed list has none.
#[must_use]
pub fn items(patch: &Patch, mode: UpdateMode) -> &[Value] {
    patch
        .get(mode.payload_key())
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns how many trajectories stand behind each item, 0 where it does not say (step record,
/// training spec 2.10).
#[must_use]
pub fn support_counts(patch: &Patch, mode: UpdateMode) -> Vec<i64> {
    items(patch, mode)
        .iter()
        .map(|item| {
            item.get("support_count")
                .and_then(loose::integer)
                .unwrap_or(0)
        })
        .collect()
}

/// Makes a patch from a reason and items.
#[must_use]
pub fn from_items(reasoning: &str, items: Vec<Value>, mode: UpdateMode) -> Patch {
    let mut patch = Patch::new();
    patch.insert("reasoning".to_owned(), reasoning.into());
    patch.insert(mode.payload_key().to_owned(), Value::Array(items));
    patch
}

/// Keeps the first `max` items.
pub fn truncate(patch: &mut Patch, mode: UpdateMode, max: usize) {
    if let Some(Value::Array(items)) = patch.get_mut(mode.payload_key()) {
        items.truncate(max);
    }
}

/// The usable patches of a step, by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalised {
    /// Patches made from failures.
    pub failure: Vec<Patch>,
    /// Patches made from successes.
    pub success: Vec<Patch>,
}

/// Takes the patches out of raw analyst answers, drops those without items and gives every item
/// a default `source_type` and `support_count`.
#[must_use]
pub fn normalise(raw_patches: &[Value], mode: UpdateMode) -> Normalised {
    let mut sides = Normalised::default();
    for raw in raw_patches.iter().filter_map(Value::as_object) {
        let Some(patch) = normalise_one(raw, mode) else {
            continue;
        };
        if raw.get("source_type").and_then(Value::as_str) == Some("success") {
            sides.success.push(patch);
        } else {
            sides.failure.push(patch);
        }
    }
    sides
}

fn normalise_one(raw: &Map<String, Value>, mode: UpdateMode) -> Option<Patch> {
    let mut patch = match raw.get("patch") {
        Some(inner) => inner.as_object()?.clone(),
        None => raw.clone(),
    };
    let source = raw
        .get("source_type")
        .filter(|value| loose::is_truthy(value))
        .cloned()
        .unwrap_or_else(|| "failure".into());
    // The model writes `batch_size`: whatever is no number counts as one trajectory (D2).
    let support = raw.get("batch_size").and_then(loose::integer).unwrap_or(1);
    let items = patch.get_mut(mode.payload_key())?.as_array_mut()?;
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.entry("source_type").or_insert_with(|| source.clone());
        item.entry("support_count")
            .or_insert_with(|| support.max(1).into());
    }
    (!items.is_empty()).then_some(patch)
}

/// Returns what the step buffer keeps of a rejected item (training spec 2.9).
#[must_use]
pub fn summary(item: &Value, mode: UpdateMode) -> Value {
    let empty = Map::new();
    let item = item.as_object().unwrap_or(&empty);
    let or = |key: &str, default: &str| item.get(key).map_or_else(|| default.into(), loose::text);
    match mode {
        UpdateMode::Patch => json!({
            "op": or("op", "?"), "content": or("content", ""), "target": or("target", ""),
        }),
        UpdateMode::Suggestions => json!({
            "type": or("type", "?"), "title": or("title", ""), "instruction": or("instruction", ""),
        }),
        UpdateMode::FullRewrite => json!({
            "title": or("title", ""),
            "change_summary": item.get("change_summary").map_or_else(Vec::new, texts),
            "source_type": or("source_type", ""),
        }),
    }
}

/// Returns the elements of a list as texts; anything but a list has none.
#[must_use]
pub fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .map(|list| list.iter().map(loose::text).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loose::tests::any_json;

    #[test]
    fn model_metadata_never_fails() {
        for (batch_size, want) in [
            (json!(8), 8),
            (json!("5"), 5),
            (json!("8 trajectories"), 1),
            (json!(-3), 1),
            (json!([2]), 1),
            (json!(1e300), 1),
            (Value::Null, 1),
        ] {
            let raw = json!({"batch_size": batch_size, "patch": {"edits": [{"op": "append"}]}});
            let sides = normalise(&[raw], UpdateMode::Patch);
            assert_eq!(sides.failure[0]["edits"][0]["support_count"], want);
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_normalised(raw in prop::collection::vec(any_json(), 0..4)) {
            for mode in [UpdateMode::Patch, UpdateMode::Suggestions, UpdateMode::FullRewrite] {
                let sides = normalise(&raw, mode);
                for patch in sides.failure.iter().chain(&sides.success) {
                    prop_assert!(!items(patch, mode).is_empty());
                }
            }
            for value in &raw {
                let _ = summary(value, UpdateMode::Patch);
                let _ = raw_patch(value);
            }
        }
    }
}
