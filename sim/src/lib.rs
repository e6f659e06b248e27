//! A simulated model: a deterministic stand-in for the target and the optimizer of a training run.
//!
//! Accuracy rises and falls with the text of the skill, so that the whole loop really improves.
//! The content of a reply depends on the call and the parameters alone; see [`replies`]. Start at
//! [`model::SimulatedModel`], the model with its latencies, faults and statistics;
//! [`backend::Simulated`] is its face inside the program, [`server`] the one on HTTP. [`mock`] is
//! another server, which says what a script tells it to. It must not know prompts, queues or runs:
//! stages are told by the names of the fields that prompts ask for.
//!
//! Source: the specification of the simulated model, whose chapters the modules name.

pub mod backend;
mod call;
pub mod faults;
pub mod generate;
mod keys;
pub mod latency;
pub mod markers;
pub mod mock;
pub mod model;
pub mod replies;
pub mod server;
pub mod settings;
pub mod stage;
mod state;
pub mod unit;
pub mod world;

pub use backend::Simulated;
pub use generate::{Sizes, generate};
pub use model::SimulatedModel;
pub use replies::{Call, Reply};
pub use settings::{SETTINGS, Setting, SettingError, Settings};
pub use stage::Stage;
