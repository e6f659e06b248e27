//! What an error of the Gemini API means.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use skillopt_runtime::redact::redact;

use crate::error::CallError;
use crate::failure;
use crate::http::Answer;

/// Most characters of a message that are kept.
const DETAIL_CHARS_MAX: usize = 300;

/// An error as the interface tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Told {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    details: Vec<Value>,
}

#[derive(Deserialize)]
struct Body {
    error: Told,
}

/// Names the class of an answer that is no success.
pub(super) fn classify(answer: &Answer, endpoint: &str, secrets: &[&str]) -> CallError {
    let body = answer.body.as_ref();
    // A stream tells its error in a list. That is tried first: serde takes a list for an object.
    let told = match serde_json::from_slice::<Vec<Body>>(body) {
        Ok(mut list) => list.pop(),
        Err(_) => serde_json::from_slice::<Body>(body).ok(),
    };
    let told = told.and_then(|body| special(&body.error, endpoint, secrets));
    told.unwrap_or_else(|| failure::classify(answer, endpoint, secrets))
}

/// Names the class of an error that came with a success, as in the midst of a stream.
pub(super) fn told(told: &Told, endpoint: &str, secrets: &[&str]) -> CallError {
    if let Some(error) = special(told, endpoint, secrets) {
        return error;
    }
    let status = StatusCode::from_u16(told.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let answer = Answer {
        status,
        headers: http::HeaderMap::new(),
        body: shown(told, secrets).into(),
    };
    failure::classify(&answer, endpoint, secrets)
}

/// Tells what the status alone does not.
fn special(told: &Told, endpoint: &str, secrets: &[&str]) -> Option<CallError> {
    let status = told.code;
    let endpoint = endpoint.to_owned();
    let detail = shown(told, secrets);
    let is_bad_key = told
        .details
        .iter()
        .any(|d| d["reason"] == "API_KEY_INVALID");
    match status {
        400 if is_bad_key => Some(CallError::Unauthorized {
            endpoint,
            status,
            detail,
        }),
        400 if failure::prompt::is_at_fault(&told.message) => Some(CallError::Rejected {
            endpoint,
            status,
            detail,
        }),
        // No wait within a run helps against a quota of the day.
        429 if told.details.iter().any(is_of_the_day) => Some(CallError::Unauthorized {
            endpoint,
            status,
            detail,
        }),
        429 => retry_delay(&told.details).map(|wait| CallError::Throttled {
            endpoint,
            retry_after: Some(wait),
        }),
        // The server gave up on its own.
        499 => Some(CallError::Server {
            endpoint,
            status,
            retry_after: None,
            detail,
        }),
        _ => None,
    }
}

fn is_of_the_day(detail: &Value) -> bool {
    let violations = detail["violations"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    violations.iter().any(|v| {
        v["quotaId"]
            .as_str()
            .is_some_and(|id| id.contains("PerDay"))
    })
}

/// Returns the wait that a detail names, as in `"34.5s"`.
fn retry_delay(details: &[Value]) -> Option<Duration> {
    let delay = details.iter().find_map(|d| d["retryDelay"].as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn shown(told: &Told, secrets: &[&str]) -> String {
    let text = redact(&told.message, secrets);
    let text = format!("{}: {text}", told.status);
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(code: u16, message: &str, details: Value, expected: &str) {
        let error = json!({"code": code, "message": message, "status": "S", "details": details});
        let body = json!({"error": error});
        let mut answer = Answer {
            status: StatusCode::from_u16(code).unwrap(),
            headers: http::HeaderMap::new(),
            body: body.to_string().into(),
        };
        let whole = classify(&answer, "http://h", &["sk-secret"]);
        answer.body = json!([body]).to_string().into();
        let streamed = classify(&answer, "http://h", &["sk-secret"]);
        let error: Told = serde_json::from_value(error).unwrap();
        let inside = told(&error, "http://h", &["sk-secret"]);
        for seen in [whole, streamed, inside] {
            let seen = format!("{seen:?}");
            assert!(seen.starts_with(expected), "{seen}");
            assert!(!seen.contains("sk-secret"), "{seen}");
        }
    }

    #[test]
    fn each_error_has_its_class() {
        let none = json!([]);
        check(
            400,
            "API key sk-secret not valid",
            json!([{"reason": "API_KEY_INVALID"}]),
            "Unauthorized",
        );
        check(
            400,
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            none.clone(),
            "Rejected",
        );
        check(400, "Unknown name", none.clone(), "Misconfigured");
        check(403, "", none.clone(), "Unauthorized");
        check(404, "models/x is not found", none.clone(), "Misconfigured");
        check(
            429,
            "slow",
            json!([{"@type": "x/google.rpc.RetryInfo", "retryDelay": "2.5s"}]),
            "Throttled { endpoint: \"http://h\", retry_after: Some(2.5s) }",
        );
        check(429, "slow", none.clone(), "Throttled");
        check(
            429,
            "quota",
            json!([{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}]),
            "Unauthorized",
        );
        check(499, "cancelled", none.clone(), "Server");
        check(503, "overloaded", none, "Server");
    }
}
