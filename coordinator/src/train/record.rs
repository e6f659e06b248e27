//! The step record (`history.json`, `step_record.json`; training spec 2.10).

use serde_json::{Map, Value};

/// Fields in the order in which people read them; others follow.
const ORDER: &[&str] = &[
    "step",
    "epoch",
    "step_in_epoch",
    "action",
    "rollout_hard",
    "rollout_soft",
    "rollout_n",
    "accumulation_batches",
    "n_patches",
    "n_failure_patches",
    "n_success_patches",
    "n_edits_merged",
    "n_edits_ranked",
    "edit_budget",
    "lr_control_mode",
    "lr_decision",
    "support_counts",
    "candidate_hash",
    "candidate_skill_len",
    "rewrite_change_summary",
    "edit_apply_summary",
    "selection_hard",
    "selection_soft",
    "gate_metric",
    "candidate_gate_score",
    "current_score",
    "best_score",
    "best_step",
    "current_origin",
    "best_origin",
    "score_is_stale",
    "n_execution_lapse_notes",
    "n_appendix_notes_added",
    "n_appendix_notes_total",
    "n_appendix_notes_consolidated",
    "skill_len",
    "tokens",
];

/// Brings a record's fields into their order.
pub(super) fn ordered(mut record: Map<String, Value>) -> Map<String, Value> {
    let mut sorted = Map::new();
    for name in ORDER {
        if let Some(value) = record.shift_remove(*name) {
            sorted.insert((*name).to_owned(), value);
        }
    }
    sorted.extend(record);
    sorted
}

/// Rounds to six decimals.
pub(super) fn round6(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}
