//! What a provider's refusal means, as a chat backend would tell it.

use std::time::Duration;

use skillopt_backends::{CallError, Refused, refused};

/// Most characters of a provider's words that are shown.
const SHOWN_MAX: usize = 300;

/// Returns the error of a status; 0 stands for no connection. `told` is all that was said, without
/// credentials: what tells the class may stand behind the part that is shown.
pub(crate) fn of_status(
    endpoint: &str,
    status: u16,
    told: &str,
    wait: Option<Duration>,
) -> CallError {
    let detail = shown(told);
    match status {
        0 => CallError::Connection {
            endpoint: endpoint.to_owned(),
            detail,
        },
        status => refused(Refused {
            endpoint,
            status,
            told,
            detail,
            retry_after: wait,
        }),
    }
}

/// Returns the part of a provider's words that is shown.
pub(crate) fn shown(told: &str) -> String {
    told.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class for each thing that a person or a program does about it.
    #[test]
    fn a_refusal_has_the_class_that_a_chat_backend_gives_it() {
        let far = |code: &str| format!("{}\"code\":\"{code}\"", "x ".repeat(2_000));
        for (status, told, class) in [
            (0, "refused".to_owned(), "Connection"),
            (401, String::new(), "Unauthorized"),
            (429, "slow down".to_owned(), "Throttled"),
            (429, far("insufficient_quota"), "Unauthorized"),
            (400, far("context_length_exceeded"), "Rejected"),
            (400, "the prompt is too long".to_owned(), "Rejected"),
            (400, far("content_filter"), "Filtered"),
            (400, "unknown parameter".to_owned(), "Misconfigured"),
            (404, "no such model".to_owned(), "Misconfigured"),
            (413, String::new(), "Misconfigured"),
            (413, far("request_too_large"), "Rejected"),
            (503, String::new(), "Server"),
        ] {
            let error = of_status("http://h/v1", status, &told, None);
            assert!(format!("{error:?}").starts_with(class), "{error:?}");
            assert!(error.to_string().len() < 2 * SHOWN_MAX, "{error}");
        }
    }
}
