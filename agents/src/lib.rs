//! Agents: coding CLIs that do a task in a workspace.
//!
//! Must not know queues, benchmarks or runs. Start at [`streams`]: what a CLI printed, read into one
//! [`Account`] whatever the CLI; and at [`relay`]: the only way from a sandbox to a model.

pub mod account;
pub mod relay;
pub mod streams;

pub use account::{Account, Outcome, ToolUse, Usage};
