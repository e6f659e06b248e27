//! Why a coordinator does not do what it was asked.

use skillopt_queue::{board, store};

use crate::bundle::UnpackError;

/// A refusal, with words for the person who asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The name is taken by something else.
    #[error("{0}")]
    Exists(String),
    /// Not in the state that things are in.
    #[error("{0}")]
    Precondition(String),
    /// Too much or too often.
    #[error("{0}")]
    Exhausted(String),
    /// Nobody knows who asks.
    #[error("{0}")]
    Unauthenticated(String),
    /// Whoever asks may not.
    #[error("{0}")]
    Denied(String),
    /// Something behind the coordinator cannot be reached; the same request may be made again.
    #[error("{0}")]
    Unavailable(String),
    /// Our own fault.
    #[error("{0}")]
    Internal(String),
}

impl From<board::Error> for Error {
    fn from(error: board::Error) -> Self {
        match error {
            board::Error::Store(error) => error.into(),
            lost => Self::Unavailable(format!("{lost}; ask again")),
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::TooLarge { .. } => Self::Invalid(error.to_string()),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<crate::sweep::error::Error> for Error {
    fn from(error: crate::sweep::error::Error) -> Self {
        use crate::sweep::error::Error as Theirs;
        let words = error.to_string();
        match error {
            Theirs::Invalid(_) => Self::Invalid(words),
            Theirs::NotFound(_) => Self::NotFound(words),
            Theirs::Precondition(_) => Self::Precondition(words),
            Theirs::Unavailable(_) => Self::Unavailable(words),
            Theirs::Damaged(_) => Self::Internal(words),
        }
    }
}

impl From<UnpackError> for Error {
    fn from(error: UnpackError) -> Self {
        if error.is_passing() {
            Self::Unavailable(error.to_string())
        } else {
            Self::Precondition(error.to_string())
        }
    }
}

impl From<Error> for tonic::Status {
    fn from(error: Error) -> Self {
        let words = error.to_string();
        match error {
            Error::Invalid(_) => Self::invalid_argument(words),
            Error::NotFound(_) => Self::not_found(words),
            Error::Exists(_) => Self::already_exists(words),
            Error::Precondition(_) => Self::failed_precondition(words),
            Error::Exhausted(_) => Self::resource_exhausted(words),
            Error::Unauthenticated(_) => Self::unauthenticated(words),
            Error::Denied(_) => Self::permission_denied(words),
            Error::Unavailable(_) => Self::unavailable(words),
            Error::Internal(_) => Self::internal(words),
        }
    }
}

impl From<Error> for crate::sweep::runs::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(words) => Self::Unavailable(words),
            other => Self::Refused(other.to_string()),
        }
    }
}
