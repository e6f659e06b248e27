//! Small shared records: who owns a run, which workers live, what was submitted.
//!
//! A [`Board`] is a table of records under paths such as `run/ab12`, each with a version that
//! grows by one with each write, and perhaps an end of its life. Writers say which version they
//! have seen, so that of two writers one loses and looks again. Leases are records that expire.

mod memory;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::clock::Timestamp;
use crate::message::Fence;
use crate::store::{self, check_size};

pub use self::memory::MemoryBoard;

/// Longest record, in bytes; large values travel as blobs.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 512;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it lies.
    pub path: String,
    /// What it says.
    pub value: Bytes,
    /// 1 for the first write, and one more for each further one.
    pub version: u64,
}

/// What a writer believes to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever it is.
    Any,
    /// Nothing.
    Absent,
    /// This version.
    Version(u64),
}

impl Expect {
    /// Returns whether a record of this version is what is expected; 0 is none.
    #[must_use]
    pub const fn is_met_by(self, version: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => version == 0,
            Self::Version(expected) => version == expected,
        }
    }
}

/// The right to something for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Grows with each change of hands: a late writer with a smaller one is refused.
    pub fence: Fence,
    /// When it ends unless renewed.
    pub expires_at: Timestamp,
}

/// Keeps small shared records. What a method has acknowledged survives the death of the process.
#[async_trait]
pub trait Board: Send + Sync + 'static {
    /// Returns a record, `None` if there is none or its life is over.
    ///
    /// # Errors
    /// If the board cannot be reached.
    async fn get(&self, path: &str) -> Result<Option<Record>, Error>;

    /// Writes a record and returns its new version. `lifetime` counts from now; `None` is for ever,
    /// also for a record that had an end before.
    ///
    /// A board without room refuses what is added with [`Expect::Absent`], and takes the rest: how
    /// something stands can be written also then.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something else than `expect` is there; [`Error::Store`] if the board
    /// cannot be reached or the record is too long.
    async fn put(
        &self,
        path: &str,
        value: Bytes,
        expect: Expect,
        lifetime: Option<Duration>,
    ) -> Result<u64, Error>;

    /// Writes a record as [`Board::put`] does, but only while `holder` still has the lease `name`
    /// with this `fence`.
    ///
    /// # Errors
    /// [`Error::NotHolder`] if the lease has changed hands or is over; else as [`Board::put`].
    async fn put_fenced(
        &self,
        path: &str,
        value: Bytes,
        expect: Expect,
        name: &str,
        fence: Fence,
    ) -> Result<u64, Error>;

    /// Removes a record; nothing happens if there is none.
    ///
    /// # Errors
    /// As [`Board::put`].
    async fn delete(&self, path: &str, expect: Expect) -> Result<(), Error>;

    /// Returns at most `max` records whose path begins with `prefix`, in the order of their paths,
    /// those after `after` only.
    ///
    /// # Errors
    /// If the board cannot be reached.
    async fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<Record>, Error>;

    /// Takes the lease `name` for `holder`, if it is free or `holder`'s own already (then it is
    /// renewed and keeps its fence). `None`: somebody else has it. A lease that is over is free,
    /// also for the one who had it, and gets a new fence.
    ///
    /// # Errors
    /// If the board cannot be reached.
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration)
    -> Result<Option<Held>, Error>;

    /// Returns who has the lease `name`.
    ///
    /// # Errors
    /// If the board cannot be reached.
    async fn holder(&self, name: &str) -> Result<Option<String>, Error>;

    /// Gives up the lease `name`, if `holder` has it.
    ///
    /// # Errors
    /// If the board cannot be reached.
    async fn release(&self, name: &str, holder: &str) -> Result<(), Error>;

    /// Returns the time by the board's clock.
    ///
    /// # Errors
    /// If the board cannot be reached.
    async fn now(&self) -> Result<Timestamp, Error>;
}

/// Why a board did not do what it was asked. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another writer was first; look again.
    #[error("`{path}` was changed meanwhile (version {found})")]
    Conflict {
        /// The record.
        path: String,
        /// The version that is there, 0 for none.
        found: u64,
    },
    /// The lease is somebody else's.
    #[error("`{name}` is not ours any more; another has taken it over")]
    NotHolder {
        /// The lease.
        name: String,
    },
    /// The board cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Refuses what no board takes, before it is sent anywhere.
pub(crate) fn check(path: &str, value: &Bytes) -> Result<(), Error> {
    check_path(path)?;
    Ok(check_size("record", value.len(), RECORD_BYTES_MAX)?)
}

/// Refuses a lease that no board gives.
pub(crate) fn check_lease(name: &str, holder: &str) -> Result<(), Error> {
    check_path(name)?;
    check_path(holder)
}

/// Refuses a path or a name that is too long.
fn check_path(path: &str) -> Result<(), Error> {
    Ok(check_size("path", path.len(), PATH_BYTES_MAX)?)
}
