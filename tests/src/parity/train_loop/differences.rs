//! What a case wants of us: its expectation after the required differences of the training spec,
//! chapter 11. Each rule looks at the facts of a case, never at its name.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use skillopt_core::skill::Folder;
use skillopt_core::text;

use super::run;
use super::toy::Asked;

/// What a run must come to.
pub(super) struct Wanted {
    /// The parts of `expected` that are compared.
    pub(super) left: Value,
    /// Optimizer calls in order.
    pub(super) calls: Vec<Asked>,
    /// Most items evaluated by split.
    pub(super) evaluated: BTreeMap<&'static str, usize>,
}

/// Works out what a case wants.
pub(super) fn wanted(input: &Value, expected: &Value) -> Result<Wanted, String> {
    let mut left = expected.clone();
    if let Some(map) = left.as_object_mut() {
        for name in ["events", "files", "prompt_flags"] {
            map.shift_remove(name);
        }
    }
    let mut wanted = Wanted {
        left,
        calls: calls(expected),
        evaluated: evaluated(expected),
    };
    if text::is_blank(input["skill_init"].as_str().unwrap_or_default()) {
        no_leading_blank_lines(&mut wanted.left);
    }
    let config = &input["config"];
    if config["lr_control_mode"] == "none" && config["skill_update_mode"].is_null() {
        unlimited(input, &mut wanted)?;
    }
    Ok(wanted)
}

/// Reads the calls off the events, which tell in which step each was made, and their flags off
/// the list beside them.
fn calls(expected: &Value) -> Vec<Asked> {
    let steps = expected["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let mut flags = expected["prompt_flags"].as_array().into_iter().flatten();
    let mut step = 0;
    let mut calls = Vec::new();
    for event in expected["events"].as_array().into_iter().flatten() {
        if let Some(number) = event["rollout"].as_str().and_then(step_number) {
            step = number;
        }
        if event["call"].is_null() {
            continue;
        }
        let flags = flags.next().unwrap_or(&Value::Null);
        let record = steps.iter().find(|s| s["step"] == step);
        // D18: a budget of zero needs no ranking call.
        if event["call"] == "ranking" && record.is_some_and(|r| r["edit_budget"] == 0) {
            continue;
        }
        calls.push(Asked {
            stage: flags["stage"].as_str().unwrap_or_default().to_owned(),
            has_step_buffer: flags["has_step_buffer"] == true,
            has_meta_skill: flags["has_meta_skill"] == true,
        });
    }
    calls
}

fn step_number(folder: &str) -> Option<u64> {
    let rest = folder.strip_prefix("steps/step_")?;
    rest.get(..4)?.parse().ok()
}

fn evaluated(expected: &Value) -> BTreeMap<&'static str, usize> {
    let mut evaluated = BTreeMap::new();
    for event in expected["events"].as_array().into_iter().flatten() {
        let Some(folder) = event["rollout"].as_str() else {
            continue;
        };
        let split = match folder.rsplit('/').next().unwrap_or_default() {
            _ if folder.starts_with("test_eval") => "test",
            name if name.contains("selection_eval") => "val",
            _ => "train",
        };
        let n = event["n"].as_u64().unwrap_or_default();
        *evaluated.entry(split).or_default() += usize::try_from(n).unwrap_or(usize::MAX);
    }
    evaluated
}

/// D13: text appended to a blank skill starts without blank lines. Every hash and length of the
/// reference's document becomes that of the same document without them.
fn no_leading_blank_lines(left: &mut Value) {
    let old = left["best_skill"].as_str().unwrap_or_default().to_owned();
    let new = old.trim_start_matches('\n').to_owned();
    let hash = |text: &str| Value::from(Folder::of_document(text).hash_short());
    let replace = |value: Option<&mut Value>, from: &Value, to: &Value| {
        if let Some(value) = value.filter(|value| **value == *from) {
            *value = to.clone();
        }
    };
    let (old_len, new_len) = (text::length(&old).into(), text::length(&new).into());
    for step in left["steps"].as_array_mut().into_iter().flatten() {
        replace(step.get_mut("candidate_hash"), &hash(&old), &hash(&new));
        replace(step.get_mut("candidate_skill_len"), &old_len, &new_len);
        replace(step.get_mut("skill_len"), &old_len, &new_len);
    }
    for file in left["skill_files"].as_object_mut().into_iter().flatten() {
        replace(Some(file.1), &hash(&old), &hash(&new));
    }
    left["best_skill"] = new.into();
}

/// D17: `lr_control_mode: none` means no limit, at the analyst as at the selection. So the run
/// goes as the same one with a fixed budget that cuts nothing, which other cases check against
/// the reference; the record says `none` and no number. The reference's calls stay as they are.
fn unlimited(input: &Value, wanted: &mut Wanted) -> Result<(), String> {
    let mut generous = input.clone();
    generous["config"]["lr_control_mode"] = "fixed".into();
    generous["config"]["edit_budget"] = skillopt_core::budget::UNLIMITED.into();
    let mut left = run::run(&generous)?.left;
    let proposed: usize = input["optimizer_script"]["analyst"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|a| a["patch"]["edits"].as_array().map_or(0, Vec::len))
        .sum();
    for step in left["steps"].as_array_mut().into_iter().flatten() {
        step["edit_budget"] = Value::Null;
        step["lr_control_mode"] = "none".into();
        if step["n_edits_ranked"] != json!(proposed) {
            return Err(format!("a budget of 999 cut {proposed} edits: {step}"));
        }
    }
    // Only what the reference's summary has: ours also tells the configuration, which differs.
    if let Some(summary) = left["summary"].as_object_mut() {
        summary.retain(|key, _| wanted.left["summary"].get(key).is_some());
    }
    wanted.left = left;
    Ok(())
}
