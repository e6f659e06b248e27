//! A case with what stands around it, and what became of it.

use serde_json::Value;
use skillopt_agents::run::Finished;
use skillopt_backends::CallError;

use super::fake::{Fake, Seen};
use crate::parity::backends::setup::Setup;

/// A case with what stands around it.
pub(super) struct Scene {
    pub(super) case: Value,
    pub(super) backend: String,
    pub(super) fake: Fake,
    /// What `{{work}}` stands for.
    pub(super) work: tempfile::TempDir,
}

/// What became of one run of a program, with what the program saw.
pub(super) type Ran = (Result<Finished, CallError>, Option<Seen>);

/// What became of a case.
pub(super) struct Made {
    /// One list for each turn: the runs it took, with what each saw.
    pub(super) turns: Vec<Vec<Ran>>,
    /// Questions that reached the model.
    pub(super) asked: usize,
    pub(super) setup: Setup,
}
