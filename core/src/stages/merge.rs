//! Merging: many patches become one, level by level, failures and successes apart, then both.
//!
//! The tree is planned here and driven by the caller: [`batches`] cuts one level, each batch of two
//! or more is one call ([`prompt`], [`parse`]), a batch of one passes through; [`finish`] says
//! whether both sides need the final call ([`final_prompt`], [`parse_final`]).
//! Source: training spec, 6.4.

mod flat;

use std::ops::Range;

use serde_json::{Value, json};

use super::prompts::Set;
use super::user::Text;
use super::{AnswerMode, schema};
use crate::job::Prompt;
use crate::json_extract;
use crate::patch::{self, Patch, Side};
use crate::update_mode::UpdateMode;

/// Stage label.
pub const LABEL: &str = "merge";

/// Returns the upper limit of the answer, in tokens.
#[must_use]
pub const fn max_tokens(mode: UpdateMode) -> u32 {
    super::analyst::max_tokens(mode)
}

/// Cuts `n` patches into the batches of one level; sizes below 2 act as 2. One patch or none needs
/// no level.
#[must_use]
pub fn batches(n: usize, merge_batch_size: usize) -> Vec<Range<usize>> {
    let size = merge_batch_size.max(2);
    (0..n)
        .step_by(size)
        .map(|start| start..n.min(start.saturating_add(size)))
        .collect()
}

/// What the model is shown.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The side whose patches these are.
    pub side: Side,
    /// Update mode.
    pub mode: UpdateMode,
    /// Answer mode.
    pub answers: AnswerMode,
    /// The current skill.
    pub skill: &'a str,
    /// The optimizer's memory, "" if none.
    pub meta_skill: &'a str,
    /// The batch.
    pub patches: &'a [Patch],
    /// Level of the tree, from 1.
    pub level: u32,
}

/// Renders the call of one batch. The user text ends with the patches, a JSON array.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let text = Text::default()
        .meta_skill(input.meta_skill)
        .skill(input.skill);
    let side = input.side.name();
    if input.answers == AnswerMode::SchemaBound {
        let items: Vec<&Value> = all_items(input.patches, input.mode).collect();
        return flat::prompt(text, &items, input.mode, prompts);
    }
    let (n, level) = (input.patches.len(), input.level);
    let intro = format!("{n} patches made from {side} trajectories (merge level {level}):");
    let patches = input.patches.iter().cloned().map(Value::Object).collect();
    let user = text.line(&intro).finish_with(&Value::Array(patches));
    let name = format!("merge_{side}{}", input.mode.suffix());
    schema::prompt(input.answers, LABEL, prompts.get(&name), user, &[])
}

/// The patch of a merge call.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The patch.
    pub patch: Patch,
    /// Whether the answer was unusable, so that the patches were concatenated.
    pub fallback: bool,
}

/// Reads the answer of one batch; without a usable one the items are concatenated in order.
#[must_use]
pub fn parse(answer: Option<&str>, input: &Input<'_>) -> Merged {
    let items = || all_items(input.patches, input.mode);
    let mut merged = read(answer, items().collect(), input.mode, input.answers);
    let Some(Value::Array(items)) = merged.patch.get_mut(input.mode.payload_key()) else {
        return merged;
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        // The level of a merged item is that of the merge; items that were only put side by side
        // keep the one they have.
        if !merged.fallback || !item.contains_key("merge_level") {
            item.insert("merge_level".to_owned(), input.level.into());
        }
    }
    merged
}

/// What the final call is shown.
#[derive(Clone, Copy, Debug)]
pub struct FinalInput<'a> {
    /// Update mode.
    pub mode: UpdateMode,
    /// Answer mode.
    pub answers: AnswerMode,
    /// The current skill.
    pub skill: &'a str,
    /// The optimizer's memory, "" if none.
    pub meta_skill: &'a str,
    /// The merged failure patch.
    pub failure: &'a Patch,
    /// The merged success patch.
    pub success: &'a Patch,
}

/// Returns the merged patch if it needs no final call: one side, or both, have no items.
#[must_use]
pub fn finish(failure: Option<&Patch>, success: Option<&Patch>, mode: UpdateMode) -> Option<Patch> {
    let filled = |patch: &&Patch| !patch::items(patch, mode).is_empty();
    match (failure.filter(filled), success.filter(filled)) {
        (Some(_), Some(_)) => None,
        (Some(patch), None) | (None, Some(patch)) => Some(patch.clone()),
        (None, None) => Some(patch::from_items("nothing to merge", Vec::new(), mode)),
    }
}

/// Renders the final call. The user text ends with both patches, a JSON array.
#[must_use]
pub fn final_prompt(input: &FinalInput<'_>, prompts: &Set) -> Prompt {
    let text = Text::default()
        .meta_skill(input.meta_skill)
        .skill(input.skill);
    if input.answers == AnswerMode::SchemaBound {
        let items: Vec<&Value> = final_items(input).collect();
        return flat::prompt(text, &items, input.mode, prompts);
    }
    let intro = match input.mode {
        UpdateMode::FullRewrite => "The two groups of candidates to unite:",
        UpdateMode::Patch | UpdateMode::Suggestions => {
            "The merged failure patch (high priority) and the merged success patch (lower priority):"
        }
    };
    let group = |name: &str, patch: &Patch| {
        let mut group = patch.clone();
        group.insert("group".to_owned(), name.into());
        Value::Object(group)
    };
    let groups = json!([
        group("failure", input.failure),
        group("success", input.success)
    ]);
    let user = text.line(intro).finish_with(&groups);
    let name = format!("merge_final{}", input.mode.suffix());
    schema::prompt(input.answers, LABEL, prompts.get(&name), user, &[])
}

/// Reads the final answer; without a usable one the failure items come first, then the success
/// items.
#[must_use]
pub fn parse_final(answer: Option<&str>, input: &FinalInput<'_>) -> Merged {
    read(
        answer,
        final_items(input).collect(),
        input.mode,
        input.answers,
    )
}

fn final_items<'a>(input: &FinalInput<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    let mode = input.mode;
    [input.failure, input.success]
        .into_iter()
        .flat_map(move |patch| patch::items(patch, mode))
}

fn all_items(patches: &[Patch], mode: UpdateMode) -> impl Iterator<Item = &Value> {
    patches
        .iter()
        .flat_map(move |patch| patch::items(patch, mode))
}

fn read(answer: Option<&str>, items: Vec<&Value>, mode: UpdateMode, answers: AnswerMode) -> Merged {
    let object = answer.and_then(json_extract::object);
    let usable = object.and_then(|object| match object.get(mode.payload_key()) {
        Some(Value::Array(list)) if list.iter().all(Value::is_object) => Some(object),
        _ if answers == AnswerMode::SchemaBound => flat::patch(&object, &items, mode),
        _ => None,
    });
    match usable {
        Some(patch) => Merged {
            patch,
            fallback: false,
        },
        None => {
            let items = items.into_iter().cloned().collect();
            let reasoning = "concatenated: the merge call gave no usable answer";
            Merged {
                patch: patch::from_items(reasoning, items, mode),
                fallback: true,
            }
        }
    }
}
