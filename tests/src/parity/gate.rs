//! Counterparts of the gate and of the budget schedulers; see the parent module.

use serde_json::{Value, json};
use skillopt_core::budget::{Plan, Scheduler};
use skillopt_core::gate::{DEFAULT_LEADING_WORDS, Density, Origin, Scoring, Standing};
use skillopt_core::score::Score;

use super::Outcome;

pub(super) fn call(function: &str, case: &Value) -> Outcome {
    let input = &case["input"];
    match function {
        "select_gate_score" => {
            let score = Score {
                hard: number(input, "hard", 0.0)?,
                soft: number(input, "soft", 0.0)?,
            };
            let skill = input["skill_content"].as_str().unwrap_or_default();
            Ok(json!({"score": gate_score(input, score, skill)?}))
        }
        "compute_semantic_density" => {
            let skill = text(input, "skill_content")?;
            let density = density(input)?;
            Ok(json!({"density": density.of(skill)}))
        }
        "evaluate_gate" => evaluate(input),
        "gate_sequence" => sequence(input),
        "scheduler_sequence" => {
            let mut scheduler = Scheduler::new(plan(input)?);
            Ok(json!({"budgets": advance(&mut scheduler, input)}))
        }
        "scheduler_get" => {
            let step = input["step"].as_i64().ok_or("no step")?;
            Ok(json!({"budget": plan(input)?.budget(step)}))
        }
        "scheduler_resume" => {
            let state = serde_json::from_value(input["state"].clone()).map_err(show)?;
            let mut scheduler = Scheduler::resume(plan(input)?, state);
            let budgets = advance(&mut scheduler, input);
            Ok(json!({"budgets": budgets, "state": scheduler.state()}))
        }
        _ => Err(format!("no counterpart for `{function}`")),
    }
}

fn evaluate(input: &Value) -> Outcome {
    let mut standing = Standing {
        current: text(input, "current_skill")?.to_owned(),
        current_score: number(input, "current_score", 0.0)?,
        best: text(input, "best_skill")?.to_owned(),
        best_score: number(input, "best_score", 0.0)?,
        best_step: serde_json::from_value(input["best_step"].clone()).map_err(show)?,
    };
    let score = Score {
        hard: number(input, "cand_hard", 0.0)?,
        soft: number(input, "cand_soft", 0.0)?,
    };
    let step = input["global_step"].as_u64().ok_or("no step")?;
    let candidate = text(input, "candidate_skill")?.to_owned();
    let score = gate_score(input, score, &candidate)?;
    let action = standing
        .consider(candidate, score, Origin::Step(step))
        .map_err(show)?;
    // Cases with a score that is not finite compare the action only.
    let only_action = ["cand_hard", "cand_soft"]
        .iter()
        .any(|k| input[k].is_string());
    Ok(if only_action {
        json!({"action": action})
    } else {
        outcome(action.name(), &standing)
    })
}

fn sequence(input: &Value) -> Outcome {
    let mut standing = Standing::at_start("S0".to_owned(), number(input, "start_score", 0.0)?);
    let mut steps = Vec::new();
    for (i, candidate) in (1..).zip(input["candidates"].as_array().ok_or("no candidates")?) {
        let score = Score {
            hard: number(candidate, "hard", 0.0)?,
            soft: number(candidate, "soft", 0.0)?,
        };
        let skill = text(candidate, "skill")?.to_owned();
        let score = gate_score(input, score, &skill)?;
        let action = standing
            .consider(skill, score, Origin::Step(i))
            .map_err(show)?;
        steps.push(outcome(action.name(), &standing));
    }
    Ok(json!({"steps": steps}))
}

fn outcome(action: &str, standing: &Standing<String>) -> Value {
    json!({
        "action": action,
        "current_skill": standing.current,
        "current_score": standing.current_score,
        "best_skill": standing.best,
        "best_score": standing.best_score,
        "best_step": standing.best_step,
    })
}

fn gate_score(input: &Value, score: Score, skill: &str) -> Result<f64, String> {
    let metric = input["metric"].as_str().unwrap_or("hard");
    let with_density = input["use_semantic_density"] == true;
    let scoring = Scoring {
        metric: metric.parse().map_err(show)?,
        mixed_weight: number(input, "mixed_weight", 0.5)?,
        density: with_density.then(|| density(input)).transpose()?,
    };
    Ok(scoring.gate_score(score, skill))
}

fn density(input: &Value) -> Result<Density, String> {
    let weight = number(input, "semantic_density_weight", 0.05)?;
    Ok(match input.get("leading_words").and_then(Value::as_array) {
        Some(words) => Density::new(weight, words.iter().filter_map(Value::as_str)),
        None => Density::new(weight, DEFAULT_LEADING_WORDS),
    })
}

fn plan(input: &Value) -> Result<Plan, String> {
    let count = |key: &str| {
        let count = input[key].as_u64().and_then(|n| u32::try_from(n).ok());
        count.ok_or_else(|| format!("`{key}` is no count"))
    };
    Ok(Plan {
        schedule: text(input, "mode")?.parse().map_err(show)?,
        max: count("max_lr")?,
        min: count("min_lr")?,
        total_steps: count("total_steps")?,
    })
}

fn advance(scheduler: &mut Scheduler, input: &Value) -> Vec<u32> {
    let calls = input["n_calls"].as_u64().unwrap_or(0);
    (0..calls).map(|_| scheduler.advance()).collect()
}

/// Reads a number; `"nan"`, `"inf"` and `"-inf"` spell those that JSON has not.
fn number(input: &Value, key: &str, default: f64) -> Result<f64, String> {
    match input.get(key) {
        None => Ok(default),
        Some(Value::String(text)) => text.parse().map_err(show),
        Some(value) => value
            .as_f64()
            .ok_or_else(|| format!("`{key}` is no number")),
    }
}

fn text<'a>(input: &'a Value, key: &str) -> Result<&'a str, String> {
    input[key]
        .as_str()
        .ok_or_else(|| format!("`{key}` is no text"))
}

fn show(error: impl std::fmt::Display) -> String {
    error.to_string()
}
