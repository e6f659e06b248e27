//! The typed configuration of a run: YAML 1.1, inheritance, overrides, validation.
//!
//! A configuration is read in three steps, each of which keeps for every value where it came from:
//! a file and its bases become a tree ([`node`]), the tree becomes a flat mapping, the flat
//! mapping becomes a [`RunConfig`]. Nothing is guessed and nothing is dropped: what is not
//! understood is an error that names the key, the place and what was probably meant.
//!
//! Source: training spec, chapter 7.

pub mod backend_settings;
pub mod choices;
pub mod key;
pub mod node;
mod problem;
mod run_config;
mod secret;
mod setting;
pub mod suggest;

pub use choices::{
    AnswerMode, AppendixSource, GateMetric, LrControlMode, LrScheduler, PairPolicy, Predictions,
    ReasoningEffort, Scope, SplitMode, UpdateMode,
};
pub use problem::{Errors, Problem, Warning};
pub use run_config::{KEYS, RunConfig};
pub use secret::{REDACTED, Secret, is_secret_name};
