//! What a sandbox may ask for, and how it is told that it may not.

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
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
    /// Too many requests of the task came to nothing.
    Failures(u64),
    /// It does not show the key of this task.
    Key,
    /// Not a message of HTTP that can be read.
    Head(String),
    /// As many connections as the task may have are open.
    Connections(usize),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "`{path}` is no address of this model"),
            Self::Model(model) => write!(f, "`{model}` is not the model of this task"),
            Self::Body(why) => write!(f, "the request cannot be read: {why}"),
            Self::Requests(cap) => write!(f, "the task has had its {cap} requests"),
            Self::Tokens(cap) => write!(f, "the task has had its {cap} tokens"),
            Self::Failures(most) => write!(f, "{most} requests of the task came to nothing"),
            Self::Key => f.write_str("the key is not that of this task"),
            Self::Head(why) => write!(f, "a connection was closed: {why}"),
            Self::Connections(most) => {
                write!(f, "a connection was closed: {most} are open already")
            }
        }
    }
}

/// Most characters of what a sandbox wrote that are kept of a refusal.
const WORDS_MAX: usize = 200;

impl Refusal {
    /// Keeps the beginning of what the sandbox wrote.
    pub(super) fn shortened(self) -> Self {
        let cut = |text: String| text.chars().take(WORDS_MAX).collect();
        match self {
            Self::Path(text) => Self::Path(cut(text)),
            Self::Model(text) => Self::Model(cut(text)),
            Self::Body(text) => Self::Body(cut(text)),
            Self::Head(text) => Self::Head(cut(text)),
            other => other,
        }
    }

    /// Returns whether the task has had all that it may have.
    pub(crate) const fn is_cap(&self) -> bool {
        matches!(
            self,
            Self::Requests(_) | Self::Tokens(_) | Self::Failures(_)
        )
    }

    /// Statuses that CLIs do not try again after.
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::Path(_) => StatusCode::NOT_FOUND,
            Self::Model(_) | Self::Body(_) | Self::Head(_) => StatusCode::BAD_REQUEST,
            Self::Key => StatusCode::UNAUTHORIZED,
            Self::Requests(_) | Self::Tokens(_) | Self::Failures(_) => StatusCode::FORBIDDEN,
            Self::Connections(_) => StatusCode::SERVICE_UNAVAILABLE,
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

/// Headers in which a CLI shows its key.
const KEYS: &[&str] = &["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// Refuses whoever does not show the key of the task: where a sandbox shares the network of its host,
/// others may find the way here.
///
/// # Errors
/// [`Refusal::Key`].
pub(super) fn shows(key: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let shown = KEYS.iter().filter_map(|name| headers.get(*name));
    let mut words = shown.filter_map(|value| value.to_str().ok());
    let is_it = |word: &str| word.strip_prefix("Bearer ").unwrap_or(word).trim() == key;
    if words.any(is_it) {
        Ok(())
    } else {
        Err(Refusal::Key)
    }
}

/// Refuses what is meant for somebody else: a whole address instead of a path, another host.
///
/// # Errors
/// [`Refusal::Path`].
pub(super) fn is_for_us(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    if uri.authority().is_some() || method == Method::CONNECT {
        return Err(Refusal::Path(format!("{method} {uri}")));
    }
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let host = String::from_utf8_lossy(host.unwrap_or(b"localhost"));
    let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
    if matches!(name, "127.0.0.1" | "localhost" | "[::1]") {
        Ok(())
    } else {
        Err(Refusal::Path(format!("{method} {host}{uri}")))
    }
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

/// Refuses what would have the provider do more than answer: look things up, run programs, fetch
/// addresses, or answer where nobody counts.
///
/// # Errors
/// The first such wish.
pub(super) fn check(wire: Wire, request: &Value) -> Result<(), Refusal> {
    let refuse = |what: &str| Err(Refusal::Body(format!("{what} is not allowed")));
    if !request.is_object() {
        return refuse("anything but an object");
    }
    if request
        .get("stream")
        .is_some_and(|stream| !stream.is_boolean() && !stream.is_null())
    {
        return refuse("a `stream` that is neither true nor false");
    }
    if request
        .get("stream_options")
        .is_some_and(|o| !o.is_object() && !o.is_null())
    {
        return refuse("a `stream_options` that is no object");
    }
    for key in STORED.iter().chain(WORK) {
        let is_wanted = request
            .get(*key)
            .is_some_and(|v| !v.is_null() && v != &Value::Bool(false));
        if is_wanted {
            return refuse(&format!("`{key}`"));
        }
    }
    let config = request.get("generationConfig");
    let counts = [
        request.get("n"),
        request.get("best_of"),
        config.and_then(|config| config.get("candidateCount")),
        config.and_then(|config| config.get("candidate_count")),
    ];
    if counts.into_iter().flatten().any(|n| !n.is_null() && n != 1) {
        return refuse("more than one answer");
    }
    // Dearer than the price that a cap is kept by.
    let is = |key: &str, word: &str| request.get(key).is_some_and(|v| v == word);
    if is("service_tier", "priority") || is("speed", "fast") {
        return refuse("to pay for speed");
    }
    let tools = request.get("tools").and_then(Value::as_array);
    for tool in tools.into_iter().flatten() {
        tool_is_ours(wire, tool)?;
    }
    let input = request.get("input").and_then(Value::as_array);
    for tool in input.into_iter().flatten().flat_map(|item| {
        let tools = item.get("tools").and_then(Value::as_array);
        tools.into_iter().flatten()
    }) {
        tool_is_ours(wire, tool)?;
    }
    // The same limit in another spelling, which nobody would see.
    if config.is_some_and(|config| config.get("max_output_tokens").is_some()) {
        return refuse("`max_output_tokens` beside `maxOutputTokens`");
    }
    // What a request holds is looked through; the request itself is no part of a conversation.
    if request
        .as_object()
        .is_some_and(|parts| parts.values().any(fetches))
    {
        return refuse("an image or file that the provider has to fetch or holds already");
    }
    Ok(())
}

/// What a provider holds: of other tasks of the same credential, too, and nobody could count it.
const STORED: &[&str] = &[
    "previous_response_id",
    "conversation",
    "prompt",
    "cachedContent",
    "cached_content",
    // Gemini reads both spellings; the CLIs write the other.
    "generation_config",
];
/// Work of a provider beside its answer.
const WORK: &[&str] = &[
    "background",
    "mcp_servers",
    "container",
    "web_search_options",
    "web_search",
    "enable_search",
    "search_options",
    "search_parameters",
    "plugins",
    // Other models than the one that is paid for.
    "models",
    "route",
];

/// A tool must be one that the CLI runs, not the provider.
fn tool_is_ours(wire: Wire, tool: &Value) -> Result<(), Refusal> {
    let kind = tool.get("type").and_then(Value::as_str);
    let is_ours = match wire {
        Wire::Responses => matches!(
            kind,
            Some("function" | "custom" | "namespace" | "tool_search" | "local_shell")
        ),
        Wire::Chat => matches!(kind, Some("function" | "custom")),
        Wire::Messages => match kind {
            None | Some("custom") => true,
            Some(kind) => ["bash_", "text_editor_", "memory_"]
                .iter()
                .any(|own| kind.starts_with(own)),
        },
        Wire::Gemini => tool
            .as_object()
            .is_some_and(|tool| tool.keys().all(|key| key == "functionDeclarations")),
    };
    if is_ours {
        Ok(())
    } else {
        let name = kind.unwrap_or("of the provider");
        Err(Refusal::Body(format!("the tool `{name}` is not allowed")))
    }
}

/// Returns whether a request names an address that the provider would fetch.
fn fetches(value: &Value) -> bool {
    let is_far = |value: &Value| {
        let url = value.as_str().or_else(|| value.get("url")?.as_str());
        url.is_some_and(|url| !url.starts_with("data:"))
    };
    match value {
        Value::Array(list) => list.iter().any(fetches),
        Value::Object(map) => {
            let names_one = map
                .iter()
                .any(|(key, value)| key.ends_with("_url") && is_far(value));
            let is_heard_afar = map.get("input_audio").is_some_and(|audio| {
                let data = audio.get("data").and_then(Value::as_str);
                data.is_some_and(|data| data.contains("://"))
            });
            let kind = map.get("type").and_then(Value::as_str);
            let is_source = map.get("source").is_some_and(|source| {
                let kind = source.get("type").and_then(Value::as_str);
                matches!(kind, Some("url" | "file"))
            });
            // A file by its name at the provider; with its bytes it may be sent.
            let is_held = ["file_id", "fileData", "file_data"]
                .iter()
                .any(|key| map.get(*key).is_some_and(|v| !v.is_null() && !is_data(v)));
            if names_one || is_heard_afar || is_source || is_held || kind == Some("item_reference")
            {
                return true;
            }
            // What tools are given and give back is the agent's own matter: nobody fetches there.
            let is_own = |key: &str| match key {
                "input" => kind == Some("tool_use"),
                "args" | "response" => map.contains_key("name"),
                _ => false,
            };
            let others = map.iter().filter(|(key, _)| !is_own(key));
            others.map(|(_, value)| value).any(fetches)
        }
        _ => false,
    }
}

/// Returns whether a value is the bytes of a file, and not where it lies.
fn is_data(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with("data:"))
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

    #[test]
    fn a_provider_may_only_answer() {
        for (wire, request, allowed) in [
            (
                Wire::Responses,
                json!({"tools": [{"type": "function", "name": "f"}]}),
                true,
            ),
            (
                Wire::Responses,
                json!({"tools": [{"type": "web_search"}]}),
                false,
            ),
            (
                Wire::Responses,
                json!({"tools": [{"type": "mcp", "server_url": "https://x"}]}),
                false,
            ),
            (
                Wire::Responses,
                json!({"input": [{"type": "additional_tools", "tools": [{"type": "mcp"}]}]}),
                false,
            ),
            (Wire::Responses, json!({"background": true}), false),
            (Wire::Chat, json!({"stream": 1}), false),
            (
                Wire::Chat,
                json!({"stream": true, "stream_options": "x"}),
                false,
            ),
            (Wire::Chat, json!({"n": 5}), false),
            (Wire::Chat, json!({"n": 2.0}), false),
            (Wire::Chat, json!({"n": 1}), true),
            (
                Wire::Responses,
                json!({"previous_response_id": "resp_1"}),
                false,
            ),
            (Wire::Responses, json!({"previous_response_id": null}), true),
            (
                Wire::Responses,
                json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
                false,
            ),
            (
                Wire::Responses,
                json!({"input": [{"type": "input_file", "file_id": "file_1"}]}),
                false,
            ),
            (
                Wire::Messages,
                json!({"messages": [{"content": [{"type": "tool_use", "name": "f", "input": {"source": {"type": "url"}, "file_id": "x"}}]}]}),
                true,
            ),
            (
                Wire::Messages,
                json!({"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}]}),
                false,
            ),
            (Wire::Responses, json!({"service_tier": "priority"}), false),
            (Wire::Messages, json!({"speed": "fast"}), false),
            (
                Wire::Messages,
                json!({"messages": [{"content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}]}),
                false,
            ),
            (
                Wire::Gemini,
                json!({"contents": [{"parts": [{"file_data": {"file_uri": "https://x"}}]}]}),
                false,
            ),
            (
                Wire::Gemini,
                json!({"cachedContent": "cachedContents/1"}),
                false,
            ),
            (
                Wire::Gemini,
                json!({"generationConfig": {"candidateCount": 3}}),
                false,
            ),
            (
                Wire::Chat,
                json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://evil.example/?secret"}}]}]}),
                false,
            ),
            (
                Wire::Chat,
                json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]}),
                true,
            ),
            (
                Wire::Messages,
                json!({"tools": [{"name": "Bash", "input_schema": {}}]}),
                true,
            ),
            (
                Wire::Messages,
                json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
                false,
            ),
            (
                Wire::Messages,
                json!({"mcp_servers": [{"url": "https://x"}]}),
                false,
            ),
            (
                Wire::Gemini,
                json!({"tools": [{"functionDeclarations": []}]}),
                true,
            ),
            (
                Wire::Gemini,
                json!({"tools": [{"googleSearch": {}}]}),
                false,
            ),
            (
                Wire::Responses,
                json!({"type": "tool_use", "name": "f", "input": [{"type": "message", "content": [{"type": "input_image", "image_url": "https://evil.example/?secret"}]}]}),
                false,
            ),
            (
                Wire::Chat,
                json!({"messages": [{"content": [{"type": "video_url", "video_url": {"url": "https://x"}}]}]}),
                false,
            ),
            (
                Wire::Chat,
                json!({"messages": [{"content": [{"type": "input_audio", "input_audio": {"data": "https://x"}}]}]}),
                false,
            ),
            (Wire::Chat, json!({"enable_search": true}), false),
            (Wire::Chat, json!({"models": ["dearer"]}), false),
            (Wire::Chat, json!({"plugins": [{"id": "web"}]}), false),
            (
                Wire::Gemini,
                json!({"generationConfig": {"candidate_count": 5}}),
                false,
            ),
            (
                Wire::Gemini,
                json!({"generationConfig": {"max_output_tokens": 99_999}}),
                false,
            ),
            (Wire::Gemini, json!([]), false),
        ] {
            assert_eq!(check(wire, &request).is_ok(), allowed, "{wire:?} {request}");
        }
    }
}
