//! Agents: coding CLIs that do a task in a workspace.
//!
//! Must not know queues, benchmarks or runs. Start at [`streams`]: what a CLI printed, read into one
//! [`Account`] whatever the CLI.

pub mod account;
pub mod streams;

pub use account::{Account, Outcome, ToolUse, Usage};
