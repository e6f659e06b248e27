//! Why a job cannot be run, whoever finds out.

use skillopt_core::Hash;
use skillopt_core::job::{Failure, FailureClass};
use skillopt_queue::store;

/// Why a job cannot be run.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) failure: Failure,
    pub(crate) blame: Blame,
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Trying again may help.
    Passing,
    /// Nothing, as long as the job is what it is.
    Lasting,
    /// Another worker may do it.
    Here,
    /// Another worker may be let call this server.
    Elsewhere(String),
}

impl Stop {
    fn for_good(class: FailureClass, cause: String) -> Self {
        Self {
            failure: Failure { class, cause },
            blame: Blame::Lasting,
        }
    }

    pub(crate) fn infrastructure(cause: String) -> Self {
        Self::for_good(FailureClass::Infrastructure, cause)
    }

    pub(crate) fn provider(cause: String) -> Self {
        Self::for_good(FailureClass::Provider, cause)
    }

    /// This worker lacks something.
    pub(crate) fn here(cause: String) -> Self {
        Self {
            blame: Blame::Here,
            ..Self::infrastructure(cause)
        }
    }

    /// This worker may not call a server.
    pub(crate) fn elsewhere(endpoint: String, cause: String) -> Self {
        Self {
            blame: Blame::Elsewhere(endpoint),
            ..Self::provider(cause)
        }
    }

    pub(crate) fn damaged(hash: Hash, error: &dyn std::fmt::Display) -> Self {
        Self::infrastructure(format!("blob `{hash}` is damaged: {error}"))
    }

    /// The store did not give a blob.
    pub(crate) fn store(error: &store::Error) -> Self {
        let blame = match error {
            store::Error::Busy { .. } | store::Error::Io { .. } => Blame::Passing,
            _ => Blame::Lasting,
        };
        Self {
            blame,
            ..Self::infrastructure(error.to_string())
        }
    }
}
