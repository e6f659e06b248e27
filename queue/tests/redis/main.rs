//! The queue and the store on real servers.

mod on_redis;
mod rig;
