//! How fast provider accounts may be called, by all workers together.
//!
//! An account is an endpoint with a credential. It may have limits of requests and tokens a minute
//! and of calls at once, and it may be paused by a 429 that one worker has seen.

mod machine;
mod memory;
pub(crate) mod rules;
mod window;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::store;

pub use self::memory::MemoryRates;

/// Limits of one account; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests a minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens a minute, sent and received.
    pub tokens_per_minute: Option<u64>,
    /// Calls at once.
    pub concurrency: Option<u64>,
}

/// A call that wants to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The account.
    pub account: String,
    /// Unique name of the call, so that a repeated ask takes once.
    pub call: String,
    /// Tokens that it can come to at most.
    pub tokens: u64,
    /// The call is over by then, whatever happens: its place is free again.
    pub lifetime: Duration,
}

/// The answer to an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// Make the call.
    Now,
    /// Not before then.
    NotBefore {
        /// When to ask again.
        at: Timestamp,
        /// How long that is from now: clocks of workers differ.
        wait: Duration,
        /// What holds it up.
        why: Hold,
    },
}

/// What holds a call up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Requests a minute.
    Requests,
    /// Tokens a minute.
    Tokens,
    /// Calls at once, configured or adapted to what the provider bears.
    Concurrency,
    /// The provider asked to wait, or its circuit is open.
    Paused,
}

/// How a call went, as far as the account is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered; with the tokens that it came to.
    Answered(u64),
    /// Throttled; with the provider's wait, if it named one.
    Throttled(Option<Duration>),
    /// The provider failed (5xx, connection, timeout).
    Failed,
    /// It was not made, or says nothing about the account.
    Nothing,
}

/// How an account is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub limits: Limits,
    /// Calls under way.
    pub in_flight: u64,
    /// Calls at once that are allowed now: adapted below `limits.concurrency` after throttling.
    pub allowed: Option<u64>,
    /// Requests and tokens of the last minute.
    pub requests: u64,
    /// Tokens of the last minute.
    pub tokens: u64,
    /// Throttled calls of the last ten minutes.
    pub throttled: u64,
    /// Other failures of the last ten minutes.
    pub failed: u64,
    /// How long nothing has been answered, from the first trouble on, in milliseconds; 0 without
    /// trouble.
    pub stuck_for_ms: u64,
    /// No call before this time, in milliseconds since 1970-01-01 UTC; 0 if it is free.
    pub paused_until_ms: u64,
}

/// Shares the rates of accounts between all workers. All methods are atomic.
#[async_trait]
pub trait Rates: Send + Sync + 'static {
    /// Sets the limits of an account.
    ///
    /// # Errors
    /// If the rates cannot be reached.
    async fn set_limits(&self, account: &str, limits: Limits) -> Result<(), store::Error>;

    /// Asks for permission; answers in order.
    ///
    /// # Errors
    /// If the rates cannot be reached.
    async fn ask(&self, asked: &[Ask]) -> Result<Vec<Go>, store::Error>;

    /// Reports how calls went: `(account, call, outcome)`.
    ///
    /// # Errors
    /// If the rates cannot be reached.
    async fn report(&self, done: &[(String, String, Outcome)]) -> Result<(), store::Error>;

    /// Returns all accounts that have limits or were in trouble lately, by name.
    ///
    /// # Errors
    /// If the rates cannot be reached.
    async fn accounts(&self) -> Result<Vec<Account>, store::Error>;
}
