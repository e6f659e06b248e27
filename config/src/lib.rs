//! The typed configuration of a run: YAML 1.1, inheritance, overrides, validation.
//!
//! A configuration is read in three steps, each of which keeps for every value where it came from:
//! a file and its bases become a tree ([`node`]), the tree becomes a flat mapping, the flat
//! mapping becomes a [`RunConfig`]. Nothing is guessed and nothing is dropped: what is not
//! understood is an error that names the key, the place and what was probably meant.
//!
//! Source: training spec, chapter 7.

mod address;
pub mod backend_keys;
pub mod backend_settings;
pub mod cast;
mod check;
pub mod choices;
mod context;
mod export;
pub mod flags;
pub mod flat;
pub mod key;
pub mod load;
pub mod node;
pub mod overrides;
pub mod prices;
mod problem;
mod reference;
mod resolve;
pub mod retired;
pub mod roles;
mod run_config;
mod setting;
pub mod suggest;
pub mod sweep;
mod wire;
pub mod yaml;

pub use backend_settings::{BackendSettings, EnvLookup};
pub use check::SIM_SETTINGS;
pub use choices::{
    AnswerMode, AppendixSource, GateMetric, LrControlMode, LrScheduler, PairPolicy, Predictions,
    ReasoningEffort, Scope, SplitMode, UpdateMode,
};
pub use context::Context;
pub use export::{
    RESOLVED_THINKING, SizeError, Sizes, changes_results, differs, shown, to_config_json,
};
pub use flags::{Flag, flags};
pub use flat::Flat;
pub use load::{LoadError, load};
pub use node::Origin;
pub use overrides::OverrideError;
pub use prices::{PriceError, Prices};
pub use problem::{Errors, Problem, Warning};
pub use reference::reference_page;
pub use roles::Role;
pub use run_config::{KEYS, RunConfig};
pub use skillopt_core::secret::{REDACTED, Secret, is_secret_name};
pub use wire::Wire;

#[cfg(test)]
mod tests;
