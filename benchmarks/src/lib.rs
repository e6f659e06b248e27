//! Task suites: loading items, prompting the target, scoring its answer.
//!
//! A benchmark knows its items and its scorer and nothing else: no queue, no retry, no run folder.
//! Start at [`contract`]; [`registry`] lists the suites; [`splits`] is what they share; [`custom`]
//! runs a suite that is a folder of files instead of code.

pub mod agent;
pub mod contract;
pub mod custom;
mod cut;
pub mod error;
mod load_args;
mod nearest;
pub mod registry;
pub mod searchqa;
pub mod splits;

pub use contract::{AnalystPrompts, Benchmark, LoadArgs, Suite, Target, Task};
pub use error::{LoadError, RolloutError};
pub use splits::{Item, Splits};
