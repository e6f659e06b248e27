//! Coordinators over gRPC, with a real worker on the simulated model.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod access;
mod bundles;
mod folders;
mod runs;
mod streams;
mod support;
mod takeover;
mod upkeep;
