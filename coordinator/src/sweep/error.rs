//! Why a sweep is not taken, found or changed.

use skillopt_queue::{board, store};

use super::runs;

/// A refusal, with words for the person who asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// There is no such sweep, or it is somebody else's.
    #[error("there is no sweep `{0}`")]
    NotFound(String),
    /// Not in the state that things are in.
    #[error("{0}")]
    Precondition(String),
    /// Something cannot be reached; the same request may be made again.
    #[error("{0}")]
    Unavailable(String),
    /// A record or a result that should be there is damaged.
    #[error("{0}")]
    Damaged(String),
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
            store::Error::Corrupt { .. } => Self::Damaged(error.to_string()),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<runs::Error> for Error {
    fn from(error: runs::Error) -> Self {
        match error {
            runs::Error::Refused(words) => Self::Precondition(words),
            runs::Error::Unavailable(words) => Self::Unavailable(words),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Damaged(format!("a record of a sweep cannot be read: {error}"))
    }
}
