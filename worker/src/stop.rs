//! Why a job cannot be run, whoever finds out.

use skillopt_core::Hash;
use skillopt_core::job::{Failure, FailureClass};

/// Why a job cannot be run.
#[derive(Debug)]
pub(crate) struct Stop(pub(crate) Failure);

impl Stop {
    pub(crate) fn infrastructure(cause: String) -> Self {
        Self(Failure {
            class: FailureClass::Infrastructure,
            cause,
        })
    }

    pub(crate) fn provider(cause: String) -> Self {
        Self(Failure {
            class: FailureClass::Provider,
            cause,
        })
    }

    pub(crate) fn damaged(hash: Hash, error: &dyn std::fmt::Display) -> Self {
        Self::infrastructure(format!("blob `{hash}` is damaged: {error}"))
    }
}
