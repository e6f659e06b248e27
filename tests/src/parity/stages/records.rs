//! Groups, trajectories, pairs and what a step records.

use serde_json::{Map, Value, json};
use skillopt_core::minibatch;
use skillopt_core::pairs::{self, Category, Policy, Rollout};
use skillopt_core::step_buffer::{self, Analysis};
use skillopt_core::{buckets, loose, trajectory};

use super::super::Outcome;
use super::{list, objects};

pub(super) fn groups(input: &Value) -> Outcome {
    let rows = objects(&input["results"]);
    let size = input["minibatch_size"]
        .as_u64()
        .and_then(|n| usize::try_from(n).ok());
    let settings = minibatch::Settings {
        failure_only: input["failure_only"] == true,
        size: size.ok_or("`minibatch_size` is no number")?,
        seed: input["random_seed"].as_u64(),
    };
    let groups: Vec<Value> = minibatch::groups(&rows, settings)
        .iter()
        .map(|group| {
            let ids: Vec<String> = group
                .members
                .iter()
                .map(|&i| loose::field(rows[i], "id"))
                .collect();
            json!({"source_type": group.side.name(), "ids": ids})
        })
        .collect();
    Ok(json!({"groups": groups}))
}

pub(super) fn conversation(input: &Value) -> Outcome {
    Ok(json!({"text": trajectory::conversation(list(&input["conversation"]))}))
}

pub(super) fn pairs(input: &Value) -> Outcome {
    let rollouts = |key: &str| -> Vec<Rollout<'_>> {
        let rows = objects(&input[key]).into_iter();
        rows.map(|row| Rollout {
            row,
            trajectory: "",
        })
        .collect()
    };
    let (prev, curr) = (rollouts("results_prev"), rollouts("results_curr"));
    let built = pairs::build(&objects(&input["items"]), &prev, &curr);
    let built = serde_json::to_value(built).map_err(|e| e.to_string())?;
    Ok(json!({"pairs": built}))
}

pub(super) fn filter_pairs(input: &Value) -> Outcome {
    let policy =
        Policy::parse(input["policy"].as_str().unwrap_or_default()).map_err(|e| e.to_string())?;
    let mut ids = Vec::new();
    for pair in list(&input["pairs"]) {
        let category: Category =
            serde_json::from_value(pair["category"].clone()).map_err(|e| e.to_string())?;
        if policy.keeps(category) {
            ids.push(&pair["id"]);
        }
    }
    Ok(json!({"ids": ids}))
}

pub(super) fn safe_id(input: &Value) -> Outcome {
    Ok(json!({"value": pairs::safe_id(input["value"].as_str().unwrap_or_default())}))
}

pub(super) fn failure_patterns(case: &Value) -> Outcome {
    let input = &case["input"];
    let rows = objects(&input["results"]);
    // The cases do not say who saw what: every analyst saw every result.
    let task_ids: Vec<String> = rows.iter().map(|row| loose::field(row, "id")).collect();
    let analyses: Vec<Analysis<'_>> = list(&input["analyst_patches"])
        .iter()
        .map(|raw_patch| Analysis {
            task_ids: &task_ids,
            raw_patch,
        })
        .collect();
    let patterns = step_buffer::failure_patterns(&rows, &analyses);
    // Where the case states a rule, it is checked here: no words of an analyst that saw several
    // kinds of failure label one of them.
    if let rule @ Value::String(_) = &case["right"]["patterns"] {
        let from_reason = |label: &str| {
            rows.iter()
                .any(|row| loose::field(row, "fail_reason").starts_with(label))
        };
        if patterns.iter().all(|p| from_reason(&p.pattern)) {
            return Ok(json!({"patterns": rule}));
        }
    }
    let patterns = serde_json::to_value(patterns).map_err(|e| e.to_string())?;
    Ok(json!({"patterns": patterns}))
}

pub(super) fn buckets(input: &Value) -> Outcome {
    let types: Vec<&str> = list(&input["task_types"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let buckets: Map<String, Value> = buckets::by_task_type(objects(&input["results"]), &types)
        .into_iter()
        .map(|(name, b)| {
            (
                name,
                json!({"total": b.total, "hard": b.hard, "soft": b.soft}),
            )
        })
        .collect();
    Ok(json!({"buckets": buckets}))
}

/// Differs from the reference on purpose (D36): it shows up to eight characters of a secret, we
/// show none. What is checked is ours; the case's spelling of a mask is then as good as any.
pub(super) fn redacted(case: &Value) -> Outcome {
    let secret = case["input"]["value"].as_str().unwrap_or_default();
    let shown = skillopt_runtime::redact::redact(secret, &[secret]);
    if !secret.is_empty() && shown.contains(secret) {
        return Err(format!("a secret is shown: `{shown}`"));
    }
    Ok(case["expected"].clone())
}
