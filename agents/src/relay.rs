//! The only way out of a sandbox: to the configured model, and to nothing else.
//!
//! A CLI in a sandbox speaks to `127.0.0.1` with a key that is worth nothing elsewhere. What it sends
//! comes here, and is held against a [`Plan`]: only the paths of its interface, only the configured
//! model, only as many requests and tokens as the task may have. Then the caps and rates that all
//! workers share are asked ([`Gate`]), the real credential is added, and the request goes to the
//! provider; the answer is handed on as it comes, is counted on the way, and is recorded: the record
//! of all exchanges is the trajectory. Where a provider speaks only Chat
//! Completions, [`translate`] lets a CLI that speaks only Responses use it.
//!
//! Retries are made here and nowhere else, by one policy; the CLIs are told to make none.

mod allow;
mod asking;
mod bound;
pub(crate) mod fault;
mod flow;
mod lean;
mod leaving;
mod log;
pub(crate) mod marker;
mod record;
mod service;
mod sse;
mod tap;
pub mod translate;
mod way_out;

pub use self::allow::Refusal;
pub use self::record::{Exchange, Record, Said, Tokens, Trouble};
pub use self::service::Relay;
pub use self::way_out::{Answer, Body, WayOut};
pub use skillopt_backends::gate::{AtMost, Gate, Open, Passed, Permit};

use std::time::Duration;

use http::HeaderMap;

/// An interface that models are asked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
    /// Gemini `generateContent`.
    Gemini,
}

/// What one sandbox may ask for.
#[derive(Clone)]
pub struct Plan {
    /// What the CLI speaks.
    pub cli: Wire,
    /// What the provider speaks: the same, or Chat Completions for a CLI that speaks Responses.
    pub provider: Wire,
    /// The provider's address, up to and without the interface's own path: `https://host/v1`.
    pub address: String,
    /// Headers with the credential, added to each request.
    pub credential: HeaderMap,
    /// The only model that may be asked.
    pub model: String,
    /// Lines whose passing in one request, all of them, is noted (`marker::of`); empty for none.
    pub marker: String,
    /// Limits of the task.
    pub caps: Caps,
    /// How often, and how long apart, a request is tried that may yet succeed.
    pub tries: Tries,
}

#[cfg(test)]
impl Plan {
    /// One without limits, a marker or a credential.
    pub(crate) fn plain() -> Self {
        Self {
            cli: Wire::Chat,
            provider: Wire::Chat,
            address: "http://h/v1".to_owned(),
            credential: HeaderMap::new(),
            model: "m".to_owned(),
            marker: String::new(),
            caps: Caps::default(),
            tries: Tries::default(),
        }
    }
}

/// Limits of one task; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Requests that reach the provider.
    pub requests: u64,
    /// Tokens, sent and received.
    pub tokens: u64,
}

/// How often a request is tried before its first byte is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Tries in all; at least 1.
    pub attempts: u32,
    /// Wait after the first failure; it doubles.
    pub base: Duration,
    /// No wait is longer: what asks for more ends the task, which goes back to the queue.
    pub cap: Duration,
    /// How long a provider may take to begin its answer.
    pub first_byte: Duration,
    /// How long it may be silent in the midst of one.
    pub silence: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(20),
            first_byte: Duration::from_secs(300),
            silence: Duration::from_secs(120),
        }
    }
}
