//! What a person can do about a failure, by what was said of it.

/// Parts of messages, and what helps; the first that fits counts.
const ADVICE: &[(&str, &str)] = &[
    ("the disk of this machine was full", "make room on the disk"),
    (
        "a fault of this machine",
        "run `skillopt doctor` on that machine: it tries the sandbox and the agents' programs",
    ),
    (
        "the agent's program asked the model nothing",
        "start the agent's program by hand with a short question and see where it stops; \
         `skillopt doctor` checks how it is installed",
    ),
    (
        "a limit for the size of requests",
        "raise the limit of the gateway before the model (`client_max_body_size` of nginx)",
    ),
    (
        "rejected the credentials",
        "set the key in the environment, such as OPENAI_COMPATIBLE_API_KEY",
    ),
    (
        "no connection to",
        "check the address (OPENAI_COMPATIBLE_BASE_URL) and whether the server is up",
    ),
    (
        "did not answer within",
        "raise `env.exec_timeout` (for the optimizer `model.optimizer_timeout`), or check whether \
         the server is overloaded",
    ),
    (
        "does not offer this",
        "check the address and the model's name",
    ),
    (
        "refused the request",
        "check the address and the model's name",
    ),
    (
        "asked us to slow down",
        "wait, or use fewer slots (`--slots`)",
    ),
    ("answered HTTP 5", "wait until the provider is well again"),
    (
        "is not a chat completion",
        "check the address: it must speak Chat Completions",
    ),
    ("No space left on device", "make room on the disk"),
    ("disk is full", "make room on the disk"),
    ("Permission denied", "let this user write there"),
    (
        "Read-only file system",
        "choose a place that can be written",
    ),
];

/// Returns what helps against a failure that is told so, if we know.
pub(crate) fn advice(message: &str) -> Option<&'static str> {
    let fits = |(part, _): &&(&str, &'static str)| message.contains(part);
    ADVICE.iter().find(fits).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use skillopt_backends::CallError;

    use super::*;

    #[test]
    fn failures_of_calls() {
        let (endpoint, detail) = ("http://x/v1".to_owned(), "?".to_owned());
        for (error, want) in [
            (
                CallError::Unauthorized {
                    endpoint: endpoint.clone(),
                    status: 401,
                    detail: detail.clone(),
                },
                "OPENAI_COMPATIBLE_API_KEY",
            ),
            (
                CallError::Connection {
                    endpoint: endpoint.clone(),
                    detail: detail.clone(),
                },
                "whether the server is up",
            ),
            (
                CallError::Timeout {
                    endpoint: endpoint.clone(),
                    limit: Duration::from_secs(1),
                },
                "env.exec_timeout",
            ),
            (
                CallError::Misconfigured {
                    endpoint: endpoint.clone(),
                    status: 404,
                    detail: detail.clone(),
                },
                "model's name",
            ),
            (
                CallError::Rejected {
                    endpoint: endpoint.clone(),
                    status: 400,
                    detail: detail.clone(),
                },
                "model's name",
            ),
            (
                CallError::Throttled {
                    endpoint: endpoint.clone(),
                    retry_after: None,
                },
                "fewer slots",
            ),
            (
                CallError::Server {
                    endpoint: endpoint.clone(),
                    status: 503,
                    retry_after: None,
                    detail: detail.clone(),
                },
                "wait",
            ),
            (
                CallError::Malformed { endpoint, detail },
                "Chat Completions",
            ),
            (
                CallError::Machine {
                    detail: "the agent's sandbox could not start: no connection to init".to_owned(),
                },
                "skillopt doctor",
            ),
        ] {
            let seen = advice(&error.to_string());
            assert!(seen.is_some_and(|a| a.contains(want)), "{error}: {seen:?}");
        }
    }

    #[test]
    fn other_failures() {
        let full = std::io::Error::from_raw_os_error(28).to_string();
        assert_eq!(advice(&full), Some("make room on the disk"));
        assert_eq!(advice("something else"), None);
    }
}
