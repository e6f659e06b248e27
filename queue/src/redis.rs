//! The queue, the store and the link to a server that both stand on.
//!
//! One [`Link`] per process; [`RedisQueue`] and [`RedisStore`] share it. Keys and their lives are
//! described in `docs/redis.md`. *Invariants*: each change of the queue is one script; one clock,
//! the server's; a call that is repeated because its answer was lost is done once.

mod address;
mod codec;
mod fault;
mod letter;
pub mod link;
mod queue;
mod reply;
mod script;
mod scripts;
mod store;

pub use link::{Link, Options};
pub use queue::RedisQueue;
pub use script::Script;
pub use store::RedisStore;
