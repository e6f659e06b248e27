//! The pure domain of skill training: documents, edits, budgets, gates, optimizer stages, jobs.
//!
//! No I/O, no clock, no randomness but seeded generators, nothing async. Facts come in, decisions
//! go out; the services fetch the facts and carry the decisions out. Start at [`job`] for the unit
//! of work, at [`skill`] for the trained document.

pub mod buckets;
pub mod budget;
pub mod capability;
pub mod gate;
pub mod hash;
pub mod job;
pub mod json_extract;
pub mod kind;
pub mod loose;
pub mod minibatch;
pub mod pairs;
pub mod patch;
pub mod rate;
pub mod role;
pub mod score;
pub mod secret;
pub mod skill;
pub mod stages;
pub mod step_buffer;
pub mod suggest;
pub mod text;
pub mod trajectory;
pub mod update_mode;

pub use hash::Hash;
