//! What an answer says, however it came.

use serde::Deserialize;
use skillopt_core::job::Usage;

use crate::contract::ToolCall;

/// An answer, however it came.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) stop_reason: Option<String>,
    /// Why the model refused, if it says.
    pub(super) explanation: Option<String>,
    pub(super) tokens: Tokens,
}

/// What was billed. What was read from the cache or written to it is not among `input_tokens`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    pub(super) input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens_details: Option<Thoughts>,
}

/// Why a model refused.
#[derive(Deserialize)]
pub(super) struct StopDetails {
    #[serde(default)]
    pub(super) explanation: Option<String>,
}

impl Tokens {
    /// Counts one call.
    pub(super) fn usage(self) -> Usage {
        let read = self.cache_read_input_tokens.unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let thoughts = self.output_tokens_details.unwrap_or_default();
        Usage {
            calls: 1,
            prompt_tokens: self.input_tokens.unwrap_or(0) + read + written,
            completion_tokens: self.output_tokens.unwrap_or(0),
            cached_tokens: read,
            cache_write_tokens: written,
            reasoning_tokens: thoughts.thinking_tokens.unwrap_or(0),
            ..Usage::default()
        }
    }

    /// Takes the later of two counts: those of a stream grow.
    pub(super) fn or_later(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cache_read_input_tokens: later
                .cache_read_input_tokens
                .or(self.cache_read_input_tokens),
            cache_creation_input_tokens: later
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            output_tokens_details: later.output_tokens_details.or(self.output_tokens_details),
        }
    }
}

/// How much of the output was thought.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Thoughts {
    #[serde(default)]
    pub(super) thinking_tokens: Option<u64>,
}
