//! Coordinators over gRPC, with a real worker on the simulated model.

mod access;
mod bundles;
mod runs;
mod streams;
mod support;
mod takeover;
