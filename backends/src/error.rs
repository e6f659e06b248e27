//! Errors of an exchange, which know what to do about themselves.

use std::time::Duration;

use skillopt_core::job::Usage;

/// What the caller should do about a failed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Try again, not before this time if the provider named one.
    Retry(Option<Duration>),
    /// This very request can never succeed; other requests may.
    GiveUp,
    /// No request can succeed until a person changes something: pause the run.
    StopRun,
}

/// Why an exchange gave no answer. `endpoint` never holds a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// HTTP 429, or the like.
    #[error("`{endpoint}` asked us to slow down (HTTP 429)")]
    Throttled {
        /// Where it happened.
        endpoint: String,
        /// The provider's Retry-After.
        retry_after: Option<Duration>,
    },
    /// HTTP 401 or 403.
    #[error("`{endpoint}` rejected the credentials (HTTP {status}): {detail}")]
    Unauthorized {
        /// Where it happened.
        endpoint: String,
        /// 401 or 403.
        status: u16,
        /// Start of the provider's message, redacted.
        detail: String,
    },
    /// The server answered with an error that may pass (408, 409, 425, 5xx).
    #[error("`{endpoint}` answered HTTP {status}: {detail}")]
    Server {
        /// Where it happened.
        endpoint: String,
        /// The status.
        status: u16,
        /// The provider's Retry-After.
        retry_after: Option<Duration>,
        /// Start of the provider's message, redacted.
        detail: String,
    },
    /// This very prompt was refused, for it is too long or holds an image that cannot be read: it can never
    /// succeed, others may.
    #[error("`{endpoint}` refused the request (HTTP {status}): {detail}")]
    Rejected {
        /// Where it happened.
        endpoint: String,
        /// The status.
        status: u16,
        /// Start of the provider's message, redacted.
        detail: String,
    },
    /// Wrong address, model or parameter (400, 404, 405, 422, a redirect): nothing can succeed
    /// until the configuration changes.
    #[error("{}", misconfigured(endpoint, *status, detail))]
    Misconfigured {
        /// Where it happened.
        endpoint: String,
        /// The status, 0 if it never came to a request.
        status: u16,
        /// What is wrong.
        detail: String,
    },
    /// No connection, or it broke.
    #[error("no connection to `{endpoint}`: {detail}")]
    Connection {
        /// Where it happened.
        endpoint: String,
        /// The cause.
        detail: String,
    },
    /// The exchange took longer than its limit.
    #[error("`{endpoint}` did not answer within {limit:?}")]
    Timeout {
        /// Where it happened.
        endpoint: String,
        /// The limit that fired.
        limit: Duration,
    },
    /// An answer that had begun, or was to come in pieces, stopped coming.
    #[error("`{endpoint}` stalled: {awaited} did not come within {limit:?}")]
    Stalled {
        /// Where it happened.
        endpoint: String,
        /// The limit that fired.
        limit: Duration,
        /// What did not come.
        awaited: &'static str,
    },
    /// HTTP 200 with a body that is not a chat completion.
    #[error("`{endpoint}` answered something that is not a chat completion: {detail}")]
    Malformed {
        /// Where it happened.
        endpoint: String,
        /// What was wrong.
        detail: String,
    },
    /// An answer, but not what was asked for: no tool call where one is required, no JSON where a
    /// schema binds.
    #[error("`{endpoint}` did not answer as asked: {detail}")]
    Unfit {
        /// Where it happened.
        endpoint: String,
        /// What is wrong with it.
        detail: String,
        /// What was billed all the same, as far as the provider says.
        usage: Usage,
    },
    /// The provider's filter withheld the answer.
    #[error("`{endpoint}` withheld the answer: {detail}")]
    Filtered {
        /// Where it happened.
        endpoint: String,
        /// The reason given.
        detail: String,
        /// What was billed all the same, as far as the provider says.
        usage: Usage,
    },
    /// The model refused to answer.
    #[error("the model at `{endpoint}` refused to answer: {detail}")]
    Refused {
        /// Where it happened.
        endpoint: String,
        /// What it said instead, shortened.
        detail: String,
        /// What was billed all the same, as far as the provider says.
        usage: Usage,
    },
    /// This machine failed: the sandbox of an agent did not start or was lost. Nothing is said of a
    /// provider; another machine may do better.
    #[error("a fault of this machine: {detail}")]
    Machine {
        /// What failed.
        detail: String,
    },
    /// There was no credential to ask with: whoever gives it failed, and no model was asked.
    #[error("the sign-in failed: {0}")]
    SignIn(Box<CallError>),
}

/// A fault that shows before any request has no status.
fn misconfigured(endpoint: &str, status: u16, detail: &str) -> String {
    match status {
        0 => format!("`{endpoint}`: {detail}"),
        status => format!("`{endpoint}` does not offer this (HTTP {status}): {detail}"),
    }
}

impl CallError {
    /// Returns whether the request may have reached a model: then it may be billed.
    #[must_use]
    pub fn may_be_billed(&self) -> bool {
        match self {
            // The HTTP client's words for a connection that never came about.
            Self::Connection { detail, .. } => !detail.contains("client error (Connect)"),
            Self::Timeout { .. }
            | Self::Stalled { .. }
            | Self::Malformed { .. }
            | Self::Unfit { .. }
            | Self::Filtered { .. }
            | Self::Refused { .. } => true,
            Self::Throttled { .. }
            | Self::Unauthorized { .. }
            | Self::Server { .. }
            | Self::Rejected { .. }
            | Self::Misconfigured { .. }
            | Self::Machine { .. }
            | Self::SignIn(_) => false,
        }
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Throttled { retry_after, .. } | Self::Server { retry_after, .. } => {
                Disposition::Retry(*retry_after)
            }
            Self::Connection { .. }
            | Self::Timeout { .. }
            | Self::Stalled { .. }
            | Self::Malformed { .. }
            | Self::Unfit { .. }
            | Self::Machine { .. } => Disposition::Retry(None),
            Self::Rejected { .. } | Self::Filtered { .. } | Self::Refused { .. } => {
                Disposition::GiveUp
            }
            Self::Unauthorized { .. } | Self::Misconfigured { .. } => Disposition::StopRun,
            Self::SignIn(error) => error.disposition(),
        }
    }
}

impl CallError {
    /// Returns what a server or a backend said of it, to take out of it what must not be shown.
    pub fn detail_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Unauthorized { detail, .. }
            | Self::Server { detail, .. }
            | Self::Rejected { detail, .. }
            | Self::Misconfigured { detail, .. }
            | Self::Connection { detail, .. }
            | Self::Malformed { detail, .. }
            | Self::Unfit { detail, .. }
            | Self::Filtered { detail, .. }
            | Self::Refused { detail, .. }
            | Self::Machine { detail } => Some(detail),
            Self::SignIn(error) => error.detail_mut(),
            Self::Throttled { .. } | Self::Timeout { .. } | Self::Stalled { .. } => None,
        }
    }

    /// Returns whether a credential was rejected, be it by whoever gives the one that is sent.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        match self {
            Self::Unauthorized { .. } => true,
            Self::SignIn(error) => error.is_unauthorized(),
            _ => false,
        }
    }

    /// Returns what the provider says it billed for a call without an answer.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Filtered { usage, .. }
            | Self::Refused { usage, .. }
            | Self::Unfit { usage, .. } => Some(*usage),
            _ => None,
        }
    }
}
