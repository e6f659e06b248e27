//! Ranking: which of a merged patch's items fit the step's budget.
//!
//! Source: training spec, 6.5 with D18 and D25.

use serde_json::Value;

use super::prompts::Set;
use super::user::{Text, describe};
use super::{AnswerMode, schema};
use crate::job::Prompt;
use crate::json_extract;
use crate::patch::{self, Patch};
use crate::update_mode::UpdateMode;

/// Stage label.
pub const LABEL: &str = "ranking";
/// Upper limit of the answer, in tokens.
pub const MAX_TOKENS: u32 = super::MAX_TOKENS;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// All items fit: the patch stays as it is, no call.
    Keep,
    /// The budget is zero: nothing is selected, no call (D18).
    Nothing,
    /// Ask the model.
    Ask,
}

/// Returns what is to be done with `n_items` under a budget; `None` is no limit (D17). Full
/// rewrite is never ranked.
#[must_use]
pub const fn plan(n_items: usize, budget: Option<usize>, mode: UpdateMode) -> Plan {
    if matches!(mode, UpdateMode::FullRewrite) {
        return Plan::Keep;
    }
    match budget {
        None => Plan::Keep,
        Some(budget) if n_items <= budget => Plan::Keep,
        Some(0) => Plan::Nothing,
        Some(_) => Plan::Ask,
    }
}

/// What the model is shown.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Update mode.
    pub mode: UpdateMode,
    /// Answer mode.
    pub answers: AnswerMode,
    /// The current skill.
    pub skill: &'a str,
    /// The optimizer's memory, "" if none.
    pub meta_skill: &'a str,
    /// The merged patch.
    pub patch: &'a Patch,
    /// How many items may be kept.
    pub budget: usize,
}

/// Renders the call.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let name = match input.answers {
        AnswerMode::SchemaBound => "small_ranking",
        AnswerMode::Free if input.mode == UpdateMode::Suggestions => "ranking_suggestions",
        AnswerMode::Free => "ranking",
    };
    let (noun, items) = (
        input.mode.item_noun(),
        patch::items(input.patch, input.mode),
    );
    let user = Text::default()
        .meta_skill(input.meta_skill)
        .skill(input.skill)
        .line(&format!("The {} proposed {noun}:", items.len()))
        .line(&describe(items, input.mode))
        .line(&format!(
            "Select at most budget = {} of these {noun}.",
            input.budget
        ))
        .finish();
    let indices = schema::list(schema::integer());
    let fields = [("selected_indices", indices)];
    schema::prompt(input.answers, LABEL, prompts.get(name), user, &fields)
}

/// The selected items.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The patch with the selected items alone, in the order of selection.
    pub patch: Patch,
    /// Their positions in the merged patch.
    pub indices: Vec<usize>,
    /// Whether the answer was unusable, so that the first items were taken.
    pub fallback: bool,
}

/// Reads the answer; without a usable one the first items are selected.
#[must_use]
pub fn parse(answer: Option<&str>, input: &Input<'_>) -> Selection {
    let n_items = patch::items(input.patch, input.mode).len();
    let answer = answer.and_then(json_extract::object);
    let mut indices: Vec<usize> = Vec::new();
    let listed = answer.as_ref().and_then(|a| a.get("selected_indices"));
    for index in listed.and_then(Value::as_array).into_iter().flatten() {
        // Only whole JSON numbers: a boolean or a text is no index (D25).
        let index = index.as_u64().and_then(|i| usize::try_from(i).ok());
        let Some(index) = index.filter(|i| *i < n_items && !indices.contains(i)) else {
            continue;
        };
        if indices.len() == input.budget {
            break;
        }
        indices.push(index);
    }
    let fallback = indices.is_empty();
    if fallback {
        indices = (0..n_items.min(input.budget)).collect();
    }
    let mut selection = select(input.patch, input.mode, indices, fallback);
    if let (false, Some(answer)) = (fallback, answer) {
        selection
            .patch
            .insert("ranking_details".to_owned(), Value::Object(answer));
    }
    selection
}

/// Returns the outcome of [`Plan::Keep`] and [`Plan::Nothing`], which need no call.
#[must_use]
pub fn without_call(patch: &Patch, mode: UpdateMode, plan: Plan) -> Selection {
    let n_items = patch::items(patch, mode).len();
    match plan {
        Plan::Nothing => select(patch, mode, Vec::new(), true),
        Plan::Keep | Plan::Ask => Selection {
            patch: patch.clone(),
            indices: (0..n_items).collect(),
            fallback: false,
        },
    }
}

fn select(patch: &Patch, mode: UpdateMode, indices: Vec<usize>, fallback: bool) -> Selection {
    let items = patch::items(patch, mode);
    let selected = indices
        .iter()
        .filter_map(|&i| items.get(i).cloned())
        .collect();
    let mut patch = patch.clone();
    patch.insert(mode.payload_key().to_owned(), Value::Array(selected));
    Selection {
        patch,
        indices,
        fallback,
    }
}
