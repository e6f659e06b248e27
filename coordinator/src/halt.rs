//! Why a run stops before its end. None of these is a score.

use skillopt_core::job::{Failure, FailureClass};
use skillopt_runtime::files::FileError;

/// Stops a run; what was paid for is kept, and the same command goes on from here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The run waits for a person: a provider, a budget or our own machinery failed.
    #[error("paused ({}): {}", word(*.0), .1)]
    Paused(FailureClass, String),
    /// A replay came to the end of what is stored.
    #[error("an answer of this run is not in the store")]
    NotStored,
    /// A person asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The run can never go on as it is: its data or its log contradict it.
    #[error("{0}")]
    Failed(String),
}

impl Halt {
    /// Makes a pause of our own side's making.
    pub fn infrastructure(cause: impl ToString) -> Self {
        Self::Paused(FailureClass::Infrastructure, cause.to_string())
    }
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        match failure.class {
            FailureClass::Data => Self::Failed(failure.cause),
            class => Self::Paused(class, failure.cause),
        }
    }
}

impl From<FileError> for Halt {
    fn from(error: FileError) -> Self {
        Self::infrastructure(error)
    }
}

/// What a person is told to do where the failures themselves are stored as answers.
pub(crate) const NEW_RUN: &str = "start again with `env.scope: fresh` and another --out";

/// Returns whether the same command would find what stopped a run, which only a new one does not.
#[must_use]
pub fn wants_new_run(cause: &str) -> bool {
    cause.contains(NEW_RUN)
}

/// Returns the word that people see for a class.
#[must_use]
pub const fn word(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Provider => "provider",
        FailureClass::Infrastructure => "infrastructure",
        FailureClass::Data => "data",
        FailureClass::Budget => "budget",
    }
}
