//! Real agent CLIs in real sandboxes, against a scripted model server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod declared;
mod faults;
mod real;
mod rig;
mod stubs;
mod way_out;
