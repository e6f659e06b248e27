//! Agents: coding CLIs that do a task in a workspace.
//!
//! Must not know queues, benchmarks or runs. Start at [`streams`]: what a CLI printed, read into one
//! [`Account`] whatever the CLI; at [`relay`]: the only way from a sandbox
//! to a model; at [`cli`]: how each CLI is called.

pub mod account;
pub mod cli;
pub mod client;
pub mod installed;
mod mask;
mod options;
mod provider;
pub mod relay;
mod release;
pub mod run;
pub mod streams;
pub mod trace;
mod tunnel;
pub mod verdict;

pub use account::{Account, Outcome, ToolUse, Usage};
pub use client::Agent;
