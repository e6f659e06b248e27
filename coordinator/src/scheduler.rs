//! Shares the queue between runs: keeps a bounded window of jobs in it and refills the window
//! fairly, so that the queue stays small, a small run does not wait behind a sweep, and a run is
//! cancelled quickly.
//!
//! Start at [`Scheduler`].

mod handle;
pub mod machine;
mod pump;
mod share;
mod shared;
mod shell;
mod stall;
mod standing;
#[cfg(test)]
mod tests;

pub use share::{Limits, Offer, RunShare, WEIGHT_MAX, WEIGHT_NORMAL};
pub use shell::Scheduler;
pub use standing::{Hold, Line, Released, Standing};
