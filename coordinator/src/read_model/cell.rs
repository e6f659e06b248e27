//! A cell of a sweep, and a rollout, as rows.

use serde::{Deserialize, Serialize};
use skillopt_core::job::{Ending, RolloutRecord};

use super::rows::{LiftRow, TokenRow};

/// A cell of a sweep as one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CellRow {
    /// Its sweep.
    pub sweep: String,
    /// Unique in the sweep: `MODEL/BENCHMARK/HARNESS`, with `#SEED` or `@REPEAT`.
    pub cell: String,
    /// The target model.
    pub model: String,
    /// The benchmark.
    pub benchmark: String,
    /// The harness.
    pub harness: String,
    /// The seed.
    pub seed: u64,
    /// Its run; absent before there is one.
    pub run: Option<String>,
    /// State in words, as of a run; `queued` before there is one.
    pub state: String,
    /// Why it is paused or failed.
    pub cause: Option<String>,
    /// `best`, `tied` or `worse`, once the test split is scored.
    pub label: Option<String>,
    /// Steps that are committed.
    pub steps_done: u64,
    /// Steps of the whole run.
    pub steps_total: Option<u64>,
    /// Test score of the initial skill.
    pub baseline: Option<f64>,
    /// Test score of the best skill.
    pub best: Option<f64>,
    /// Lift of the best skill on the test split.
    pub lift: Option<LiftRow>,
    /// Tokens.
    pub tokens: Option<TokenRow>,
    /// What it cost, if every price is known.
    pub cost_usd: Option<f64>,
    /// Why there is no cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd_missing_reason: Option<String>,
    /// How long it took.
    pub wall_s: Option<f64>,
}

/// A rollout as one row; its conversation is not part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrajectoryRow {
    /// Key of the job.
    pub key: String,
    /// The item.
    pub item: String,
    /// `scored` or `agent_failed`: what the world around it did never becomes a row.
    pub outcome: String,
    /// Exact score.
    pub hard: Option<f64>,
    /// Partial score.
    pub soft: Option<f64>,
    /// Why the agent failed, or what the scorer said.
    pub reason: Option<String>,
    /// Messages of the conversation.
    pub messages: u64,
    /// Tokens.
    pub tokens: TokenRow,
}

impl TrajectoryRow {
    /// Makes the row of a finished rollout.
    #[must_use]
    pub fn of(key: &str, record: &RolloutRecord) -> Self {
        let number = |name: &str| record.row.get(name).and_then(serde_json::Value::as_f64);
        let text = |name: &str| {
            let text = record.row.get(name).and_then(serde_json::Value::as_str);
            text.filter(|t| !t.is_empty()).map(str::to_owned)
        };
        Self {
            key: key.to_owned(),
            item: text("id").unwrap_or_default(),
            outcome: match record.ending {
                Ending::Scored => "scored",
                Ending::AgentFailed => "agent_failed",
            }
            .to_owned(),
            hard: number("hard"),
            soft: number("soft"),
            reason: text("fail_reason"),
            messages: record.conversation.len() as u64,
            tokens: record.usage.into(),
        }
    }
}
