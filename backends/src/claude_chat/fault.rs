//! What an error of the Messages API means.

use serde::Deserialize;
use skillopt_core::job::Usage;
use skillopt_runtime::redact::redact;

use crate::error::CallError;
use crate::failure;
use crate::http::Answer;

/// Most characters of a message that are kept.
const DETAIL_CHARS_MAX: usize = 300;

/// An error as the interface tells it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Told {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Body {
    error: Told,
}

/// Names the class of an answer that is no success.
pub(super) fn classify(answer: &Answer, endpoint: &str, secrets: &[&str]) -> CallError {
    let told: Option<Body> = serde_json::from_slice(&answer.body).ok();
    let of_prompt = told.and_then(|body| {
        let status = answer.status.as_u16();
        of_prompt(&body.error, status, endpoint, secrets)
    });
    of_prompt.unwrap_or_else(|| failure::classify(answer, endpoint, secrets))
}

/// Names the class of an error that came with a success, as in the midst of a stream.
pub(super) fn told(told: &Told, endpoint: &str, secrets: &[&str]) -> CallError {
    let status = match told.kind.as_str() {
        "rate_limit_error" => 429,
        "overloaded_error" => 529,
        "timeout_error" => 504,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "invalid_request_error" => 400,
        _ => 500,
    };
    if let Some(error) = of_prompt(told, status, endpoint, secrets) {
        return error;
    }
    let endpoint = endpoint.to_owned();
    let detail = shown(told, secrets);
    match status {
        429 => CallError::Throttled {
            endpoint,
            retry_after: None,
        },
        401..=403 => CallError::Unauthorized {
            endpoint,
            status,
            detail,
        },
        413 => CallError::Rejected {
            endpoint,
            status,
            detail,
        },
        400..500 => CallError::Misconfigured {
            endpoint,
            status,
            detail,
        },
        _ => CallError::Server {
            endpoint,
            status,
            retry_after: None,
            detail,
        },
    }
}

/// Tells the faults of one prompt, which no other prompt needs to have, from those of the settings.
fn of_prompt(told: &Told, status: u16, endpoint: &str, secrets: &[&str]) -> Option<CallError> {
    if told.kind != "invalid_request_error" {
        return None;
    }
    let words = told.message.to_lowercase();
    let endpoint = endpoint.to_owned();
    let detail = shown(told, secrets);
    if words.contains("content filtering") {
        return Some(CallError::Filtered {
            endpoint,
            detail,
            usage: Usage::default(),
        });
    }
    failure::prompt::is_at_fault(&words).then_some(CallError::Rejected {
        endpoint,
        status,
        detail,
    })
}

fn shown(told: &Told, secrets: &[&str]) -> String {
    let text = redact(&told.message, secrets);
    let text = format!("{}: {text}", told.kind);
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(status: u16, kind: &str, message: &str, expected: &str) {
        let error = json!({"type": kind, "message": message});
        let body = json!({"type": "error", "error": error});
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.to_string().into(),
        };
        let seen = classify(&answer, "http://h", &["sk-secret"]);
        assert!(format!("{seen:?}").starts_with(expected), "{seen:?}");
        let alone = told(
            &serde_json::from_value(error).unwrap(),
            "http://h",
            &["sk-secret"],
        );
        assert!(format!("{alone:?}").starts_with(expected), "{alone:?}");
        assert!(!format!("{seen:?}{alone:?}").contains("sk-secret"));
    }

    #[test]
    fn each_error_has_its_class() {
        let invalid = "invalid_request_error";
        check(401, "authentication_error", "bad sk-secret", "Unauthorized");
        check(403, "permission_error", "", "Unauthorized");
        check(404, "not_found_error", "model: x", "Misconfigured");
        check(413, "request_too_large", "", "Rejected");
        check(429, "rate_limit_error", "slow", "Throttled");
        check(500, "api_error", "", "Server");
        check(529, "overloaded_error", "", "Server");
        check(504, "timeout_error", "", "Server");
        check(400, invalid, "prompt is too long: 9 > 8", "Rejected");
        check(
            400,
            invalid,
            "input length and `max_tokens` exceed context limit: 9 + 8 > 10",
            "Rejected",
        );
        check(
            400,
            invalid,
            "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000",
            "Misconfigured",
        );
        check(400, invalid, "max_tokens: 9 > 8", "Misconfigured");
        check(400, invalid, "Could not process image", "Rejected");
        check(
            400,
            invalid,
            "Output blocked by content filtering policy",
            "Filtered",
        );
        check(400, invalid, "thinking: Extra inputs", "Misconfigured");
    }
}
