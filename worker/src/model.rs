//! How a worker comes to the clients of its models.

use std::sync::Arc;

use skillopt_backends::{CallError, ChatModel};
use skillopt_core::job::Profile;

/// Makes the client of a model; the composition root supplies it, with the credentials.
pub type ModelFactory = Arc<dyn Fn(&Profile) -> Result<Arc<dyn ChatModel>, Unusable> + Send + Sync>;

/// Why a worker has no client for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// What the job wants is wrong, or not allowed here.
    Wanted(CallError),
    /// This worker lacks something that others have: the job is theirs.
    Here(String),
    /// This worker has no credential for the server that the job wants, or lacks its agent's program or
    /// a sandbox; another one may have it.
    Elsewhere {
        /// The server, or the program.
        endpoint: String,
        /// What would let this worker do it.
        error: Box<CallError>,
    },
}

impl From<CallError> for Unusable {
    fn from(error: CallError) -> Self {
        Self::Wanted(error)
    }
}

impl From<Unusable> for CallError {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Wanted(error) => error,
            Unusable::Elsewhere { error, .. } => *error,
            Unusable::Here(detail) => Self::Misconfigured {
                endpoint: "this machine".to_owned(),
                status: 0,
                detail,
            },
        }
    }
}
