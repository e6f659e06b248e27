//! The optimizer's stages, each a pure pair: inputs → prompt, answer → decision.
//!
//! `prompt` never fails and never cuts anything, whatever stands in its inputs; sizes are bounded
//! where the inputs come from. `parse` takes `None` for a call that gave no answer and then
//! returns the stage's documented fallback. Source: training spec, chapter 6.

pub mod analyst;
pub mod appendix;
pub mod merge;
pub mod meta_skill;
pub mod prompts;
pub mod ranking;
pub mod rate;
pub mod rewrite;
mod schema;
pub mod slow_update;
pub mod user;

#[cfg(test)]
mod tests;

use crate::job::Prompt;

/// How an optimizer model is asked to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AnswerMode {
    /// Free text that holds one JSON object; for models that follow long instructions.
    #[default]
    Free,
    /// The provider binds the answer to a JSON schema, and prompts are short and ask for one small
    /// thing at a time; for small local models.
    SchemaBound,
}

impl AnswerMode {
    /// Returns the upper limit of an answer in tokens, given the stage's own: a schema-bound answer
    /// is small, and small models have small windows.
    #[must_use]
    pub fn max_tokens(self, of_stage: u32) -> u32 {
        match self {
            Self::Free => of_stage,
            Self::SchemaBound if of_stage > MAX_TOKENS => 8_192,
            Self::SchemaBound => of_stage.min(2_048),
        }
    }
}

/// Returns the prompt to ask once more after an answer that could not be used (D22). The note goes
/// into the system text, since some user texts must end with their data.
#[must_use]
pub fn ask_again(prompt: &Prompt) -> Prompt {
    let mut again = prompt.clone();
    again.system.push_str(
        "\n\nAn earlier answer to this request could not be used: it held no single JSON object of \
         the form described above. Answer with that object alone.",
    );
    again
}

/// Upper limit of a short answer, in tokens.
const MAX_TOKENS: u32 = 16_384;
/// Upper limit of an answer that holds whole documents, in tokens.
const MAX_TOKENS_DOCUMENT: u32 = 64_000;
/// How often the transport of a call is tried, unless a stage says otherwise.
pub const RETRIES: u32 = 3;
