//! Tasks of agents as a worker runs them: real processes, sandboxes and a relay each. The CLI is a real
//! one, or in its place a program that does as the test says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod books;
mod caps;
mod crowds;
mod deaths;
mod hostile;
mod landlock;
mod limits;
mod open;
mod outages;
mod real;
mod scene;
mod scripts;
mod sweeps;
mod unequal;
