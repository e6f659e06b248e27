//! The queue, the store, the board, the ledger, the rates, and the link to a server that all stand
//! on.
//!
//! One [`Link`] per process; [`RedisQueue`], [`RedisStore`], [`RedisBoard`], [`RedisLedger`] and
//! [`RedisRates`] share it. Keys and their lives are
//! described in `docs/redis.md`. *Invariants*: each change of the queue is one script; one clock,
//! the server's; a call that is repeated because its answer was lost is done once.

mod address;
mod board;
mod codec;
mod fault;
mod ledger;
mod letter;
pub mod link;
mod pressure;
mod queue;
mod rates;
mod reply;
mod script;
mod scripts;
mod shape;
#[cfg(test)]
mod spend_tests;
mod store;

pub use board::RedisBoard;
#[cfg(feature = "conformance")]
pub use codec::unpack_all;
pub use ledger::RedisLedger;
pub use link::{Link, Options};
pub use queue::RedisQueue;
pub use rates::RedisRates;
pub use script::Script;
pub use store::RedisStore;
