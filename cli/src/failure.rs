//! Why a command could not do what it was asked, told so that it can be put right.

use std::fmt::Display;

use serde_json::{Value, json};
use skillopt_config::{Errors, LoadError, OverrideError, Problem};
use skillopt_coordinator::folder::ClaimError;
use skillopt_coordinator::halt::Halt;
use skillopt_coordinator::prepare::PrepareError;
use skillopt_coordinator::service::ServeError;
use skillopt_core::job::FailureClass;
use skillopt_runtime::files::FileError;

use crate::advice::{Roles, advice};
use crate::exit::Exit;

/// One failure: what happened, and what to type.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// One line each; several if several things are wrong.
    pub(crate) errors: Vec<Wrong>,
    /// What removes the cause.
    pub(crate) fix: Option<String>,
    pub(crate) hint: Option<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    /// `file:line:column`, or the flag.
    pub(crate) place: Option<String>,
    /// The key of the configuration, for programs.
    pub(crate) key: Option<String>,
    pub(crate) nearest: Option<String>,
}

impl Failure {
    /// A failure with one message.
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        let wrong = Wrong {
            message: message.to_string(),
            ..Wrong::default()
        };
        Self {
            exit,
            errors: vec![wrong],
            fix: None,
            hint: None,
        }
    }

    /// A failure of what the user gave.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the failure for programs.
    pub(crate) fn to_json(&self) -> Value {
        let errors: Vec<Value> = self
            .errors
            .iter()
            .map(|wrong| {
                json!({
                    "message": wrong.message,
                    "place": wrong.place,
                    "key": wrong.key,
                    "nearest": wrong.nearest,
                })
            })
            .collect();
        json!({"exit": self.exit.code(), "errors": errors, "fix": self.fix, "hint": self.hint})
    }
}

impl From<&Problem> for Wrong {
    fn from(problem: &Problem) -> Self {
        let text = problem.to_string();
        let (message, place) = match text.split_once("\n  --> ") {
            Some((message, place)) => (message.to_owned(), Some(place.to_owned())),
            None => (text, None),
        };
        Self {
            message,
            place,
            key: Some(problem.key.clone()),
            nearest: problem.nearest.clone(),
        }
    }
}

impl From<Errors> for Failure {
    fn from(errors: Errors) -> Self {
        Self {
            exit: Exit::Usage,
            errors: errors.0.iter().map(Wrong::from).collect(),
            fix: None,
            hint: None,
        }
    }
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Self {
        let exit = match &halt {
            Halt::Paused(FailureClass::Data, _) | Halt::Failed(_) | Halt::NotStored => Exit::Usage,
            Halt::Paused(..) => Exit::Paused,
            Halt::Interrupted => Exit::Interrupted,
        };
        let fix = match &halt {
            Halt::Paused(_, cause) => advice(cause, &Roles::default()),
            _ => None,
        };
        Self {
            fix,
            ..Self::new(exit, halt)
        }
    }
}

macro_rules! usage {
    ($($ty:ty),+) => { $(
        impl From<$ty> for Failure {
            fn from(error: $ty) -> Self {
                Self::usage(error)
            }
        }
    )+ };
}

usage!(
    LoadError,
    OverrideError,
    PrepareError,
    ClaimError,
    FileError,
    skillopt_queue::store::Error,
    skillopt_sim::SettingError,
    skillopt_sim::server::BindError,
    skillopt_benchmarks::LoadError
);

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Unexpected, error)
    }
}

impl From<skillopt_queue::queue::Error> for Failure {
    fn from(error: skillopt_queue::queue::Error) -> Self {
        Self::new(Exit::Unexpected, error)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let exit = match &error {
            ServeError::Transport(_) | ServeError::Fault(_) => Exit::Unexpected,
            _ => Exit::Usage,
        };
        Self::new(exit, error)
    }
}
