//! What a provider's refusal means, as a chat backend would tell it.

use std::time::Duration;

use skillopt_backends::CallError;

/// Returns the error of a status; 0 stands for no connection.
pub(crate) fn of_status(
    endpoint: &str,
    status: u16,
    detail: String,
    wait: Option<Duration>,
) -> CallError {
    let endpoint = endpoint.to_owned();
    match status {
        0 => CallError::Connection { endpoint, detail },
        401 | 403 => CallError::Unauthorized {
            endpoint,
            status,
            detail,
        },
        429 => CallError::Throttled {
            endpoint,
            retry_after: wait,
        },
        408 | 409 | 425 | 500..=599 => CallError::Server {
            endpoint,
            status,
            retry_after: wait,
            detail,
        },
        413 => CallError::Rejected {
            endpoint,
            status,
            detail,
        },
        _ => CallError::Misconfigured {
            endpoint,
            status,
            detail,
        },
    }
}
