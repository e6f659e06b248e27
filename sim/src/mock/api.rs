//! The interfaces: how each is read, and how each says the same thing.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::ask::{Api, Ask};
use super::pick::Said;

/// A piece of a stream.
pub(super) struct Event {
    /// As it is written.
    pub(super) bytes: String,
    /// Whether it, or its absence, ends the answer.
    pub(super) is_terminal: bool,
}

impl Event {
    /// `data:` alone.
    fn data(value: &Value) -> Self {
        Self {
            bytes: format!("data: {value}\n\n"),
            is_terminal: false,
        }
    }

    /// `event:` and `data:`; the name is the value's `type`.
    fn named(value: &Value) -> Self {
        let name = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Self {
            bytes: format!("event: {name}\ndata: {value}\n\n"),
            is_terminal: false,
        }
    }

    fn terminal(self) -> Self {
        Self {
            is_terminal: true,
            ..self
        }
    }
}

/// Reads a request.
pub(super) fn read(api: Api, path: &str, body: &Value, ask: &mut Ask) {
    match api {
        Api::Responses => responses::read(body, ask),
        Api::Messages => messages::read(body, ask),
        Api::Chat => chat::read(body, ask),
        Api::Gemini => gemini::read(path, body, ask),
    }
}

/// Returns the answer in one piece.
pub(super) fn whole(api: Api, said: &Said, ask: &Ask) -> Value {
    match api {
        Api::Responses => responses::whole(said, ask),
        Api::Messages => messages::whole(said, ask),
        Api::Chat => chat::whole(said, ask),
        Api::Gemini => gemini::whole(said, ask),
    }
}

/// Returns the answer as a stream.
pub(super) fn events(api: Api, said: &Said, ask: &Ask) -> Vec<Event> {
    match api {
        Api::Responses => responses::events(said, ask),
        Api::Messages => messages::events(said, ask),
        Api::Chat => chat::events(said, ask),
        Api::Gemini => gemini::events(said, ask),
    }
}

/// Returns an error as each interface words it (chapter 3).
pub(super) fn error(
    api: Option<Api>,
    status: u16,
    code: Option<&str>,
    message: Option<&str>,
) -> Value {
    let message = message.unwrap_or("mock failure");
    match api {
        Some(Api::Messages) => json!({
            "type": "error",
            "error": {"type": code.unwrap_or_else(|| messages::error_type(status)), "message": message},
            "request_id": "req_mock",
        }),
        Some(Api::Gemini) => json!({
            "error": {"code": status, "message": message, "status": code.unwrap_or_else(|| gemini::error_status(status))},
        }),
        _ => {
            let (kind, known) = openai_error(status);
            let code = code.or(known);
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
    }
}

/// Returns an error in the midst of a stream.
pub(super) fn error_event(api: Api, message: &str) -> Event {
    match api {
        Api::Messages => Event::named(&json!({
            "type": "error",
            "error": {"type": "overloaded_error", "message": message},
        })),
        Api::Responses => Event::named(&json!({
            "type": "response.failed",
            "response": {"id": "resp_mock", "status": "failed", "error": {"code": "server_error", "message": message}},
        })),
        Api::Chat | Api::Gemini => Event::data(&error(Some(api), 500, None, Some(message))),
    }
}

const fn openai_error(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        429 => ("requests", Some("rate_limit_exceeded")),
        500..=599 => ("server_error", None),
        _ => ("invalid_request_error", None),
    }
}

/// Returns the text of a content: a text, or the texts of its parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                Value::String(text) => Some(text.as_str()),
                part => part.get("text")?.as_str(),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_true(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}
