//! Jobs: the only unit of work, and what comes out of one.
//!
//! A job is a self-contained value whose [`Key`] is the hash of everything that may change its
//! answer. A result is stored once under its key, the first writer wins. Large values travel by
//! hash as blobs, so that a job message stays at a few hundred bytes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::Hash;

/// Version of the job format. A worker leaves jobs of another version to others.
pub const VERSION: u32 = 1;

/// The address of a job's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub Hash);

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One job: what to run, how often it was asked for before, and who may share its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// [`VERSION`] of the program that wrote the job.
    pub version: u32,
    /// What to run.
    pub work: Work,
    /// 0 for the first sample, 1 for a second one of the same work, …
    pub repeat: u32,
    /// Empty: the answer is shared by everyone. Else only jobs of the same scope share it.
    pub scope: String,
}

/// The two kinds of job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// One item, one skill, one target: a scored trajectory.
    Rollout(RolloutWork),
    /// One rendered prompt, one model: text and usage.
    Chat(ChatWork),
}

/// A rollout; every hash names a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutWork {
    /// Registered name of the benchmark.
    pub benchmark: String,
    /// Version of its prompts and scorer. What a custom benchmark's files say is in `settings`.
    pub benchmark_version: String,
    /// The item's id, for people; the content is in `item`.
    pub item_id: String,
    /// The item as JSON.
    pub item: Hash,
    /// The skill folder, see [`crate::skill`].
    pub skill: Hash,
    /// The target's model profile as JSON (backend, model, endpoint identity, sampling).
    pub target: Hash,
    /// The benchmark's settings of this rollout as JSON.
    pub settings: Hash,
}

/// A chat call; every hash names a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatWork {
    /// Stage label: `analyst`, `merge`, `ranking`, … (training spec 6.1).
    pub stage: String,
    /// The rendered [`Prompt`] as JSON.
    pub prompt: Hash,
    /// The optimizer's model profile as JSON.
    pub model: Hash,
    /// Upper limit of the answer, in tokens.
    pub max_tokens: u32,
    /// Reasoning effort of this call, if it differs from the profile's.
    pub reasoning_effort: Option<String>,
}

/// What an optimizer stage says to its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// System text.
    pub system: String,
    /// User text.
    pub user: String,
    /// JSON schema that binds the answer, in schema-bound mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
}

/// A named JSON schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Name sent along with the schema.
    pub name: String,
    /// The schema itself.
    pub schema: Value,
}

impl Job {
    /// Returns the key: a hash over every field that may change the answer.
    #[must_use]
    pub fn key(&self) -> Key {
        let repeat = self.repeat.to_le_bytes();
        let version = self.version.to_le_bytes();
        let head: [&[u8]; 3] = [&version, &repeat, self.scope.as_bytes()];
        Key(match &self.work {
            Work::Rollout(w) => {
                let work: [&[u8]; 8] = [
                    b"rollout",
                    w.benchmark.as_bytes(),
                    w.benchmark_version.as_bytes(),
                    w.item_id.as_bytes(),
                    w.item.as_bytes(),
                    w.skill.as_bytes(),
                    w.target.as_bytes(),
                    w.settings.as_bytes(),
                ];
                Hash::of_parts(head.into_iter().chain(work))
            }
            Work::Chat(w) => {
                let max_tokens = w.max_tokens.to_le_bytes();
                let effort = w.reasoning_effort.as_deref().unwrap_or("");
                let work: [&[u8]; 6] = [
                    b"chat",
                    w.stage.as_bytes(),
                    w.prompt.as_bytes(),
                    w.model.as_bytes(),
                    &max_tokens,
                    effort.as_bytes(),
                ];
                Hash::of_parts(head.into_iter().chain(work))
            }
        })
    }

    /// Returns a short name for logs and errors.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.work {
            Work::Rollout(w) => format!("rollout of item `{}`", w.item_id),
            Work::Chat(w) => format!("`{}` call", w.stage),
        }
    }
}

/// Tokens of one or more answered calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Answered calls.
    pub calls: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received, those of hidden reasoning included.
    pub completion_tokens: u64,
    /// Those of the tokens sent that the provider had in its cache.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cached_tokens: u64,
    /// Those of the tokens received that were hidden reasoning.
    #[serde(default, skip_serializing_if = "is_none")]
    pub reasoning_tokens: u64,
    /// Those of the tokens sent that the provider wrote into its cache, where it bills for that.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cache_write_tokens: u64,
    /// Those of the calls whose answer the token limit cut.
    #[serde(default, skip_serializing_if = "is_none")]
    pub truncated_calls: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.truncated_calls += other.truncated_calls;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_none(n: &u64) -> bool {
    *n == 0
}

/// How a finished rollout ended. A failure of the world around it is not among these: it never
/// becomes a record, and so never a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// A scorer judged the answer.
    Scored,
    /// The agent itself failed (gave up, empty answer, own turn or time limit): scored 0, with a
    /// reason in the row's `fail_reason`.
    AgentFailed,
}

/// How the row's `fail_reason` of a rollout begins whose prompt the provider refused for good, or whose
/// answer it withheld.
pub const NO_ANSWER: &str = "no answer: ";

/// Says why the model gave no answer at all, by the fields `agent_ok` and `fail_reason` of a row;
/// nothing if it gave one.
#[must_use]
pub fn no_answer(agent_ok: Option<bool>, fail_reason: &str) -> Option<&str> {
    let cause = fail_reason.strip_prefix(NO_ANSWER)?;
    (agent_ok == Some(false)).then_some(cause)
}

/// A finished rollout: what is stored under its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RolloutRecord {
    /// How it ended.
    pub ending: Ending,
    /// The result row (`id`, `hard`, `soft`, …; training spec 2.4).
    pub row: Map<String, Value>,
    /// The trajectory (`conversation.json`; training spec 2.3).
    pub conversation: Vec<Value>,
    /// Other text files of the rollout's folder by name, e.g. `target_system_prompt.txt`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub files: Map<String, Value>,
    /// Tokens of its answered calls.
    pub usage: Usage,
}

/// An answered chat call: what is stored under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatRecord {
    /// The answer, or why the model gave none.
    pub answer: Answer,
    /// Tokens of the call.
    pub usage: Usage,
}

/// The answer of a chat call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The text.
    Text(String),
    /// The provider refused this very prompt for good (too long, filtered): asking again would not
    /// help, the stage takes its fallback.
    Refused(String),
}

/// A model in a role: everything about it that may change its answers. Travels as a blob; holds
/// no secret and nothing that only changes the time (timeouts, retries).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `target` or `optimizer`; decides which credentials a worker takes.
    pub role: String,
    /// Backend name, e.g. `openai_compatible`.
    pub backend: String,
    /// Model name as the provider knows it.
    pub model: String,
    /// Address of the provider without credentials; empty for in-process backends.
    pub endpoint: String,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Most tokens of one answer, whatever a call asks for; 0 = no limit of its own.
    pub max_tokens: u32,
    /// Reasoning effort; empty leaves it to the provider.
    pub reasoning_effort: String,
    /// Other settings of the backend.
    pub settings: Map<String, Value>,
}

impl Profile {
    /// Names a model, with nothing that changes its answers.
    #[must_use]
    pub fn bare(role: &str, backend: &str, model: &str) -> Self {
        Self {
            role: role.to_owned(),
            backend: backend.to_owned(),
            model: model.to_owned(),
            endpoint: String::new(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: Map::new(),
        }
    }

    /// Names the account whose limits its calls share: the provider's address without a `/` at its
    /// end, or the backend if it has none.
    #[must_use]
    pub fn account(&self) -> &str {
        match self.endpoint.trim_end_matches('/') {
            "" => &self.backend,
            endpoint => endpoint,
        }
    }
}

/// A job on its way to a worker, with the limits it runs under. The limits are not part of the
/// key: they change when an answer comes, not what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The job.
    pub job: Job,
    /// Its limits.
    pub limits: Limits,
    /// Who pays for its calls; `None` if nobody counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<Payer>,
}

/// Who pays for a job's calls, and what a call costs. A job that several runs wait for is paid by
/// the run that asked first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payer {
    /// The run.
    pub run: String,
    /// The sweep of the run, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sweep: String,
    /// The tenant, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// Price of the job's model; `None` if it is unknown, which no payer with a cap in dollars
    /// allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Whether one of them has a cap, so that each call must be reserved before it is made.
    #[serde(default)]
    pub is_capped: bool,
}

/// Price of a model, in millionths of a US dollar for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Tokens sent that the provider had in its cache; `None`: like the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Tokens sent that the provider wrote into its cache; `None`: like the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Tokens of hidden reasoning; `None`: like the others received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Price {
    /// Returns what tokens cost at most, in millionths of a US dollar, rounded up: as if none were
    /// cached, and all of the dearer kind.
    #[must_use]
    pub fn at_most(self, prompt_tokens: u64, completion_tokens: u64) -> u64 {
        let dearer = self.cached.max(self.cache_write).unwrap_or(0);
        let input = self.input.max(dearer);
        let output = self.output.max(self.reasoning.unwrap_or(0));
        sum([(input, prompt_tokens), (output, completion_tokens)])
    }

    /// Returns what tokens cost, in millionths of a US dollar, rounded up.
    #[must_use]
    pub fn of(self, usage: Usage) -> u64 {
        // A provider may count more of a kind than there are.
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_write_tokens.min(usage.prompt_tokens - cached);
        let reasoning = usage.reasoning_tokens.min(usage.completion_tokens);
        sum([
            (self.input, usage.prompt_tokens - cached - written),
            (self.cached.unwrap_or(self.input), cached),
            (self.cache_write.unwrap_or(self.input), written),
            (self.output, usage.completion_tokens - reasoning),
            (self.reasoning.unwrap_or(self.output), reasoning),
        ])
    }
}

/// Adds up prices for a million tokens times tokens.
fn sum<const N: usize>(parts: [(u64, u64); N]) -> u64 {
    let cost = |(price, tokens): (u64, u64)| u128::from(price) * u128::from(tokens);
    let exact: u128 = parts.into_iter().map(cost).sum();
    u64::try_from(exact.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Limits of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Limit of one model call, in milliseconds.
    pub call_timeout_ms: u64,
    /// Tries of one job before its run pauses, the first included.
    pub attempts: u32,
    /// Wait after the first failed try, in milliseconds.
    pub retry_base_ms: u64,
    /// Longest wait between tries, in milliseconds.
    pub retry_cap_ms: u64,
    /// Calls of a thousand that may be made a second time while the first is still open.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hedge_permille: u32,
}

/// Why a job ended without a result: its run pauses with this text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whose fault: decides the word people see.
    pub class: FailureClass,
    /// What happened, to which thing, and what to do. Holds no secret.
    pub cause: String,
}

/// Classes of failures that pause a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The model's provider: down, wrong key, wrong address, endless throttling.
    Provider,
    /// Our side: a judge, a lost worker, a full disk.
    Infrastructure,
    /// An item or a setting that no worker can run.
    Data,
    /// A cap of the run, its sweep or its tenant is reached.
    Budget,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_token_has_its_price_and_none_costs_more_than_at_most() {
        let price = Price {
            input: 2_000_000,
            output: 8_000_000,
            cached: Some(500_000),
            cache_write: Some(2_500_000),
            reasoning: Some(9_000_000),
        };
        let usage = |cached_tokens, cache_write_tokens, reasoning_tokens| Usage {
            calls: 1,
            prompt_tokens: 10,
            completion_tokens: 4,
            cached_tokens,
            cache_write_tokens,
            reasoning_tokens,
            truncated_calls: 0,
        };
        for (cached, written, reasoning, want) in [
            (0, 0, 0, 52),
            (10, 0, 0, 37),
            (6, 0, 0, 43),
            (0, 10, 0, 57),
            (6, 4, 0, 45),
            (0, 0, 4, 56),
            // More than there are.
            (99, 99, 99, 41),
        ] {
            let cost = price.of(usage(cached, written, reasoning));
            assert_eq!(cost, want, "{cached} {written} {reasoning}");
            assert!(cost <= price.at_most(10, 4));
        }
        let plain = Price {
            cached: None,
            cache_write: None,
            reasoning: None,
            ..price
        };
        assert_eq!(plain.of(usage(5, 3, 2)), 52);
    }
}
