//! Meta skill: a memory for the optimizer's own later calls.
//!
//! Source: training spec, 6.9 with D27. The caller keeps the old memory when a call yields
//! nothing (D28).

use super::prompts::Set;
use super::slow_update::{Written, comparison, written};
use super::user::Text;
use super::{AnswerMode, schema};
use crate::job::Prompt;
use crate::pairs::Pair;
use crate::text;

/// Stage label.
pub const LABEL: &str = "meta_skill";
/// Upper limit of the answer, in tokens.
pub const MAX_TOKENS: u32 = super::MAX_TOKENS;

/// What the model is shown.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Answer mode.
    pub answers: AnswerMode,
    /// The last skill of the previous epoch.
    pub previous_skill: &'a str,
    /// The last skill of this epoch, before its slow update.
    pub current_skill: &'a str,
    /// The memory so far, "" if none.
    pub previous_memory: &'a str,
    /// The comparison.
    pub pairs: &'a [Pair],
}

/// Renders the call.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let memory = text::trim(input.previous_memory);
    let memory = if memory.is_empty() {
        "(none yet)"
    } else {
        memory
    };
    let user = Text::default()
        .quote("previous_skill", input.previous_skill)
        .skill(input.current_skill)
        .quote("previous_memory", memory)
        .quote("comparison", &comparison(input.pairs))
        .line("Write the new memory now.")
        .finish();
    let name = schema::template(input.answers, "meta_skill");
    let fields = [
        ("reasoning", schema::text()),
        ("meta_skill_content", schema::text()),
    ];
    schema::prompt(input.answers, LABEL, prompts.get(&name), user, &fields)
}

/// Reads the answer; `None` if it holds no memory.
#[must_use]
pub fn parse(answer: Option<&str>) -> Option<Written> {
    written(answer, "meta_skill_content")
}
