//! What a sandbox may ask for, and how it is told that it may not.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Wire;

/// Why a request does not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a path of the interface.
    Path(String),
    /// Another model.
    Model(String),
    /// Not a request of the interface.
    Body(String),
    /// The task has had all its requests.
    Requests(u64),
    /// The task has had all its tokens.
    Tokens(u64),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "`{path}` is no address of this model"),
            Self::Model(model) => write!(f, "`{model}` is not the model of this task"),
            Self::Body(why) => write!(f, "the request cannot be read: {why}"),
            Self::Requests(cap) => write!(f, "the task has had its {cap} requests"),
            Self::Tokens(cap) => write!(f, "the task has had its {cap} tokens"),
        }
    }
}

impl Refusal {
    /// Statuses that CLIs do not try again after.
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::Path(_) => StatusCode::NOT_FOUND,
            Self::Model(_) | Self::Body(_) => StatusCode::BAD_REQUEST,
            Self::Requests(_) | Self::Tokens(_) => StatusCode::FORBIDDEN,
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An answer of the model.
    Answer,
    /// Whether anybody is there; answered here.
    Presence,
    /// Which models there are; answered here.
    Models,
}

/// Looks at method and path, whatever their prefix.
pub(super) fn asked(wire: Wire, method: &Method, path: &str) -> Result<Asked, Refusal> {
    let path = path.trim_end_matches('/');
    if path.is_empty() && (method == Method::HEAD || method == Method::GET) {
        return Ok(Asked::Presence);
    }
    if method == Method::GET && path.ends_with("/models") {
        return Ok(Asked::Models);
    }
    let is_answer = match wire {
        Wire::Responses => path.ends_with("/responses"),
        Wire::Chat => path.ends_with("/chat/completions"),
        Wire::Messages => path.ends_with("/v1/messages"),
        Wire::Gemini => {
            path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent")
        }
    };
    if is_answer && method == Method::POST {
        Ok(Asked::Answer)
    } else {
        Err(Refusal::Path(format!("{method} {path}")))
    }
}

/// Returns the model that a request names.
pub(super) fn model_of(wire: Wire, path: &str, body: &Value) -> String {
    if wire == Wire::Gemini {
        let slug = path.rsplit_once("/models/").map_or("", |(_, rest)| rest);
        return slug.split(':').next().unwrap_or_default().to_owned();
    }
    let model = body.get("model").and_then(Value::as_str);
    model.unwrap_or_default().to_owned()
}

/// Words an error as the CLI's interface does.
pub(super) fn error(wire: Wire, status: u16, message: &str) -> Value {
    match wire {
        Wire::Messages => {
            let kind = match status {
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                429 => "rate_limit_error",
                500.. => "api_error",
                _ => "invalid_request_error",
            };
            json!({"type": "error", "error": {"type": kind, "message": message}})
        }
        Wire::Gemini => json!({"error": {"code": status, "message": message}}),
        Wire::Responses | Wire::Chat => {
            json!({"error": {"message": message, "type": "relay", "param": null, "code": null}})
        }
    }
}

/// Returns the list of the one model.
pub(super) fn models(model: &str) -> Value {
    json!({
        "object": "list",
        "data": [{
            "id": model, "object": "model", "created": 0, "owned_by": "relay",
            "type": "model", "display_name": model, "created_at": "1970-01-01T00:00:00Z",
        }],
        "has_more": false, "first_id": model, "last_id": model, "models": [],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_interface_needs_leaves() {
        for (wire, method, path, want) in [
            (
                Wire::Responses,
                Method::POST,
                "/v1/responses",
                Some(Asked::Answer),
            ),
            (Wire::Responses, Method::POST, "/v1/chat/completions", None),
            (Wire::Responses, Method::GET, "/v1/responses", None),
            (
                Wire::Responses,
                Method::POST,
                "/v1/responses/resp_1/cancel",
                None,
            ),
            (Wire::Responses, Method::POST, "/v1/files", None),
            (
                Wire::Chat,
                Method::POST,
                "/v1/chat/completions",
                Some(Asked::Answer),
            ),
            (
                Wire::Messages,
                Method::POST,
                "/v1/messages",
                Some(Asked::Answer),
            ),
            (Wire::Messages, Method::POST, "/v1/messages/batches", None),
            (Wire::Messages, Method::HEAD, "/", Some(Asked::Presence)),
            (
                Wire::Messages,
                Method::GET,
                "/v1/models",
                Some(Asked::Models),
            ),
            (
                Wire::Gemini,
                Method::POST,
                "/v1beta/models/m:streamGenerateContent",
                Some(Asked::Answer),
            ),
            (Wire::Gemini, Method::POST, "/v1beta/cachedContents", None),
            (Wire::Gemini, Method::DELETE, "/", None),
        ] {
            assert_eq!(asked(wire, &method, path).ok(), want, "{method} {path}");
        }
    }
}
