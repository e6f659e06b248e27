//! A request that may leave, as it goes to the provider.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri};
use serde_json::Value;
use skillopt_backends::AtMost;

use super::allow::{self, Refusal};
use super::translate::{self, Names};
use super::{Plan, Wire, bound};

/// Headers of a CLI that reach the provider.
const PASSED: &[&str] = &["anthropic-version", "anthropic-beta", "openai-beta"];
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
        let mut sent = match (plan.cli, plan.provider) {
            (Wire::Responses, Wire::Chat) => {
                let (chat, known) = translate::request(&request).map_err(unread)?;
                names = Some(known);
                chat
            }
            _ => request.clone(),
        };
        if plan.provider == Wire::Chat && is_stream {
            // Else nobody would know what the answer came to.
            sent["stream_options"]["include_usage"] = true.into();
        }
        let limit = bound::limit(plan.provider, &mut sent, answer_limit)?;
        // Never the bytes themselves: a key that stands twice could mean two things.
        let body = Bytes::from(sent.to_string());
        Ok(Self {
            uri: uri(plan, path, is_stream)?,
            headers: headers(plan, &parts.headers, is_stream),
            at_most: bound::at_most(&sent, body.len(), limit),
            request: Arc::new(request),
            body,
            is_stream,
            names,
        })
    }
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
