//! A coordinator as a server: takes runs, works on them, tells of them.
//!
//! It keeps nothing that it needs again. Runs are records on the board, their inputs are blobs, and
//! whoever holds the lease of a run brings it on; a run folder on its disk is made again when it is
//! gone. So any number of coordinators serve one cluster, and each may die at any time. Start at
//! [`Coordinator`]; [`runner::Runner`] is the part that works.

mod admitted;
pub mod auth;
pub mod bell;
mod cells;
mod cost;
mod course;
pub mod error;
pub mod folders;
mod http;
pub mod lines;
pub mod live;
pub mod options;
pub mod parts;
pub mod purse;
pub mod record;
pub mod rows;
mod rpc;
pub mod runner;
mod server;
pub mod table;
pub mod teller;
mod troubles;

use skillopt_runtime::Shutdown;

pub use options::{Options, Tend, Tls, admin_token};
pub use parts::{Parts, StoreMaker};
pub use server::{Coordinator, ServeError};

/// Takes the addresses and serves until told to stop.
///
/// # Errors
/// See [`ServeError`].
pub async fn serve(options: Options, parts: Parts, shutdown: Shutdown) -> Result<(), ServeError> {
    Coordinator::bind(options, parts)
        .await?
        .serve(shutdown, |_| {})
        .await
}
