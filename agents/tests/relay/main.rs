//! A relay between a client and the mock model server, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod exchanges;
mod gate;
mod hostile;
mod rig;
