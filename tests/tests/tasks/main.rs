//! Tasks of agents as a worker runs them: real processes, sandboxes and a relay each; in the place of
//! the CLI a program that does as the test says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod caps;
mod deaths;
mod hostile;
mod scene;
