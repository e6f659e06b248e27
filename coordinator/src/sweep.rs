//! Sweeps: many runs as one object, each cell a run of its own.
//!
//! A sweep is one record on the board ([`record`]). Whoever holds its lease brings it on: submits
//! the runs of its cells, then the evaluations that its results need. Start at [`runs::Runs`] for
//! what it needs of the coordinator.

pub mod record;
pub mod runs;
