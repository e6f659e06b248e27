//! Counterparts of the reference's optimizer stages and of what surrounds them; see the parent
//! module.

mod answers;
mod merging;
mod patches;
mod records;

use serde_json::{Map, Value};
use skillopt_core::stages::AnswerMode;
use skillopt_core::update_mode::UpdateMode;

use super::Outcome;

/// The vectors were made with models that answer in free text.
const FREE: AnswerMode = AnswerMode::Free;

pub(super) fn call(function: &str, case: &Value) -> Outcome {
    let input = &case["input"];
    match function {
        "analyst_result" => answers::analyst(input),
        "rank_and_select" => answers::ranking(input),
        "coerce_nonnegative_int" => answers::coerce(input),
        "decide_autonomous_learning_rate" => answers::rate(input),
        "rewrite_skill_from_suggestions" => answers::rewrite(input),
        "run_slow_update" => answers::slow_update(input),
        "run_meta_skill" => answers::meta_skill(input),
        "merge_patches" => merging::merge(input),
        "normalise_patches" => patches::normalise(input),
        "truncate_payload" => patches::truncate(input),
        "normalize_update_mode" => patches::update_mode(input),
        "normalise_lr_control_mode" => patches::control(input),
        "normalise_longitudinal_pair_policy" => patches::pair_policy(input),
        "short_item_summary" => patches::summary(input),
        name if name.ends_with(".round_trip") => patches::round_trip(name, input),
        "minibatch_groups" => records::groups(input),
        "fmt_trajectory" => records::conversation(input),
        "build_comparison_pairs" => records::pairs(input),
        "filter_longitudinal_pairs" => records::filter_pairs(input),
        "safe_pair_id" => records::safe_id(input),
        "extract_failure_patterns" => records::failure_patterns(case),
        "compute_task_type_buckets" => records::buckets(input),
        "redact_value" => records::redacted(case),
        _ => Err(format!("no counterpart for `{function}`")),
    }
}

fn mode(input: &Value) -> Result<UpdateMode, String> {
    UpdateMode::parse(input["update_mode"].as_str().unwrap_or_default()).map_err(|e| e.to_string())
}

/// Returns what the scripted model says: `None` if its call fails.
fn answer(response: &Value) -> Option<String> {
    match response {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.contains_key("raise") => None,
        Value::Null => Some("no answer is left".to_owned()),
        other => Some(other.to_string()),
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the objects of a list.
fn objects(value: &Value) -> Vec<&Map<String, Value>> {
    list(value).iter().filter_map(Value::as_object).collect()
}
