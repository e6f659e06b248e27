//! What an HTTP answer that is no success means (backends spec 8, point 2).

pub(crate) mod prompt;

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use skillopt_core::job::Usage;
use skillopt_runtime::clock::unix_ms;
use skillopt_runtime::redact::redact;

use crate::error::CallError;
use crate::http::Answer;

/// How much of an error's body is looked at, in bytes; a key that crosses this border is far from
/// the part that is shown.
const DETAIL_BYTES_MAX: usize = 64 << 10;
/// Most words of it that are shown.
const DETAIL_WORDS_MAX: usize = 150;
/// Most characters of it that are shown.
const DETAIL_CHARS_MAX: usize = 300;

/// Names the class of a failed exchange. `secrets` are kept out of what is shown.
pub(crate) fn classify(answer: &Answer, endpoint: &str, secrets: &[&str]) -> CallError {
    // What tells the class may stand behind the part that is shown.
    let body = &answer.body[..answer.body.len().min(DETAIL_BYTES_MAX)];
    refused(Refused {
        endpoint,
        status: answer.status.as_u16(),
        told: &String::from_utf8_lossy(body),
        detail: detail(&answer.body, secrets),
        retry_after: retry_after(&answer.headers),
    })
}

/// An answer that is no success.
#[derive(Clone, Debug)]
pub struct Refused<'a> {
    /// Who answered.
    pub endpoint: &'a str,
    /// With which status.
    pub status: u16,
    /// What was told, from which the class is found.
    pub told: &'a str,
    /// The part of it that is shown, without secrets.
    pub detail: String,
    /// When to ask again.
    pub retry_after: Option<Duration>,
}

/// Names the class of an answer that is no success, for all who ask providers.
#[must_use]
pub fn refused(refused: Refused<'_>) -> CallError {
    let Refused {
        endpoint,
        status,
        told,
        detail,
        retry_after,
    } = refused;
    let endpoint = endpoint.to_owned();
    match status {
        429 if !out_of_quota(told) => CallError::Throttled {
            endpoint,
            retry_after,
        },
        401 | 403 | 429 => CallError::Unauthorized {
            endpoint,
            status,
            detail,
        },
        408 | 409 | 425 | 500..=599 => CallError::Server {
            endpoint,
            status,
            retry_after,
            detail,
        },
        400 if is_filtered(told) => CallError::Filtered {
            endpoint,
            detail,
            usage: Usage::default(),
        },
        300..=399 => CallError::Misconfigured {
            endpoint,
            status,
            detail: "a redirect; give the final address (keys are never sent on)".to_owned(),
        },
        404 | 405 => CallError::Misconfigured {
            endpoint,
            status,
            detail,
        },
        400..=499 if prompt::is_at_fault(told) => CallError::Rejected {
            endpoint,
            status,
            detail,
        },
        // Without a word of the provider's it is whoever stands before it that takes no such bodies.
        413 => CallError::Misconfigured {
            endpoint,
            status,
            detail: format!("a limit for the size of requests, on the way to the model: {detail}"),
        },
        // A parameter this server does not know would be refused in every call.
        400..=499 => CallError::Misconfigured {
            endpoint,
            status,
            detail,
        },
        _ => CallError::Malformed {
            endpoint,
            detail: format!("unexpected HTTP {status}"),
        },
    }
}

/// Names the class of an error that came where an answer should be, or in its midst: there its status
/// was sent long before, and a code or a type says which it would have been.
pub(crate) fn told(error: &Value, endpoint: &str, secrets: &[&str]) -> CallError {
    let number = |name: &str| {
        let value = &error[name];
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let named = || {
        ["code", "type", "status"]
            .iter()
            .find_map(|name| status_of(error[*name].as_str()?))
    };
    let status = ["status", "status_code", "code"]
        .iter()
        .find_map(|name| number(name))
        .and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok())
        .filter(|status| status.is_client_error() || status.is_server_error())
        .or_else(named);
    let answer = Answer {
        status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        headers: HeaderMap::new(),
        body: error.to_string().into(),
    };
    let mut error = classify(&answer, endpoint, secrets);
    if let CallError::Server { status, .. } = &mut error {
        // What was really sent.
        *status = 200;
    }
    error
}

/// Returns the status that goes with a word for an error.
fn status_of(word: &str) -> Option<StatusCode> {
    Some(match word {
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "insufficient_quota"
        | "too_many_requests"
        | "RESOURCE_EXHAUSTED" => StatusCode::TOO_MANY_REQUESTS,
        "invalid_api_key" | "authentication_error" | "UNAUTHENTICATED" => StatusCode::UNAUTHORIZED,
        "permission_error" | "permission_denied" | "PERMISSION_DENIED" => StatusCode::FORBIDDEN,
        "model_not_found" | "not_found_error" | "not_found" | "DeploymentNotFound" => {
            StatusCode::NOT_FOUND
        }
        "context_length_exceeded"
        | "string_above_max_length"
        | "content_filter"
        | "content_policy_violation"
        | "invalid_request_error"
        | "invalid_prompt"
        | "BadRequestError"
        | "INVALID_ARGUMENT"
        | "invalid_image"
        | "invalid_image_format"
        | "invalid_image_url"
        | "invalid_base64_image"
        | "image_parse_error"
        | "image_too_large"
        | "image_too_small"
        | "image_file_too_large"
        | "image_content_policy_violation"
        | "empty_image_file"
        | "unsupported_image_media_type" => StatusCode::BAD_REQUEST,
        "request_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        _ => return None,
    })
}

/// Returns the start of a provider's message, on one line, without `secrets`.
pub(crate) fn detail(body: &[u8], secrets: &[&str]) -> String {
    // Redacted before it is cut: a cut could leave half a key that is not recognised.
    let text = String::from_utf8_lossy(&body[..body.len().min(DETAIL_BYTES_MAX)]);
    let text = redact(&text, secrets);
    let words = text.split_whitespace().take(DETAIL_WORDS_MAX);
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars().take(DETAIL_CHARS_MAX).collect()
}

/// Returns `retry-after-ms`, or Retry-After in seconds or as a date, as a wait.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let seconds = number("retry-after-ms")
        .map(|ms| ms / 1_000.0)
        .or_else(|| number("retry-after"));
    if let Some(seconds) = seconds {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |name: &str| httpdate::parse_http_date(text(name)?).ok();
    let until = date("retry-after")?;
    // The server's clock, where it tells the time: ours may be another.
    let now = date("date").unwrap_or_else(|| UNIX_EPOCH + Duration::from_millis(unix_ms()));
    Some(until.duration_since(now).unwrap_or_default())
}

/// Providers answer 429 also when the account has no money left; waiting does not help then.
#[must_use]
pub fn out_of_quota(detail: &str) -> bool {
    detail.contains("insufficient_quota") || detail.contains("billing_hard_limit")
}

/// Azure refuses a prompt that its filter objects to with the status of a wrong parameter.
fn is_filtered(detail: &str) -> bool {
    let of_filter = [
        "\"content_filter\"",
        "\"content_policy_violation\"",
        "\"image_content_policy_violation\"",
        "ResponsibleAIPolicyViolation",
    ];
    of_filter.iter().any(|word| detail.contains(word))
        || (detail.contains("\"invalid_prompt\"") && detail.contains("flagged"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.to_owned().into(),
        };
        let error = classify(&answer, "http://h/v1", &["sk-secret"]);
        assert!(format!("{error:?}").starts_with(expected), "{error:?}");
        assert!(!error.to_string().contains("sk-secret"), "{error}");
    }

    #[test]
    fn each_status_has_its_class() {
        check(401, "bad key sk-secret", "Unauthorized");
        check(403, "", "Unauthorized");
        check(429, "slow down", "Throttled");
        check(429, "{\"code\":\"insufficient_quota\"}", "Unauthorized");
        check(500, "sk-secret", "Server");
        check(503, "", "Server");
        check(408, "", "Server");
        check(404, "no such model", "Misconfigured");
        check(302, "", "Misconfigured");
        check(400, "maximum context length is 4096 tokens", "Rejected");
        check(413, "", "Misconfigured");
        check(
            413,
            "<title>413 Request Entity Too Large</title>",
            "Misconfigured",
        );
        check(413, r#"{"error":{"type":"request_too_large"}}"#, "Rejected");
        check(413, "maximum context length is 4096 tokens", "Rejected");
        check(400, r#"{"error":{"code":"invalid_image"}}"#, "Rejected");
        let padded = |code: &str| {
            format!(
                "{{\"error\":{{\"message\":\"{}\",\"code\":\"{code}\"}}}}",
                "x ".repeat(2_000)
            )
        };
        check(400, &padded("content_filter"), "Filtered");
        check(400, &padded("context_length_exceeded"), "Rejected");
        check(429, &padded("insufficient_quota"), "Unauthorized");
        check(400, r#"{"error":{"code":"content_filter"}}"#, "Filtered");
        check(
            400,
            "'max_tokens' is too large: 8000. This model's maximum context length is 4096 tokens",
            "Misconfigured",
        );
        check(400, "unknown parameter", "Misconfigured");
        check(422, "", "Misconfigured");
        check(204, "", "Malformed");
    }

    #[test]
    fn an_error_in_place_of_an_answer_has_the_class_of_its_status() {
        for (error, expected) in [
            (
                json!({"code": 401, "message": "key sk-secret"}),
                "Unauthorized",
            ),
            (json!({"code": "429"}), "Throttled"),
            (json!({"code": "rate_limit_exceeded"}), "Throttled"),
            (
                json!({"type": "rate_limit_error", "code": null}),
                "Throttled",
            ),
            (json!({"code": "insufficient_quota"}), "Unauthorized"),
            (
                json!({"code": "invalid_api_key", "type": "invalid_request_error"}),
                "Unauthorized",
            ),
            (json!({"code": "context_length_exceeded"}), "Rejected"),
            (
                json!({"type": "invalid_request_error", "message": "the prompt is too long"}),
                "Rejected",
            ),
            (json!({"code": "image_parse_error"}), "Rejected"),
            (json!({"type": "request_too_large"}), "Rejected"),
            (json!({"code": "content_filter"}), "Filtered"),
            (json!({"code": "content_policy_violation"}), "Filtered"),
            (
                json!({"code": "invalid_prompt", "message": "your prompt was flagged"}),
                "Filtered",
            ),
            (
                json!({"code": "invalid_prompt", "message": "no text"}),
                "Misconfigured",
            ),
            (json!({"code": "model_not_found"}), "Misconfigured"),
            (json!({"type": "server_error"}), "Server"),
            (json!({"code": 503}), "Server"),
            (json!({"code": 7}), "Server"),
            (json!("overloaded sk-secret"), "Server"),
            (Value::Null, "Server"),
        ] {
            let seen = told(&error, "http://h/v1", &["sk-secret"]);
            assert!(
                format!("{seen:?}").starts_with(expected),
                "{error}: {seen:?}"
            );
            assert!(!seen.to_string().contains("sk-secret"), "{seen}");
        }
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        let mut headers = HeaderMap::new();
        let mut dated = HeaderMap::new();
        for (name, value) in [
            ("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT"),
            ("date", "Fri, 31 Dec 1999 23:59:00 GMT"),
        ] {
            dated.insert(name, http::HeaderValue::from_static(value));
        }
        assert_eq!(retry_after(&dated), Some(Duration::from_secs(59)));
        dated.remove("date");
        assert_eq!(retry_after(&dated), Some(Duration::ZERO), "it is over");
        let mut check = |name: &'static str, value: &'static str, want: Option<u64>| {
            headers.insert(name, http::HeaderValue::from_static(value));
            assert_eq!(retry_after(&headers), want.map(Duration::from_millis));
        };
        check("retry-after", "1.5", Some(1_500));
        check("retry-after-ms", "20", Some(20));
        check("retry-after-ms", "-4", None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
