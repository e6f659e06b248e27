//! The queue and the store on real servers.
#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

mod large;
mod layout;
mod losses;
mod memory;
mod objects;
mod on_redis;
mod proxy;
mod refused;
mod rig;
mod tls;
mod variants;
