//! Hands jobs from runs to workers, and keeps what comes out of them.
//!
//! Two seams: [`Store`] keeps blobs, results and run logs; [`Queue`] delivers each job at least
//! once and commits its result exactly once. A run submits jobs and hears of their ends through
//! [`Notices`]; a worker leases, renews and completes. This crate does not know what a job means,
//! who owns a run, or how jobs are shared fairly between runs: it keeps order by priority, then
//! first in, first out.
//!
//! Start at [`Queue`].

mod backing;
pub mod bench;
pub mod board;
pub mod clock;
mod commit;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod dead_letter;
mod embedded;
pub mod fleet;
pub mod ledger;
mod memory;
pub mod message;
pub mod notice;
pub mod object;
pub mod queue;
pub mod rates;
pub mod redis;
pub mod sqlite;
mod state;
pub mod store;

pub use backing::Backing;
pub use board::{Board, MemoryBoard};
pub use clock::{Clock, SystemClock, TestClock, Timestamp};
pub use embedded::EmbeddedQueue;
pub use ledger::{Ledger, MemoryLedger};
pub use memory::MemoryStore;
pub use message::{Enqueue, Fence, Lane, Leased, Priority, RunId, Ticket, Want};
pub use notice::{Ended, Notice, Notices};
pub use queue::{Queue, Refused};
pub use rates::{MemoryRates, Rates};
pub use sqlite::SqliteStore;
pub use store::Store;
