//! Bodies of answers, in the shapes of the public APIs.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;
use serde_json::{Value, json};

use super::route::Api;
use crate::backend::usage;
use crate::model::Outcome;
use crate::replies::{Call, Reply};
use crate::unit::short_hash;

/// An answer with a body that is ready to send.
pub(super) type Answer = Response<Full<Bytes>>;

/// A connection that is cut instead of answered.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
pub(super) struct Cut;

/// Returns the answer to a call that ended so.
pub(super) fn outcome(api: Api, call: &Call<'_>, outcome: Outcome) -> Result<Answer, Cut> {
    Ok(match outcome {
        Outcome::Text(reply) => json_bytes(StatusCode::OK, text(api, call, &reply)),
        Outcome::Malformed => json_bytes(StatusCode::OK, b"<html>not a completion".to_vec()),
        Outcome::Throttled(seconds) => {
            let mut answer = error(api, StatusCode::TOO_MANY_REQUESTS, "simulated rate limit");
            if let Some(seconds) = seconds {
                answer
                    .headers_mut()
                    .insert(header::RETRY_AFTER, seconds.into());
            }
            answer
        }
        Outcome::ServerError => error(
            api,
            StatusCode::INTERNAL_SERVER_ERROR,
            "simulated server error",
        ),
        Outcome::Unauthorized => error(api, StatusCode::UNAUTHORIZED, "simulated rejection"),
        Outcome::Cut => return Err(Cut),
    })
}

/// Returns an error in the shape of `api`.
pub(super) fn error(api: Api, status: StatusCode, message: &str) -> Answer {
    let (chat_type, code, messages_type) = match status {
        StatusCode::UNAUTHORIZED => (
            "invalid_request_error",
            "invalid_api_key",
            "authentication_error",
        ),
        StatusCode::TOO_MANY_REQUESTS => ("requests", "rate_limit_exceeded", "rate_limit_error"),
        StatusCode::NOT_FOUND => ("invalid_request_error", "not_found", "not_found_error"),
        status if status.is_server_error() => ("server_error", "server_error", "api_error"),
        _ => (
            "invalid_request_error",
            "invalid_request",
            "invalid_request_error",
        ),
    };
    let body = match api {
        Api::Chat => json!({"error": {
            "message": message, "type": chat_type, "param": null, "code": code,
        }}),
        Api::Messages => json!({"type": "error", "error": {
            "type": messages_type, "message": message,
        }}),
    };
    json(status, &body)
}

/// Returns a list of models that satisfies clients of both shapes. Any name is served; the list
/// names the usual two.
pub(super) fn models() -> Answer {
    let model = |id: &str| {
        json!({
            "id": id, "object": "model", "created": 0, "owned_by": "skillopt",
            "type": "model", "display_name": id, "created_at": "1970-01-01T00:00:00Z",
        })
    };
    let body = json!({
        "object": "list",
        "data": [model("sim-target"), model("sim-optimizer")],
        "has_more": false, "first_id": "sim-target", "last_id": "sim-optimizer",
    });
    json(StatusCode::OK, &body)
}

/// Returns an answer with a JSON value.
pub(super) fn json(status: StatusCode, body: &Value) -> Answer {
    json_bytes(status, body.to_string().into_bytes())
}

fn json_bytes(status: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn text(api: Api, call: &Call<'_>, reply: &Reply) -> Vec<u8> {
    let usage = usage(call, &reply.text);
    // The id names the work; there is no clock in a reply.
    let id = format!("sim-{}", short_hash(&reply.key));
    let body = match api {
        Api::Chat => serde_json::to_vec(&Completion {
            id: &id,
            object: "chat.completion",
            created: 0,
            model: call.model,
            choices: [Choice {
                index: 0,
                message: ChoiceMessage {
                    role: "assistant",
                    content: &reply.text,
                },
                finish_reason: "stop",
            }],
            usage: CompletionUsage {
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                total_tokens: usage.prompt_tokens + usage.completion_tokens,
            },
        }),
        Api::Messages => serde_json::to_vec(&MessageAnswer {
            id: &id,
            r#type: "message",
            role: "assistant",
            model: call.model,
            content: [Block {
                r#type: "text",
                text: &reply.text,
            }],
            stop_reason: "end_turn",
            stop_sequence: None,
            usage: MessageUsage {
                input_tokens: usage.prompt_tokens,
                output_tokens: usage.completion_tokens,
            },
        }),
    };
    // Texts and numbers always have a JSON form.
    body.unwrap_or_default()
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: CompletionUsage,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: ChoiceMessage<'a>,
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct ChoiceMessage<'a> {
    role: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct CompletionUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

#[derive(Serialize)]
struct MessageAnswer<'a> {
    id: &'a str,
    r#type: &'a str,
    role: &'a str,
    model: &'a str,
    content: [Block<'a>; 1],
    stop_reason: &'a str,
    stop_sequence: Option<&'a str>,
    usage: MessageUsage,
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct MessageUsage {
    input_tokens: u64,
    output_tokens: u64,
}
