//! What becomes of a job whose call is not made.

use std::time::Duration;

use skillopt_core::job::{Failure, FailureClass};

/// What has to become of a job whose call cannot be made.
#[derive(Debug)]
pub(crate) enum Instead {
    /// It goes back, and nothing is counted against it.
    Later { wait: Duration, failure: Failure },
    /// The run pauses.
    Refused(Failure),
}

impl Instead {
    /// It is tried again after `wait`, for what it needs is not to be had now.
    pub(crate) const fn later(wait: Duration, cause: String) -> Self {
        let class = FailureClass::Provider;
        let failure = Failure { class, cause };
        Self::Later { wait, failure }
    }

    pub(crate) const fn failure(&self) -> &Failure {
        match self {
            Self::Later { failure, .. } | Self::Refused(failure) => failure,
        }
    }
}
