//! Errors of MiniMax, which come with HTTP 200 (`base_resp`).

use serde::Deserialize;

use crate::error::CallError;
use crate::failure;
use skillopt_core::job::Usage;

#[derive(Deserialize)]
struct Body {
    base_resp: Option<Base>,
}

#[derive(Deserialize)]
struct Base {
    status_code: i64,
    #[serde(default)]
    status_msg: String,
}

/// Returns the error that an answer without choices holds.
pub(super) fn error(body: &[u8], endpoint: &str, secret: &str) -> Option<CallError> {
    let body: Body = serde_json::from_slice(body).ok()?;
    let base = body.base_resp.filter(|base| base.status_code != 0)?;
    let endpoint = endpoint.to_owned();
    let message = failure::detail(base.status_msg.as_bytes(), &[secret]);
    let detail = format!("code {}: {message}", base.status_code);
    Some(match base.status_code {
        // Requests, tokens or connections per minute.
        1002 | 1039 | 1041 | 2045 => CallError::Throttled {
            endpoint,
            retry_after: None,
        },
        // Key, balance, plan.
        1004 | 1008 | 1028 | 1030 | 2049 | 2056 | 2061 => CallError::Unauthorized {
            endpoint,
            status: 200,
            detail,
        },
        // The prompt's or the answer's words were objected to.
        1026 | 1027 => CallError::Filtered {
            endpoint,
            detail,
            usage: Usage::default(),
        },
        2013 => CallError::Misconfigured {
            endpoint,
            status: 200,
            detail,
        },
        _ => CallError::Server {
            endpoint,
            status: 200,
            retry_after: None,
            detail,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Option<&str>) {
        let seen = error(body.as_bytes(), "http://h", "sk-secret").map(|e| format!("{e:?}"));
        match expected {
            None => assert_eq!(seen, None),
            Some(expected) => {
                let seen = seen.unwrap();
                assert!(seen.starts_with(expected), "{seen}");
                assert!(!seen.contains("sk-secret"), "{seen}");
            }
        }
    }

    #[test]
    fn a_code_in_a_success_is_an_error_of_its_class() {
        let body = |code: i64| {
            format!(r#"{{"base_resp":{{"status_code":{code},"status_msg":"x sk-secret"}}}}"#)
        };
        check(&body(1008), Some("Unauthorized"));
        check(&body(1002), Some("Throttled"));
        check(&body(1027), Some("Filtered"));
        check(&body(2013), Some("Misconfigured"));
        check(&body(1000), Some("Server"));
        check(&body(0), None);
        check("{}", None);
        check("no", None);
    }
}
