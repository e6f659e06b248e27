//! Whole clusters: real processes, a real Redis, the models behind HTTP.

mod commands;
mod support;
mod trainings;
mod up;
