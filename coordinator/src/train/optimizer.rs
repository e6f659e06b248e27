//! Calls of the optimizer model: one stage each, asked once more when the answer is unusable.

use skillopt_core::job::{Answer, Prompt};
use skillopt_core::stages::{AnswerMode, ask_again};

use super::tokens::Tokens;
use crate::halt::Halt;
use crate::jobs::{ChatAsk, Jobs};

/// Asks the optimizer.
pub(super) struct Optimizer<'a, J> {
    pub(super) jobs: &'a J,
    pub(super) reask: bool,
    pub(super) answers: AnswerMode,
}

/// A call to make.
pub(super) struct Call {
    pub(super) stage: &'static str,
    pub(super) prompt: Prompt,
    /// The stage's own limit; less when answers are bound to a schema.
    pub(super) max_tokens: u32,
    pub(super) reasoning_effort: Option<String>,
}

impl Call {
    pub(super) const fn new(stage: &'static str, prompt: Prompt, max_tokens: u32) -> Self {
        Self {
            stage,
            prompt,
            max_tokens,
            reasoning_effort: None,
        }
    }
}

impl<J: Jobs> Optimizer<'_, J> {
    /// Makes a call and reads its answer; `parse` gets `None` when the model gave none, and
    /// returns the stage's fallback then.
    pub(super) async fn ask<T>(
        &self,
        call: Call,
        tokens: &Tokens,
        parse: impl Fn(Option<&str>) -> T,
        is_usable: impl Fn(&T) -> bool,
    ) -> Result<T, Halt> {
        let ask = |prompt: Prompt| ChatAsk {
            stage: call.stage,
            prompt,
            max_tokens: self.answers.max_tokens(call.max_tokens),
            reasoning_effort: call.reasoning_effort.clone(),
        };
        let first = self.jobs.chat(ask(call.prompt.clone())).await?;
        tokens.add(call.stage, first.usage);
        let Answer::Text(text) = first.answer else {
            return Ok(parse(None));
        };
        let parsed = parse(Some(&text));
        if is_usable(&parsed) || !self.reask {
            return Ok(parsed);
        }
        let second = self.jobs.chat(ask(ask_again(&call.prompt))).await?;
        tokens.add(call.stage, second.usage);
        Ok(match second.answer {
            Answer::Text(text) => parse(Some(&text)),
            Answer::Refused(_) => parsed,
        })
    }
}
