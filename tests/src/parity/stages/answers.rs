//! What is read out of model answers.

use serde_json::{Value, json};
use skillopt_core::patch::{Patch, Side};
use skillopt_core::stages::prompts::Set;
use skillopt_core::stages::{self, analyst, meta_skill, ranking, rate, rewrite, slow_update};
use skillopt_core::trajectory::Rendered;
use skillopt_core::update_mode::UpdateMode;

use super::super::Outcome;
use super::{FREE, answer, mode};

fn call(stage: &str, max_tokens: u32) -> Value {
    json!({"stage": stage, "max_completion_tokens": max_tokens, "retries": stages::RETRIES})
}

fn size(value: &Value) -> usize {
    value
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(0)
}

/// Makes a patch of `n` different items.
fn numbered(n: usize, mode: UpdateMode) -> Patch {
    let items =
        (0..n).map(|i| json!({"op": "append", "title": i.to_string(), "content": i.to_string()}));
    skillopt_core::patch::from_items("", items.collect(), mode)
}

pub(super) fn analyst(input: &Value) -> Outcome {
    let side = match input["analyst"].as_str() {
        Some("success") => Side::Success,
        _ => Side::Failure,
    };
    let rules = analyst::Rules {
        side,
        mode: mode(input)?,
        answers: FREE,
        budget: Some(size(&input["edit_budget"])),
        notes: input["skill_aware"] == true && input["emit_appendix_notes"] == true,
    };
    let trajectories = Rendered {
        text: "one".to_owned(),
        count: 1,
    };
    let shown = analyst::Input {
        rules,
        skill: "# Skill",
        step_buffer: "",
        meta_skill: "",
        trajectories: &trajectories,
        failure_types: &[],
    };
    let _ = analyst::prompt(&shown, &Set::default());
    let result = analyst::parse(answer(&input["optimizer_response"]).as_deref(), &shown);
    let calls = [call(analyst::LABEL, analyst::max_tokens(rules.mode))];
    Ok(json!({"result": result, "calls": calls}))
}

pub(super) fn ranking(input: &Value) -> Outcome {
    let mode = mode(input)?;
    let (n_items, budget) = (size(&input["n_items"]), size(&input["max_edits"]));
    let patch = numbered(n_items, mode);
    let plan = ranking::plan(n_items, Some(budget), mode);
    let (selection, path, stages) = if plan == ranking::Plan::Ask {
        let shown = ranking::Input {
            mode,
            answers: FREE,
            skill: "# Skill",
            meta_skill: "",
            patch: &patch,
            budget,
        };
        let _ = ranking::prompt(&shown, &Set::default());
        let answer = answer(&input["optimizer_response"]);
        let selection = ranking::parse(answer.as_deref(), &shown);
        let path = if selection.fallback {
            "fallback"
        } else {
            "optimizer"
        };
        (selection, path, vec![ranking::LABEL])
    } else {
        let path = if plan == ranking::Plan::Keep {
            "passthrough"
        } else {
            "fallback"
        };
        (ranking::without_call(&patch, mode, plan), path, vec![])
    };
    Ok(json!({
        "path": path,
        "selected_indices": selection.indices,
        "n_calls": stages.len(),
        "stages": stages,
    }))
}

pub(super) fn coerce(input: &Value) -> Outcome {
    Ok(json!({"value": skillopt_core::rate::coerce(&input["value"])}))
}

pub(super) fn rate(input: &Value) -> Outcome {
    let mode = mode(input)?;
    let n_items = size(&input["n_items"]);
    let patch = numbered(n_items, mode);
    let shown = rate::Input {
        mode,
        answers: FREE,
        skill: "# Skill",
        meta_skill: "",
        step_buffer: "",
        patch: &patch,
        rollout_n: 1,
        rollout_hard: 0.0,
        rollout_soft: 0.0,
    };
    let _ = rate::prompt(&shown, &Set::default());
    let decision = rate::parse(answer(&input["optimizer_response"]).as_deref(), n_items);
    let mut decision = serde_json::to_value(decision).map_err(|e| e.to_string())?;
    if let Some(map) = decision.as_object_mut() {
        map.remove("raw_response");
        map.remove("error");
    }
    Ok(json!({"decision": decision, "calls": [call(rate::LABEL, rate::MAX_TOKENS)]}))
}

pub(super) fn rewrite(input: &Value) -> Outcome {
    let patch = numbered(size(&input["n_suggestions"]), UpdateMode::Suggestions);
    if !rewrite::is_needed(&patch) {
        return Ok(json!({"result": null, "calls": []}));
    }
    let shown = rewrite::Input {
        answers: FREE,
        skill: "# Skill",
        patch: &patch,
        step_buffer: "",
    };
    let _ = rewrite::prompt(&shown, &Set::default());
    let result = rewrite::parse(answer(&input["optimizer_response"]).as_deref());
    let mut call = call(rewrite::LABEL, rewrite::MAX_TOKENS);
    // The configuration names the effort; the reference was run with its default.
    call["reasoning_effort"] = "high".into();
    Ok(json!({"result": result, "calls": [call]}))
}

pub(super) fn slow_update(input: &Value) -> Outcome {
    let written = slow_update::parse(answer(&input["optimizer_response"]).as_deref());
    let result =
        written.map(|w| json!({"reasoning": w.reasoning, "slow_update_content": w.content}));
    Ok(json!({"result": result}))
}

pub(super) fn meta_skill(input: &Value) -> Outcome {
    let written = meta_skill::parse(answer(&input["optimizer_response"]).as_deref());
    let result =
        written.map(|w| json!({"reasoning": w.reasoning, "meta_skill_content": w.content}));
    Ok(json!({"result": result}))
}
