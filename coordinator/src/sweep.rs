//! Sweeps: many runs as one object, each cell a run of its own.
//!
//! A sweep is one record on the board ([`record`]). Whoever holds its lease brings it on: submits
//! the runs of its cells, then the evaluations that its results need. Start at [`runs::Runs`] for
//! what it needs of the coordinator, at [`results`] for what comes out.

pub mod counts;
pub mod desk;
mod driver;
pub mod error;
pub mod facts;
pub mod folder;
pub mod gather;
pub mod normal;
pub mod observed;
pub mod record;
pub mod repeat;
pub mod results;
mod retry;
pub mod rpc;
pub mod runs;
pub mod submit;
mod summary;
pub mod table;
