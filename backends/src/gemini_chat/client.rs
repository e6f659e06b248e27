//! A client of the Gemini API.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use skillopt_core::job::Profile;

use super::body::Body;
use super::fault;
use super::read::Reader;
use crate::address::Address;
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;
use crate::http::{Call, Http, json_body, json_headers, secret_header};

const KEY_NAME: HeaderName = HeaderName::from_static("x-goog-api-key");

/// A client of one model.
pub(super) struct Client {
    http: Arc<Http>,
    address: Address,
    credential: Option<HeaderValue>,
    secret: String,
    temperature: Option<f64>,
    thinks: bool,
}

/// Returns an address with the version of the interface, if it names only a host.
pub(super) fn root(base_url: &str) -> String {
    let base = base_url.trim().trim_end_matches('/');
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    if host.contains('/') {
        base.to_owned()
    } else {
        format!("{base}/v1beta")
    }
}

impl Client {
    pub(super) fn new(profile: &Profile, local: &Local<'_>) -> Result<Self, CallError> {
        let model = profile.model.trim();
        let model = model.strip_prefix("models/").unwrap_or(model);
        let is_streamed = local.options.switch("gemini_stream").unwrap_or(false);
        let method = if is_streamed {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };
        let path = format!("/models/{model}:{method}");
        let address = Address::new(&profile.endpoint, &path)?;
        let endpoint = address.shown.as_str();
        let own = (local.secret)("gemini_api_key").map(|key| key.expose().to_owned());
        let key = own
            .or_else(|| (local.env)("GOOGLE_API_KEY"))
            .map(|key| key.trim().to_owned())
            .filter(|key| !key.is_empty());
        if key.is_none() && profile.endpoint == super::BASE_URL {
            return Err(CallError::Misconfigured {
                endpoint: endpoint.to_owned(),
                status: 0,
                detail: "there is no API key; set GEMINI_API_KEY".to_owned(),
            });
        }
        let credential = key.as_deref().map(|key| secret_header(key, endpoint));
        Ok(Self {
            http: Arc::clone(local.http),
            credential: credential.transpose()?,
            address,
            secret: key.unwrap_or_default(),
            temperature: profile.temperature,
            thinks: profile
                .settings
                .get("thinking")
                .is_none_or(|on| on != false),
        })
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let endpoint = self.address.shown.as_str();
        let temperature = request.temperature.or(self.temperature);
        let body = json_body(&Body::new(request, temperature, self.thinks), endpoint)?;
        let mut headers = json_headers();
        if let Some(value) = &self.credential {
            headers.insert(KEY_NAME, value.clone());
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
        let reader = Reader { endpoint, secrets };
        let kind = answer.headers.get(http::header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            reader.read_stream(&answer.body)
        } else {
            reader.read(&answer.body)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_host_speaks_the_usual_version() {
        for (base, expected) in [
            ("https://h", "https://h/v1beta"),
            ("https://h/", "https://h/v1beta"),
            ("https://h/v1beta/", "https://h/v1beta"),
            (
                "https://h/v1/publishers/google",
                "https://h/v1/publishers/google",
            ),
        ] {
            assert_eq!(root(base), expected);
        }
    }
}
