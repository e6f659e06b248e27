//! Classes of answers, addresses, readings.

use super::*;

fn client(base_url: &str) -> Result<OpenAiCompatible, CallError> {
    OpenAiCompatible::new(&Settings {
        base_url: base_url.to_owned(),
        api_key: Some("sk-secret".to_owned()),
        temperature: None,
        max_tokens: 8_000,
    })
}

#[track_caller]
fn check_status(status: u16, body: &str, expected: &str) {
    let answer = Answer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: body.to_owned().into(),
    };
    let error = client("http://127.0.0.1:9/v1/").unwrap().fail(&answer);
    assert!(format!("{error:?}").starts_with(expected), "{error:?}");
    assert!(!error.to_string().contains("sk-secret"), "{error}");
}

#[test]
fn each_status_has_its_class() {
    check_status(401, "bad key sk-secret", "Unauthorized");
    check_status(403, "", "Unauthorized");
    check_status(429, "slow down", "Throttled");
    check_status(429, "{\"code\":\"insufficient_quota\"}", "Unauthorized");
    check_status(500, "sk-secret", "Server");
    check_status(503, "", "Server");
    check_status(408, "", "Server");
    check_status(404, "no such model", "Misconfigured");
    check_status(302, "", "Misconfigured");
    check_status(400, "maximum context length is 4096 tokens", "Rejected");
    check_status(413, "", "Rejected");
    check_status(
        400,
        "'max_tokens' is too large: 8000. This model's maximum context length is 4096 tokens",
        "Misconfigured",
    );
    check_status(400, "unknown parameter", "Misconfigured");
    check_status(422, "", "Misconfigured");
    check_status(204, "", "Malformed");
}

#[track_caller]
fn check_base(base: &str, expected: Option<&str>) {
    assert_eq!(
        client(base).ok().map(|c| c.uri.to_string()).as_deref(),
        expected
    );
}

#[test]
fn the_base_address_takes_the_usual_spellings_and_no_nonsense() {
    let full = "http://h/v1/chat/completions";
    check_base("http://h/v1", Some(full));
    check_base("http://h/v1/", Some(full));
    check_base("http://h/v1/chat/completions", Some(full));
    check_base("h/v1", None);
    check_base("ftp://h/v1", None);
    check_base("http://user:pw@h/v1", None);
    check_base("http://h/v1?api-key=abc", None);
}

#[track_caller]
fn check_read(body: &str, expected: &str) {
    let answer = Answer {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: body.to_owned().into(),
    };
    let seen = client("http://h/v1").unwrap().read(&answer);
    assert!(format!("{seen:?}").contains(expected), "{seen:?}");
}

#[test]
fn a_reply_is_read_or_named_malformed() {
    check_read(
        r#"{"choices":[{"message":{"content":"a\"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        "a\\\"b",
    );
    check_read(
        r#"{"choices":[{"message":{"content":null},"finish_reason":"length"}]}"#,
        "Length",
    );
    check_read(r#"{"choices":[]}"#, "Malformed");
    check_read("{\"choices\":[{\"mess", "Malformed");
    check_read("<html>", "Malformed");
    check_read(
        r#"{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}"#,
        "Filtered",
    );
    check_read(
        r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#,
        "Filtered",
    );
}

#[test]
fn retry_after_is_read_in_seconds_or_milliseconds() {
    let mut headers = HeaderMap::new();
    assert_eq!(retry_after(&headers), None);
    headers.insert("retry-after", HeaderValue::from_static("1.5"));
    assert_eq!(retry_after(&headers), Some(Duration::from_millis(1_500)));
    headers.insert("retry-after-ms", HeaderValue::from_static("20"));
    assert_eq!(retry_after(&headers), Some(Duration::from_millis(20)));
    headers.insert("retry-after-ms", HeaderValue::from_static("-4"));
    assert_eq!(retry_after(&headers), None);
}
