//! The merge tree, driven with a scripted model.

use serde_json::{Value, json};
use skillopt_core::patch::{self, Patch, Side};
use skillopt_core::stages::prompts::Set;
use skillopt_core::stages::{self, merge};
use skillopt_core::update_mode::UpdateMode;

use super::super::Outcome;
use super::{FREE, answer, list, mode, objects};

/// A scripted model: its answers are used in call order.
struct Script<'a> {
    answers: std::slice::Iter<'a, Value>,
    calls: Vec<Value>,
}

impl Script<'_> {
    fn ask(&mut self, mode: UpdateMode) -> Option<String> {
        self.calls.push(json!({
            "stage": merge::LABEL,
            "max_completion_tokens": merge::max_tokens(mode),
            "retries": stages::RETRIES,
        }));
        answer(self.answers.next().unwrap_or(&Value::Null))
    }
}

pub(super) fn merge(input: &Value) -> Outcome {
    let mode = mode(input)?;
    let size = input["merge_batch_size"]
        .as_u64()
        .and_then(|n| usize::try_from(n).ok());
    let mut script = Script {
        answers: list(&input["optimizer_responses"]).iter(),
        calls: Vec::new(),
    };
    let mut side = |side: Side, key: &str| {
        let patches = objects(&input[key]).into_iter().cloned().collect();
        tree(side, mode, patches, size.unwrap_or(0), &mut script)
    };
    let failure = side(Side::Failure, "failure_patches");
    let success = side(Side::Success, "success_patches");
    let merged = merge::finish(failure.as_ref(), success.as_ref(), mode);
    let merged = merged.unwrap_or_else(|| {
        let (failure, success) = (failure.unwrap_or_default(), success.unwrap_or_default());
        let shown = merge::FinalInput {
            mode,
            answers: FREE,
            skill: "# Skill",
            meta_skill: "",
            failure: &failure,
            success: &success,
        };
        let _ = merge::final_prompt(&shown, &Set::default());
        merge::parse_final(script.ask(mode).as_deref(), &shown).patch
    });
    Ok(json!({
        "items": patch::items(&merged, mode),
        "n_calls": script.calls.len(),
        "calls": script.calls,
    }))
}

fn tree(
    side: Side,
    mode: UpdateMode,
    mut patches: Vec<Patch>,
    size: usize,
    script: &mut Script<'_>,
) -> Option<Patch> {
    let mut level = 1;
    while patches.len() > 1 {
        let batches = merge::batches(patches.len(), size);
        patches = batches
            .into_iter()
            .map(|batch| match &patches[batch] {
                [one] => one.clone(),
                batch => {
                    let shown = merge::Input {
                        side,
                        mode,
                        answers: FREE,
                        skill: "# Skill",
                        meta_skill: "",
                        patches: batch,
                        level,
                    };
                    let _ = merge::prompt(&shown, &Set::default());
                    merge::parse(script.ask(mode).as_deref(), &shown).patch
                }
            })
            .collect();
        level += 1;
    }
    patches.pop()
}
