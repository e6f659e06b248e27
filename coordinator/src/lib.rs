//! Runs: the training loop over memoised jobs, its log, its folder.
//!
//! Knows queues and stores, not workers or models. Start at [`train::train`] for the loop, at
//! [`session::Session`] for how its questions become jobs.

pub mod bundle;
pub mod evaluate;
pub mod events;
pub mod folder;
pub mod halt;
pub mod inputs;
pub mod jobs;
pub mod log;
pub mod payers;
pub mod prepare;
pub mod progress;
pub mod read_model;
pub mod sample;
pub mod scheduler;
pub mod service;
pub mod session;
pub mod sweep;
pub mod timings;
pub mod train;
pub mod usage;
pub mod waits;

pub use halt::Halt;
