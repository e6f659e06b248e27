//! A request that may leave, as it goes to the provider.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri};
use serde::Serializer as _;
use serde::ser::SerializeMap as _;
use serde_json::Value;
use skillopt_backends::AtMost;

use super::allow::{self, Refusal};
use super::translate::{self, Names};
use super::{Plan, Wire, bound};

/// Headers of a CLI that reach the provider.
const PASSED: &[&str] = &["anthropic-version", "anthropic-beta", "openai-beta"];
/// Where Chat Completions is told to count a stream.
const OPTIONS: &str = "stream_options";
/// Room for changes of a request, in bytes.
const CHANGES: usize = 64;
/// Most values in a request: each takes many times its bytes in memory.
const VALUES_MAX: usize = 1 << 20;

/// A request that may leave.
pub(super) struct Leaving {
    /// As the CLI sent it.
    pub(super) request: Arc<Value>,
    pub(super) body: Bytes,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) is_stream: bool,
    pub(super) names: Option<Names>,
    pub(super) at_most: AtMost,
}

impl Leaving {
    /// Holds a request against the plan; an answer without a limit gets `answer_limit`.
    ///
    /// # Errors
    /// The plan does not allow it.
    pub(super) fn new(
        plan: &Plan,
        answer_limit: Option<u64>,
        parts: &Parts,
        body: &Bytes,
    ) -> Result<Self, Refusal> {
        let unread = |why: String| Refusal::Body(why);
        let values = body.iter().filter(|b| matches!(b, b',' | b'[' | b'{'));
        if values.count() > VALUES_MAX {
            return Err(unread("it holds too many values".to_owned()));
        }
        let request: Value = serde_json::from_slice(body).map_err(|e| unread(e.to_string()))?;
        let path = parts.uri.path();
        allow::check(plan.cli, &request)?;
        let asked = allow::model_of(plan.cli, path, &request);
        if asked != plan.model {
            return Err(Refusal::Model(asked));
        }
        let is_stream = match plan.cli {
            Wire::Gemini => path.contains(":streamGenerateContent"),
            _ => request["stream"] == true,
        };
        let mut names = None;
        let translated = match (plan.cli, plan.provider) {
            (Wire::Responses, Wire::Chat) => {
                let (chat, known) = translate::request(&request).map_err(unread)?;
                names = Some(known);
                Some(chat)
            }
            _ => None,
        };
        let sent = translated.as_ref().unwrap_or(&request);
        let limited = bound::limit(plan.provider, sent, answer_limit)?;
        let mut changes: Vec<(&str, Value)> = Vec::new();
        if plan.provider == Wire::Chat && is_stream {
            // Else nobody would know what the answer came to.
            let mut options = sent.get(OPTIONS).cloned().unwrap_or(Value::Null);
            options["include_usage"] = true.into();
            changes.push((OPTIONS, options));
        }
        changes.extend(limited.added);
        // Never the bytes themselves: a key that stands twice could mean two things.
        let body = written(sent, &changes, body.len()).map_err(|e| unread(e.to_string()))?;
        let at_most = bound::at_most(sent, body.len(), limited.tokens);
        Ok(Self {
            uri: uri(plan, path, is_stream)?,
            headers: headers(plan, &parts.headers, is_stream),
            at_most,
            request: Arc::new(request),
            body,
            is_stream,
            names,
        })
    }
}

/// Writes a request with some of its parts changed. It may be large: it is not copied for that.
fn written(
    request: &Value,
    changes: &[(&str, Value)],
    about: usize,
) -> Result<Bytes, serde_json::Error> {
    let mut bytes = Vec::with_capacity(about + CHANGES);
    let mut writer = serde_json::Serializer::new(&mut bytes);
    let mut map = writer.serialize_map(None)?;
    let changed = |key: &str| changes.iter().find(|(name, _)| *name == key);
    let own = request.as_object();
    for (key, value) in own.into_iter().flatten() {
        let value = changed(key).map_or(value, |(_, value)| value);
        map.serialize_entry(key, value)?;
    }
    for (key, value) in changes {
        if own.is_none_or(|own| !own.contains_key(*key)) {
            map.serialize_entry(key, value)?;
        }
    }
    map.end()?;
    Ok(bytes.into())
}

fn uri(plan: &Plan, path: &str, is_stream: bool) -> Result<Uri, Refusal> {
    let base = plan.address.trim_end_matches('/');
    let own = match plan.provider {
        Wire::Responses => "/responses".to_owned(),
        Wire::Chat => "/chat/completions".to_owned(),
        Wire::Messages => "/messages".to_owned(),
        Wire::Gemini => {
            let action = path
                .rsplit_once(':')
                .map_or("generateContent", |(_, action)| action);
            let query = if is_stream { "?alt=sse" } else { "" };
            format!("/models/{}:{action}{query}", plan.model)
        }
    };
    let address = format!("{base}{own}");
    address.parse().map_err(|_| Refusal::Path(own))
}

fn headers(plan: &Plan, given: &HeaderMap, is_stream: bool) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    for name in PASSED {
        if let Some(value) = given.get(*name) {
            headers.insert(*name, value.clone());
        }
    }
    for (name, value) in &plan.credential {
        headers.insert(name, value.clone());
    }
    headers
}
