//! The services of `skillopt/v1/*.proto`.

mod cluster;
mod content;
mod download;
mod glance;
mod message;
mod runs;
mod watch;
mod why;

use std::sync::Arc;

use skillopt_runtime::Shutdown;

use super::auth::Gate;
use super::folders::Folders;
use super::live::Live;
use super::parts::Parts;
use super::rows::Rows;
use super::table::Table;
use super::teller::Teller;

/// What the services share; clones share it.
#[derive(Clone)]
pub struct Desk {
    /// Lets callers in.
    pub gate: Gate,
    /// The runs.
    pub table: Table,
    /// Their rows.
    pub rows: Rows,
    /// Those at work here.
    pub live: Live,
    /// Their folders.
    pub folders: Arc<Folders>,
    /// What coordinators tell of their jobs.
    pub teller: Arc<Teller>,
    /// Everything else.
    pub parts: Parts,
    /// Version of the program.
    pub program: String,
    /// Ends streams.
    pub shutdown: Shutdown,
}
