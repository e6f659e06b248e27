//! A client of the Messages API.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use skillopt_core::job::Profile;

use super::body::{Body, Style};
use super::fault;
use super::generation::Generation;
use super::read::Reader;
use crate::address::Address;
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;
use crate::http::{Call, Http, bearer, json_body, json_headers, secret_header};

/// The version of the interface that is spoken.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");
const VERSION_NAME: HeaderName = HeaderName::from_static("anthropic-version");
const KEY_NAME: HeaderName = HeaderName::from_static("x-api-key");

/// A client of one address.
pub(super) struct Client {
    http: Arc<Http>,
    address: Address,
    /// Name and value of the header that proves who calls.
    credential: Option<(HeaderName, HeaderValue)>,
    secret: String,
    temperature: Option<f64>,
    style: Style,
}

/// Returns an address without what is appended to it.
pub(super) fn root(base_url: &str) -> String {
    let base = base_url.trim().trim_end_matches('/');
    let base = base.strip_suffix("/messages").unwrap_or(base);
    base.strip_suffix("/v1").unwrap_or(base).to_owned()
}

impl Client {
    pub(super) fn new(profile: &Profile, local: &Local<'_>) -> Result<Self, CallError> {
        let address = Address::new(&profile.endpoint, "/v1/messages")?;
        let endpoint = address.shown.as_str();
        let key = super::api_key(local);
        let token = || (local.env)("ANTHROPIC_AUTH_TOKEN").filter(|t| !t.trim().is_empty());
        let (credential, secret) = if let Some(key) = key {
            let value = secret_header(key.trim(), endpoint)?;
            (Some((KEY_NAME, value)), key)
        } else if let Some(token) = token() {
            let value = bearer(token.trim(), endpoint)?;
            (Some((http::header::AUTHORIZATION, value)), token)
        } else if profile.endpoint == super::BASE_URL {
            return Err(CallError::Misconfigured {
                endpoint: endpoint.to_owned(),
                status: 0,
                detail: "there is no API key; set ANTHROPIC_API_KEY, or \
                    `claude_transport: cli` to use the Claude program with a subscription"
                    .to_owned(),
            });
        } else {
            (None, String::new())
        };
        let thinks = profile
            .settings
            .get("thinking")
            .is_none_or(|on| on != false);
        let switch = |key: &str| local.options.switch(key);
        let style = Style {
            thinks,
            streams: switch("claude_stream").unwrap_or(false),
            caches: switch("claude_prompt_cache").unwrap_or(true),
        };
        Ok(Self {
            http: Arc::clone(local.http),
            address,
            credential,
            secret: secret.trim().to_owned(),
            temperature: profile.temperature,
            style,
        })
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let endpoint = self.address.shown.as_str();
        let temperature = request.temperature.or(self.temperature);
        let body = json_body(&Body::new(request, temperature, self.style), endpoint)?;
        let mut headers = json_headers();
        headers.insert(VERSION_NAME, VERSION);
        if let Some((name, value)) = &self.credential {
            headers.insert(name, value.clone());
        }
        let call = Call {
            method: Method::POST,
            uri: &self.address.uri,
            endpoint,
            headers,
            body,
            limit: request.timeout,
        };
        let answer = self.http.send(call).await?;
        let secrets = &[self.secret.as_str()];
        if answer.status != StatusCode::OK {
            return Err(fault::classify(&answer, endpoint, secrets));
        }
        let by_tool = request
            .schema
            .as_ref()
            .filter(|_| !Generation::of(&request.model).binds_schemas());
        let reader = Reader {
            endpoint,
            secrets,
            schema_tool: by_tool.map(|schema| schema.name.as_str()),
        };
        // A gateway may stream or not, whatever it was asked for.
        if is_stream(&answer.headers) {
            reader.read_stream(&answer.body)
        } else {
            reader.read(&answer.body)
        }
    }
}

fn is_stream(headers: &http::HeaderMap) -> bool {
    headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_the_usual_spellings() {
        for base in [
            "http://h",
            "http://h/",
            "http://h/v1",
            "http://h/v1/messages",
        ] {
            assert_eq!(root(base), "http://h");
        }
    }
}
