//! The rows themselves. What was not measured is absent, never 0.

use serde::{Deserialize, Serialize};
use skillopt_core::job::Usage;

use super::verdict::Verdict;

/// A run as one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRow {
    /// Name of the run: a hash of everything that decides its result.
    pub run: String,
    /// State in words; see [`super::is_over`].
    pub state: String,
    /// Whether the gate decides.
    pub gate: bool,
    /// Items of the train split.
    pub train_items: Option<u64>,
    /// Items of the val split.
    pub val_items: Option<u64>,
    /// Items of the test split.
    pub test_items: Option<u64>,
    /// Passes over the train split.
    pub epochs: Option<u64>,
    /// Steps of the whole run.
    pub steps_total: Option<u64>,
    /// Steps that are committed.
    pub steps_done: u64,
    /// Steps whose proposal was accepted, or taken without gate.
    pub accepted: u64,
    /// Steps whose proposal was refused.
    pub refused: u64,
    /// Steps without a proposal.
    pub skipped: u64,
    /// Rollouts of the initial skill on the val split that are in, while it is measured.
    pub baseline_in: Option<u64>,
    /// Gate score of the initial skill.
    pub baseline: Option<f64>,
    /// Gate score of the kept skill.
    pub kept: Option<f64>,
    /// Best gate score.
    pub best: Option<f64>,
    /// Step that made the best skill; 0 is the initial one.
    pub best_step: Option<u64>,
    /// Test scores, once measured.
    pub test: TestRow,
    /// Lift of the best skill on the test split.
    pub lift: Option<LiftRow>,
    /// Tokens, once the run is over.
    pub tokens: Option<TokenRow>,
    /// What the run has cost so far, if somebody counted it and every price is known.
    pub cost_usd: Option<f64>,
    /// Why there is no cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd_missing_reason: Option<String>,
    /// Most that the run may cost; absent if nothing limits it.
    pub cap_usd: Option<f64>,
    /// Where the run is heading; only while it runs, and after three finished steps.
    pub forecast: Option<ForecastRow>,
}

/// Where a run is heading, at the pace of its last ten steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForecastRow {
    /// Finished steps that it rests on.
    pub steps: u64,
    /// Tokens of the whole run.
    pub tokens: Option<u64>,
    /// Cost of the whole run.
    pub cost_usd: Option<f64>,
    /// Time until the last step is done.
    pub left_s: Option<f64>,
}

/// Why a run is not going on (dashboard spec, chapter 4). It stands above the headline and does not
/// replace it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoticeRow {
    /// A pause, `stopped` or `failed`.
    pub state: String,
    /// What happened.
    pub cause: Option<String>,
    /// When, in milliseconds since 1970; absent if nobody could write it down.
    pub at_unix_ms: Option<u64>,
    /// What to do about it.
    pub fix: Option<String>,
}

/// Exact scores on the test split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestRow {
    /// Of the initial skill.
    pub baseline: Option<f64>,
    /// Of the best skill.
    pub best: Option<f64>,
    /// Of the last skill.
    pub last: Option<f64>,
    /// Items.
    pub n: Option<u64>,
}

/// A lift with its 95 % interval, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiftRow {
    /// Mean difference per item.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Items compared.
    pub n: u64,
}

/// An evaluation as one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluationRow {
    /// Name of the run: a hash of everything that decides its result.
    pub run: String,
    /// State in words; see [`super::is_over`].
    pub state: String,
    /// Whose items are scored: `train`, `val`, `test` or `all`.
    pub split: String,
    /// Exact score.
    pub hard: Option<f64>,
    /// Partial score.
    pub soft: Option<f64>,
    /// Items.
    pub n: Option<u64>,
    /// Tokens, once it is over.
    pub tokens: Option<TokenRow>,
}

/// Tokens of answered calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenRow {
    /// Answered calls.
    pub calls: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// Of those sent, what the provider had in its cache.
    #[serde(skip_serializing_if = "is_none")]
    pub cached_tokens: u64,
    /// Of those sent, what the provider wrote into its cache.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write_tokens: u64,
    /// Of those received, hidden reasoning.
    #[serde(skip_serializing_if = "is_none")]
    pub reasoning_tokens: u64,
    /// Of the calls, those whose answer the token limit cut.
    #[serde(skip_serializing_if = "is_none")]
    pub truncated_calls: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_none(n: &u64) -> bool {
    *n == 0
}

impl TokenRow {
    /// Returns the same as it is counted of calls.
    #[must_use]
    pub const fn usage(self) -> Usage {
        Usage {
            calls: self.calls,
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            cached_tokens: self.cached_tokens,
            cache_write_tokens: self.cache_write_tokens,
            reasoning_tokens: self.reasoning_tokens,
            truncated_calls: self.truncated_calls,
        }
    }
}

impl From<Usage> for TokenRow {
    fn from(usage: Usage) -> Self {
        Self {
            calls: usage.calls,
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            truncated_calls: usage.truncated_calls,
        }
    }
}

impl std::ops::AddAssign for TokenRow {
    fn add_assign(&mut self, other: Self) {
        let mut sum = self.usage();
        sum += other.usage();
        *self = sum.into();
    }
}

/// A step, or the slow update at the end of an epoch, as one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepRow {
    /// Number of the step, over the whole run; for a slow update the last step before it.
    pub step: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Whether this is a slow update.
    pub slow: bool,
    /// The record's own word, such as `accept_new_best`.
    pub action: String,
    /// The word that people see.
    pub verdict: Verdict,
    /// Gate score of the candidate; absent if it was not measured.
    pub score: Option<f64>,
    /// How much that is above the skill it was compared with.
    pub change: Option<f64>,
    /// Exact score of the train rollouts.
    pub rollout: Option<f64>,
    /// Train rollouts.
    pub rollout_n: Option<u64>,
    /// Gate score of the kept skill afterwards.
    pub kept: Option<f64>,
    /// Best gate score afterwards.
    pub best: Option<f64>,
    /// Proposals of the analysts.
    pub patches: Option<u64>,
    /// Edits that were put into the candidate.
    pub edits: Option<u64>,
    /// Most edits that were allowed.
    pub edit_budget: Option<u64>,
    /// Whether the kept text changed without being measured again.
    pub stale: bool,
    /// Tokens of the step.
    pub tokens: TokenRow,
    /// What the step cost, if every price is known.
    pub cost_usd: Option<f64>,
    /// How long it took; known only to who watched it.
    pub took_s: Option<f64>,
}
