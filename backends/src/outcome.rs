//! What came of an exchange, in one word (backends spec 8, point 5).

use crate::contract::{ChatReply, Finish};
use crate::error::CallError;

/// What came of an exchange. Only an [`Outcome::Answer`] is a whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// A whole answer.
    Answer,
    /// An answer that the token limit cut.
    Truncated,
    /// The provider's filter withheld it.
    Filtered,
    /// The model would not answer.
    Refused,
    /// No text and no tool call.
    Empty,
    /// The model waits for tools.
    ToolCalls,
    /// Too many requests.
    Throttled,
    /// A key was rejected.
    Unauthorized,
    /// This very prompt cannot be asked.
    Rejected,
    /// Nothing can be asked before the configuration changes.
    Misconfigured,
    /// The provider had an error of its own.
    ServerError,
    /// No connection, or it broke.
    ConnectionFailed,
    /// It took too long.
    TimedOut,
    /// What came is no answer of this interface.
    Malformed,
    /// This machine failed; nobody was asked, or nobody could hear the end.
    MachineFailed,
}

impl Outcome {
    /// Returns the word for tables and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Truncated => "truncated",
            Self::Filtered => "filtered",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::ToolCalls => "tool_calls",
            Self::Throttled => "throttled",
            Self::Unauthorized => "unauthorized",
            Self::Rejected => "rejected",
            Self::Misconfigured => "misconfigured",
            Self::ServerError => "server_error",
            Self::ConnectionFailed => "connection",
            Self::TimedOut => "timeout",
            Self::Malformed => "malformed",
            Self::MachineFailed => "machine",
        }
    }

    /// Names what came of an exchange.
    #[must_use]
    pub fn of(answer: &Result<ChatReply, CallError>) -> Self {
        match answer {
            Ok(reply) => Self::of_reply(reply),
            Err(error) => Self::of_error(error),
        }
    }

    /// Names what came of an exchange that gave a reply.
    #[must_use]
    pub fn of_reply(reply: &ChatReply) -> Self {
        if reply.finish == Finish::Length {
            Self::Truncated
        } else if !reply.tool_calls.is_empty() {
            Self::ToolCalls
        } else if reply.text.trim().is_empty() {
            Self::Empty
        } else {
            Self::Answer
        }
    }

    fn of_error(error: &CallError) -> Self {
        match error {
            CallError::SignIn(error) => Self::of_error(error),
            CallError::Throttled { .. } => Self::Throttled,
            CallError::Unauthorized { .. } => Self::Unauthorized,
            CallError::Server { .. } => Self::ServerError,
            CallError::Rejected { .. } => Self::Rejected,
            CallError::Misconfigured { .. } => Self::Misconfigured,
            CallError::Connection { .. } => Self::ConnectionFailed,
            CallError::Timeout { .. } | CallError::Stalled { .. } => Self::TimedOut,
            CallError::Malformed { .. } | CallError::Unfit { .. } => Self::Malformed,
            CallError::Filtered { .. } => Self::Filtered,
            CallError::Refused { .. } => Self::Refused,
            CallError::Machine { .. } => Self::MachineFailed,
        }
    }
}
