//! The services of `skillopt/v1/*.proto`.

mod cluster;
mod content;
mod download;
mod glance;
mod message;
mod runs;
mod uploads;
mod usage;
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
use crate::sweep::desk::Sweeps;

pub(super) use uploads::Uploads;

/// What the services share; clones share it.
#[derive(Clone)]
pub(super) struct Desk {
    /// Lets callers in.
    pub(super) gate: Gate,
    /// The runs.
    pub(super) table: Table,
    /// Many of them as one.
    pub(super) sweeps: Arc<Sweeps>,
    /// Their rows.
    pub(super) rows: Rows,
    /// Those at work here.
    pub(super) live: Live,
    /// Their folders.
    pub(super) folders: Arc<Folders>,
    /// What coordinators tell of their jobs.
    pub(super) teller: Arc<Teller>,
    /// Everything else.
    pub(super) parts: Parts,
    /// What uploads hold in memory.
    pub(super) uploads: Uploads,
    /// Version of the program.
    pub(super) program: String,
    /// Ends streams.
    pub(super) shutdown: Shutdown,
}
