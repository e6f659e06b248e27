//! Reads an answer of the Responses API.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use skillopt_core::job::Usage;
use skillopt_runtime::redact::redact;

use crate::contract::{ChatReply, Finish, ToolCall};
use crate::dialect::events;
use crate::error::CallError;
use crate::failure;

/// Most characters of a refusal that are kept.
const REFUSAL_CHARS_MAX: usize = 300;

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    incomplete_details: Option<Incomplete>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    output: Option<Vec<Item>>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: Option<String>,
}

/// An item of the output; which fields it has depends on its `type`.
#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    content: Option<Vec<Part>>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<Cached>,
    output_tokens_details: Option<Reasoning>,
}

#[derive(Default, Deserialize)]
struct Cached {
    cached_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Reasoning {
    reasoning_tokens: Option<u64>,
}

/// An event of an answer in pieces. The last one holds the whole answer.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    /// What an error says, in the event or beside its type.
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    code: Option<Value>,
    #[serde(default)]
    message: Option<Value>,
}

/// Reads an answer that came in pieces.
///
/// # Errors
/// As [`read`]; and it ended before it was whole.
pub(crate) fn read_stream(
    body: &[u8],
    endpoint: &str,
    secret: &str,
) -> Result<ChatReply, CallError> {
    for data in events::data(body) {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(&data) else {
            continue;
        };
        match (event.kind.as_str(), event.response) {
            ("response.completed" | "response.incomplete" | "response.failed", Some(whole)) => {
                return read(whole.get().as_bytes(), endpoint, secret);
            }
            ("error", _) => {
                let beside = || json!({"code": event.code, "message": event.message});
                let error = event.error.unwrap_or_else(beside);
                return Err(failure::told(&error, endpoint, &[secret]));
            }
            _ => {}
        }
    }
    Err(CallError::Connection {
        endpoint: endpoint.to_owned(),
        detail: "the answer ended before it was whole".to_owned(),
    })
}

/// Reads the body of a success; `secret` is kept out of messages.
///
/// # Errors
/// It is no answer of this interface, or one that was withheld, refused or failed.
pub(crate) fn read(body: &[u8], endpoint: &str, secret: &str) -> Result<ChatReply, CallError> {
    let malformed = |detail: String| CallError::Malformed {
        endpoint: endpoint.to_owned(),
        detail,
    };
    let reply: Reply = serde_json::from_slice(body).map_err(|e| {
        let begins = failure::detail(body, &[secret]);
        malformed(format!("{e}; it begins `{begins}`"))
    })?;
    let usage = usage(reply.usage.unwrap_or_default());
    let error = reply.error.filter(|error| !error.is_null());
    if error.is_some() || reply.status.as_deref() == Some("failed") {
        let error = error.unwrap_or_default();
        return Err(failure::told(&error, endpoint, &[secret]));
    }
    match reply.status.as_deref() {
        None | Some("completed" | "incomplete") => {}
        Some(status) => {
            return Err(CallError::Unfit {
                endpoint: endpoint.to_owned(),
                detail: failure::detail(format!("it is `{status}`").as_bytes(), &[secret]),
                usage,
            });
        }
    }
    let output = reply
        .output
        .ok_or_else(|| malformed("no output".to_owned()))?;
    let reason = reply.incomplete_details.and_then(|details| details.reason);
    let cut = match (reply.status.as_deref(), reason.as_deref()) {
        (Some("incomplete"), Some("content_filter")) => {
            return Err(CallError::Filtered {
                endpoint: endpoint.to_owned(),
                detail: "content filter".to_owned(),
                usage,
            });
        }
        (Some("incomplete"), None | Some("max_output_tokens" | "max_tokens")) => true,
        (Some("incomplete"), Some(reason)) => {
            return Err(CallError::Unfit {
                endpoint: endpoint.to_owned(),
                detail: failure::detail(format!("it stopped for `{reason}`").as_bytes(), &[secret]),
                usage,
            });
        }
        _ => false,
    };
    let mut text = String::new();
    let mut refusal = None;
    let mut tool_calls = Vec::new();
    for item in output {
        if item.kind == "function_call" {
            tool_calls.push(tool_call(item));
            continue;
        }
        for part in item.content.unwrap_or_default() {
            match part.kind.as_str() {
                "output_text" => text.push_str(&part.text.unwrap_or_default()),
                "refusal" => refusal = refusal.or(part.refusal),
                _ => {}
            }
        }
    }
    if let Some(refusal) = refusal.filter(|_| text.is_empty()) {
        let detail = redact(&refusal, &[secret]);
        return Err(CallError::Refused {
            endpoint: endpoint.to_owned(),
            detail: detail.chars().take(REFUSAL_CHARS_MAX).collect(),
            usage,
        });
    }
    let finish = if cut {
        Finish::Length
    } else if tool_calls.is_empty() {
        Finish::Stop
    } else {
        Finish::ToolCalls
    };
    Ok(ChatReply {
        text,
        tool_calls,
        finish,
        usage,
    })
}

fn tool_call(item: Item) -> ToolCall {
    ToolCall {
        id: item.call_id.or(item.id).unwrap_or_default(),
        name: item.name.unwrap_or_default(),
        arguments: match item.arguments {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        },
    }
}

fn usage(tokens: Tokens) -> Usage {
    let cached = tokens.input_tokens_details.unwrap_or_default();
    let reasoning = tokens.output_tokens_details.unwrap_or_default();
    Usage {
        calls: 1,
        prompt_tokens: tokens.input_tokens.unwrap_or(0),
        completion_tokens: tokens.output_tokens.unwrap_or(0),
        cached_tokens: cached.cached_tokens.unwrap_or(0),
        reasoning_tokens: reasoning.reasoning_tokens.unwrap_or(0),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let seen = format!("{:?}", read(body.as_bytes(), "http://h", "sk-secret"));
        assert!(seen.contains(expected), "{seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }

    #[test]
    fn an_answer_is_read_or_its_failure_named() {
        check(
            r#"{"status":"completed","output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}],"usage":{"input_tokens":3,"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1}}}"#,
            r#"text: "ab""#,
        );
        check(
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}"#,
            "finish: Length",
        );
        check(
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_tool_calls"},"output":[]}"#,
            "Unfit",
        );
        check(r#"{"status":"in_progress","output":[]}"#, "Unfit");
        check(
            r#"{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}"#,
            "Filtered",
        );
        check(
            r#"{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no sk-secret"}]}]}"#,
            "Refused",
        );
        check(
            r#"{"status":"failed","error":{"code":"server_error","message":"x sk-secret"}}"#,
            "Server",
        );
        check(
            r#"{"status":"failed","error":{"code":"rate_limit_exceeded"}}"#,
            "Throttled",
        );
        check(
            r#"{"error":{"code":"invalid_api_key","message":"sk-secret"}}"#,
            "Unauthorized",
        );
        check(r#"{"status":"failed"}"#, "Server");
        check(r#"{"status":"completed"}"#, "Malformed");
        check("<html>", "Malformed");
        check(
            r#"{"output":[{"type":"function_call","id":"fc","name":"f"}]}"#,
            r#"ToolCall { id: "fc", name: "f", arguments: "{}" }"#,
        );
    }

    #[test]
    fn pieces_make_the_same_answer() {
        let stream = concat!(
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"ab\"}]}]}}\n\n",
        );
        let reply = read_stream(stream.as_bytes(), "http://h", "").unwrap();
        assert_eq!(reply.text, "ab");
        let cut = &stream[..stream.len() / 2];
        let error = read_stream(cut.as_bytes(), "http://h", "").unwrap_err();
        assert!(matches!(error, CallError::Connection { .. }), "{error}");
        for (failed, expected) in [
            (
                r#"{"type":"error","code":"rate_limit_exceeded"}"#,
                "Throttled",
            ),
            (
                r#"{"type":"error","error":{"type":"rate_limit_error","code":null}}"#,
                "Throttled",
            ),
            (
                r#"{"type":"error","error":{"code":"invalid_api_key"}}"#,
                "Unauthorized",
            ),
            (
                r#"{"type":"error","code":401,"message":"no"}"#,
                "Unauthorized",
            ),
        ] {
            let stream = format!("data: {failed}\n\n");
            let error = read_stream(stream.as_bytes(), "http://h", "").unwrap_err();
            assert!(format!("{error:?}").starts_with(expected), "{error:?}");
        }
    }
}
