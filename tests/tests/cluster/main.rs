//! Whole clusters: real processes, a real Redis, the models behind HTTP.

mod caps;
mod cells;
mod commands;
mod looked_after;
mod support;
mod trainings;
mod up;
mod waits;
