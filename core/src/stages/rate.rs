//! Autonomous rate: the model says how many items to apply in this step.
//!
//! Source: training spec, 4.3, 6.6.

use super::prompts::Set;
use super::user::{Text, describe};
use super::{AnswerMode, schema};
use crate::job::Prompt;
use crate::json_extract;
use crate::loose;
use crate::patch::{self, Patch};
use crate::rate::{Decision, coerce};
use crate::update_mode::UpdateMode;

/// Stage label.
pub const LABEL: &str = "lr_autonomous";
/// Upper limit of the answer, in tokens.
pub const MAX_TOKENS: u32 = super::MAX_TOKENS;

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
    /// The earlier steps, "" if none.
    pub step_buffer: &'a str,
    /// The merged patch.
    pub patch: &'a Patch,
    /// Results of the step's rollouts.
    pub rollout_n: u64,
    /// Their mean `hard`.
    pub rollout_hard: f64,
    /// Their mean `soft`.
    pub rollout_soft: f64,
}

/// Renders the call.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let (noun, items) = (
        input.mode.item_noun(),
        patch::items(input.patch, input.mode),
    );
    let user = Text::default()
        .meta_skill(input.meta_skill)
        .skill(input.skill)
        .line(&format!(
            "Rollouts of this step: rollout_n = {}, hard = {:.6}, soft = {:.6}.",
            input.rollout_n, input.rollout_hard, input.rollout_soft
        ))
        .line(&format!("There are {} proposed {noun}:", items.len()))
        .line(&describe(items, input.mode))
        .step_buffer(input.step_buffer)
        .line(&format!("How many of these {noun} should be applied now?"))
        .finish();
    let name = schema::template(input.answers, "rate");
    let fields = [
        ("reasoning", schema::text()),
        ("learning_rate", schema::integer()),
        ("confidence", schema::one_of(&["low", "medium", "high"])),
    ];
    schema::prompt(input.answers, LABEL, prompts.get(&name), user, &fields)
}

/// Reads the answer; an unusable one decides for none.
#[must_use]
pub fn parse(answer: Option<&str>, n_items: usize) -> Decision {
    let available = n_items as u64;
    let object = answer.and_then(json_extract::object).unwrap_or_default();
    let wanted = object.get("learning_rate").and_then(coerce);
    Decision {
        learning_rate: wanted.unwrap_or(0).min(available),
        raw_learning_rate: wanted.unwrap_or(0),
        available_update_items: available,
        clamped: wanted.is_some_and(|wanted| wanted > available),
        fallback: wanted.is_none(),
        reasoning: loose::field(&object, "reasoning"),
        confidence: loose::field(&object, "confidence"),
        risk_notes: object
            .get("risk_notes")
            .map(patch::texts)
            .unwrap_or_default(),
        raw_response: answer.unwrap_or_default().to_owned(),
        error: answer
            .is_none()
            .then(|| "the model gave no answer".to_owned()),
    }
}
