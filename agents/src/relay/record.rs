//! What was asked and answered through a relay.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use skillopt_core::job::Usage;

use super::allow::Refusal;

/// Tokens of one exchange, as the provider counted them: cached ones are part of those sent,
/// reasoning is part of those received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Sent.
    pub input: u64,
    /// Of those, read from the provider's cache.
    pub cached: u64,
    /// Of those, written into it, where the provider bills for that.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write: u64,
    /// Received.
    pub output: u64,
    /// Of those, hidden reasoning.
    pub reasoning: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_none(n: &u64) -> bool {
    *n == 0
}

impl Tokens {
    /// Returns those sent and received.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.input + self.output
    }

    /// Returns them as those of one call.
    #[must_use]
    pub const fn usage(self) -> Usage {
        Usage {
            calls: 1,
            prompt_tokens: self.input,
            completion_tokens: self.output,
            cached_tokens: self.cached,
            reasoning_tokens: self.reasoning,
            cache_write_tokens: self.cache_write,
            truncated_calls: 0,
        }
    }
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.reasoning += other.reasoning;
    }
}

/// What the model said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Said {
    /// Its text.
    pub text: String,
    /// Its reasoning, where it is shown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tools that it called: name, arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<(String, String)>,
    /// Why it ended, in the interface's word; `None` if the answer broke off.
    pub finish: Option<String>,
    /// An error in the midst of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One request that left, and its answer.
#[derive(Clone, Debug, Serialize)]
pub struct Exchange {
    /// The request as the CLI sent it.
    pub request: Arc<Value>,
    /// Status of the provider's answer.
    pub status: u16,
    /// Tries that it took.
    pub tries: u32,
    /// What the model said.
    pub said: Said,
    /// What it came to.
    pub tokens: Tokens,
}

#[cfg(test)]
impl Exchange {
    /// One that was answered at once, and cost nothing.
    pub(crate) fn of(request: serde_json::Value, said: Said) -> Self {
        Self {
            request: std::sync::Arc::new(request),
            status: 200,
            tries: 1,
            said,
            tokens: Tokens::default(),
        }
    }
}

impl Exchange {
    /// Returns whether a text stands in what the CLI sent.
    #[must_use]
    pub fn sent(&self, text: &str) -> bool {
        holds(&self.request, text)
    }
}

fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(list) => list.iter().any(|value| holds(value, text)),
        Value::Object(map) => map.values().any(|value| holds(value, text)),
        _ => false,
    }
}

/// Why a task cannot be judged: it was not the agent's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The provider refused or failed: status (0: no connection), its words, its Retry-After in
    /// milliseconds.
    Provider {
        /// Status; 0 if there was no answer.
        status: u16,
        /// Its words, without the credential.
        words: String,
        /// When to come again.
        retry_after_ms: Option<u64>,
    },
    /// The gate let nothing more out.
    Gate(String),
}

/// Everything that went through a relay.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The exchanges, in the order in which they were answered.
    pub exchanges: Vec<Exchange>,
    /// Tokens of all of them.
    pub tokens: Tokens,
    /// Requests that were let out, those that the provider failed not counted.
    pub requests: u64,
    /// Requests that came to nothing: the provider could not be reached, refused, or did not end its
    /// answer.
    pub failures: u64,
    /// How long requests waited for their turn, and for tries that failed: no time of the agent's.
    pub held_up: Duration,
    /// How long the provider had not answered a request when the task ended, at most.
    pub unanswered: Duration,
    /// How long an answer that had begun had not gone on when nobody waited for it any more, at most.
    pub stalled: Duration,
    /// What was not let out: the first of them, shortened.
    pub refused: Vec<Refusal>,
    /// How many were not let out.
    pub refusals: u64,
    /// Whether the plan's marker stood in a request.
    pub is_marker_seen: bool,
    /// The last trouble that was not got over.
    pub trouble: Option<Trouble>,
}
