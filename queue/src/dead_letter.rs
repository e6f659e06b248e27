//! Jobs that no worker could finish, and what happened to them.

use std::sync::Arc;

use bytes::Bytes;
use skillopt_core::job::Key;

use crate::clock::Timestamp;
use crate::message::RunId;

/// Most pieces of evidence kept per job; the oldest go first.
pub const EVIDENCE_MAX: usize = 16;
/// Longest text of one piece of evidence, in bytes; the rest is cut off.
pub const EVIDENCE_BYTES_MAX: usize = 4 << 10;

/// Longest detail of a failure, in bytes; a longer one is left out.
pub const FAILURE_BYTES_MAX: usize = 64 << 10;

/// Why a worker gave up on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A sentence for people, cut off at [`EVIDENCE_BYTES_MAX`].
    pub cause: String,
    /// Details for the run that asked, in a form that worker and run agree on; may be empty. Left
    /// out above [`FAILURE_BYTES_MAX`].
    pub detail: Bytes,
}

/// Something that happened to a job on its way into the dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// When, by the queue's clock.
    pub at: Timestamp,
    /// The worker that held the job.
    pub worker: Arc<str>,
    /// What happened.
    pub what: String,
}

/// A job that no worker could finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The job.
    pub key: Key,
    /// The encoded job.
    pub job: Bytes,
    /// The runs that waited for it.
    pub runs: Vec<RunId>,
    /// How often it was handed out.
    pub deliveries: u32,
    /// How often a worker returned it for another try.
    pub retries: u32,
    /// How often its lease ran out.
    pub losses: u32,
    /// What happened, oldest first, at most [`EVIDENCE_MAX`] entries.
    pub evidence: Vec<Evidence>,
    /// Why it is here.
    pub failure: Failure,
}
