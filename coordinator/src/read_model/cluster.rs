//! Rows of the cluster: workers, provider accounts, why jobs wait, purses, and all of it at a
//! glance (dashboard spec, chapter 5.7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::words::Headline;

/// A worker as one row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerRow {
    /// Its id.
    pub worker: String,
    /// `well`, `draining`, `sick`, `lost` or `old`.
    pub state: String,
    /// Why, unless it is well.
    pub cause: Option<String>,
    /// Version of its program.
    pub version: String,
    /// When it started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How long it has given no sign of life, in milliseconds.
    pub silent_ms: u64,
    /// Slots by kind, e.g. `chat`.
    pub slots: BTreeMap<String, u32>,
    /// Jobs under way by kind.
    pub busy: BTreeMap<String, u32>,
    /// Lanes whose jobs it can run.
    pub lanes: Vec<String>,
    /// Jobs it has completed.
    pub jobs_done: u64,
    /// Jobs it has given up or handed back for a fault.
    pub jobs_failed: u64,
    /// Keys of jobs under way; not all of them if there are many.
    pub jobs: Vec<String>,
}

/// An account with a provider as one row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderRow {
    /// Its name.
    pub account: String,
    /// `well`, `throttled` or `down`.
    pub state: String,
    /// Calls under way.
    pub in_flight: u64,
    /// Calls at once that are allowed now; absent if nothing limits them.
    pub in_flight_allowed: Option<u64>,
    /// Calls at once that are allowed when nothing is throttled.
    pub in_flight_limit: Option<u64>,
    /// Requests of the last minute.
    pub requests_a_minute: u64,
    /// Most requests a minute; absent if nothing limits them.
    pub requests_a_minute_limit: Option<u64>,
    /// Tokens of the last minute.
    pub tokens_a_minute: u64,
    /// Most tokens a minute; absent if nothing limits them.
    pub tokens_a_minute_limit: Option<u64>,
    /// Throttled calls of the last ten minutes.
    pub throttled: u64,
    /// Other failures of the last ten minutes.
    pub failed: u64,
    /// No call before this time, in milliseconds since 1970; absent if calls may go out.
    pub backoff_until_unix_ms: Option<u64>,
}

/// Jobs that wait for one and the same reason as one row. Every waiting job is in exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitReason {
    /// One of the fixed codes, e.g. `slots_busy`.
    pub code: String,
    /// What it means, with whom and until when.
    pub words: String,
    /// What helps.
    pub help: String,
    /// Jobs.
    pub count: u64,
    /// How long the oldest of them waits, in milliseconds.
    pub oldest_ms: u64,
}

/// A purse of a run, a sweep or a tenant as one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerRow {
    /// Its name: `run/…`, `sweep/…` or `tenant/…`.
    pub purse: String,
    /// Calls.
    pub requests: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// What they cost, if every price is known.
    pub cost_usd: Option<f64>,
    /// Why there is no cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd_missing_reason: Option<String>,
    /// Calls that are reserved and not settled.
    pub reserved_requests: u64,
    /// Tokens that are reserved and not settled.
    pub reserved_tokens: u64,
    /// Dollars that are reserved and not settled.
    pub reserved_usd: f64,
    /// Most calls; absent if nothing limits them.
    pub cap_requests: Option<u64>,
    /// Most tokens; absent if nothing limits them.
    pub cap_tokens: Option<u64>,
    /// Most dollars; absent if nothing limits them.
    pub cap_usd: Option<f64>,
}

/// A run in the list of what the cluster is at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLine {
    /// The run.
    pub run: String,
    /// What people call it; empty: as its id.
    pub name: String,
    /// State in words.
    pub state: String,
    /// Steps that are committed.
    pub steps_done: u64,
    /// Steps of the whole run.
    pub steps_total: Option<u64>,
    /// Gate score of the best skill above that of the initial one, in points; absent before
    /// anything was accepted.
    pub lift_points: Option<f64>,
}

/// A sweep in the list of what the cluster is at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepLine {
    /// The sweep.
    pub sweep: String,
    /// What people call it; empty: as its id.
    pub name: String,
    /// State in words.
    pub state: String,
    /// Cells that have ended.
    pub cells_done: u64,
    /// Cells.
    pub cells_total: u64,
    /// Cells that are paused or failed.
    pub cells_in_trouble: u64,
}

/// The cluster at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overview {
    /// When this was so, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// How it goes, and the largest cause.
    pub headline: Headline,
    /// Jobs finished in the last minute; absent if nobody counted for so long.
    pub finished_a_minute: Option<u64>,
    /// Jobs finished a minute before that, on average; absent if nobody counted for so long.
    pub finished_a_minute_before: Option<f64>,
    /// Slots that are busy; absent if nobody counts them, as for runs without a cluster.
    pub running: Option<u64>,
    /// Slots of all workers that live.
    pub slots: Option<u64>,
    /// Jobs that wait.
    pub waiting: Option<u64>,
    /// Dollars an hour at the pace of the last minutes.
    pub cost_usd_an_hour: Option<f64>,
    /// Why there is no cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd_an_hour_missing_reason: Option<String>,
    /// Dollars that are reserved and not settled.
    pub reserved_usd: Option<f64>,
    /// Why jobs wait, most first; the counts add up to `waiting`.
    pub waits: Vec<WaitReason>,
    /// Provider accounts, those in trouble first.
    pub providers: Vec<ProviderRow>,
    /// Workers, worst first.
    pub workers: Vec<WorkerRow>,
    /// Runs that are not over and belong to no sweep.
    pub runs: Vec<RunLine>,
    /// Sweeps that are not over.
    pub sweeps: Vec<SweepLine>,
}
