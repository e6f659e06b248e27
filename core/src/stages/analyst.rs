//! Analysts: one call per minibatch of failures or successes proposes changes to the skill.
//!
//! Source: training spec, 6.3.

mod flat;

use serde_json::{Map, Value, json};

use super::prompts::{FAILURE_TYPES, Set};
use super::user::Text;
use super::{AnswerMode, appendix, schema};
use crate::job::Prompt;
use crate::json_extract;
use crate::patch::{self, Side};
use crate::trajectory::Rendered;
use crate::update_mode::UpdateMode;

/// Stage label.
pub const LABEL: &str = "analyst";
/// The budget that prompts name where there is none.
const UNLIMITED: usize = 999;
/// Failure types where the benchmark has none of its own.
const GENERAL_TYPES: &[&str] = &[
    "rule_missing",
    "rule_wrong",
    "rule_ignored",
    "answer_format",
    "other",
];

/// Returns the upper limit of the answer, in tokens.
#[must_use]
pub const fn max_tokens(mode: UpdateMode) -> u32 {
    match mode {
        UpdateMode::FullRewrite => super::MAX_TOKENS_DOCUMENT,
        UpdateMode::Patch | UpdateMode::Suggestions => super::MAX_TOKENS,
    }
}

/// What is the same for every call of one side of a step.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Failures or successes.
    pub side: Side,
    /// Update mode.
    pub mode: UpdateMode,
    /// Answer mode.
    pub answers: AnswerMode,
    /// How many items an answer may propose; `None` is no limit (D17).
    pub budget: Option<usize>,
    /// Whether to ask for execution notes: skill-aware reflection is on, and for successes its
    /// `skill_aware_appendix_source` is `both`.
    pub notes: bool,
}

/// What the model is shown.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// What is the same for every call.
    pub rules: Rules,
    /// The current skill.
    pub skill: &'a str,
    /// The earlier steps, "" if none.
    pub step_buffer: &'a str,
    /// The optimizer's memory, "" if none.
    pub meta_skill: &'a str,
    /// The minibatch; without a conversation there is no call, see [`crate::trajectory::render`].
    pub trajectories: &'a Rendered,
    /// The benchmark's failure types, empty for the general ones.
    pub failure_types: &'a [&'a str],
}

/// Renders the call.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let rules = &input.rules;
    let side = match rules.side {
        Side::Failure => "analyst_error",
        Side::Success => "analyst_success",
    };
    let name = schema::template(rules.answers, &format!("{side}{}", rules.mode.suffix()));
    let system = system(prompts.get(&name), input, prompts);
    schema::prompt(
        rules.answers,
        LABEL,
        &system,
        user(input),
        &flat::fields(rules),
    )
}

fn user(input: &Input<'_>) -> String {
    let n = input.trajectories.count;
    let verb = match input.rules.side {
        Side::Failure => "failed",
        Side::Success => "succeeded",
    };
    let asked = budget_line(&input.rules);
    // A small model obeys best what it reads last.
    let (first, last) = match input.rules.answers {
        AnswerMode::Free => (Some(asked), None),
        AnswerMode::SchemaBound => (None, Some(asked)),
    };
    let line = |text: Text, line: Option<String>| match line {
        Some(line) => text.line(&line),
        None => text,
    };
    let text = line(Text::default().skill(input.skill), first)
        .step_buffer(input.step_buffer)
        .meta_skill(input.meta_skill)
        .line(&format!("{n} trajectories that {verb}:"))
        .quote("trajectories", &input.trajectories.text);
    line(text, last).finish()
}

fn system(template: &str, input: &Input<'_>, prompts: &Set) -> String {
    let types = if input.failure_types.is_empty() {
        GENERAL_TYPES
    } else {
        input.failure_types
    };
    let mut system = template.replace(FAILURE_TYPES, &types.join(", "));
    let rules = &input.rules;
    let free = rules.answers == AnswerMode::Free && rules.mode != UpdateMode::FullRewrite;
    if rules.notes && free {
        let addition = match rules.side {
            Side::Failure => "skill_aware_failure",
            Side::Success => "skill_aware_success",
        };
        system = format!("{}\n\n{}", system.trim_end(), prompts.get(addition));
    }
    system
}

fn budget_line(rules: &Rules) -> String {
    let noun = rules.mode.item_noun();
    match (rules.mode, rules.answers, rules.budget) {
        (UpdateMode::FullRewrite, ..) => {
            "Write one complete replacement document, and nothing else.".to_owned()
        }
        (UpdateMode::Patch, AnswerMode::SchemaBound, _) => match rules.side {
            Side::Failure => "Write the one rule that the guide lacks.".to_owned(),
            Side::Success => "Write the one rule that keeps this.".to_owned(),
        },
        (UpdateMode::Suggestions, AnswerMode::SchemaBound, _) => {
            "Write one piece of advice.".to_owned()
        }
        (_, AnswerMode::Free, Some(budget)) => {
            format!("Edit budget: L = {budget}. Propose at most {budget} {noun}; fewer is fine.")
        }
        (_, AnswerMode::Free, None) => {
            format!(
                "Edit budget: none (L = {UNLIMITED}). Propose as few {noun} as the evidence needs."
            )
        }
    }
}

/// Reads the answer into a raw patch (training spec 2.6); `None` if it holds none, and the
/// minibatch yields nothing.
#[must_use]
pub fn parse(answer: Option<&str>, input: &Input<'_>) -> Option<Map<String, Value>> {
    let rules = &input.rules;
    let object = json_extract::object(answer?)?;
    let mut raw = match rules.answers {
        AnswerMode::SchemaBound if !object.contains_key("patch") => {
            flat::raw_patch(&object, input)?
        }
        AnswerMode::SchemaBound | AnswerMode::Free => object,
    };
    let notes = raw
        .get("appendix_notes")
        .map(appendix::notes)
        .unwrap_or_default();
    if !raw.contains_key("patch") {
        // Notes without a patch are worth keeping, but only where lapses are looked for.
        let carries = rules.notes && rules.side == Side::Failure && !notes.is_empty();
        return carries.then(|| only_notes(notes, rules.mode));
    }
    raw.insert("source_type".to_owned(), rules.side.name().into());
    if let (true, Some(budget)) = (rules.mode != UpdateMode::FullRewrite, rules.budget)
        && let Some(Value::Object(patch)) = raw.get_mut("patch")
    {
        patch::truncate(patch, rules.mode, budget);
    }
    if rules.notes {
        raw.insert("appendix_notes".to_owned(), notes.into());
    }
    Some(raw)
}

fn only_notes(notes: Vec<String>, mode: UpdateMode) -> Map<String, Value> {
    let mut raw = Map::new();
    raw.insert("source_type".to_owned(), Side::Failure.name().into());
    raw.insert("patch".to_owned(), json!({ mode.payload_key(): [] }));
    raw.insert("appendix_notes".to_owned(), notes.into());
    raw
}
