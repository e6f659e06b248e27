//! Why a job cannot be run, whoever finds out.

use skillopt_core::Hash;
use skillopt_core::job::{Failure, FailureClass};
use skillopt_queue::store;

/// Why a job cannot be run.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) failure: Failure,
    /// Trying again may help.
    pub(crate) may_pass: bool,
}

impl Stop {
    fn for_good(class: FailureClass, cause: String) -> Self {
        Self {
            failure: Failure { class, cause },
            may_pass: false,
        }
    }

    pub(crate) fn infrastructure(cause: String) -> Self {
        Self::for_good(FailureClass::Infrastructure, cause)
    }

    pub(crate) fn provider(cause: String) -> Self {
        Self::for_good(FailureClass::Provider, cause)
    }

    pub(crate) fn damaged(hash: Hash, error: &dyn std::fmt::Display) -> Self {
        Self::infrastructure(format!("blob `{hash}` is damaged: {error}"))
    }

    /// The store did not give a blob.
    pub(crate) fn store(error: &store::Error) -> Self {
        Self {
            may_pass: matches!(error, store::Error::Busy { .. } | store::Error::Io { .. }),
            ..Self::infrastructure(error.to_string())
        }
    }
}
