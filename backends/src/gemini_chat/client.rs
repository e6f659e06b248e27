//! A client of the Gemini API.

use async_trait::async_trait;
use skillopt_core::job::Profile;
use skillopt_core::secret::Secret;

use super::body::Body;
use super::fault;
use super::read::Reader;
use crate::address::Address;
use crate::auth::Auth;
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;
use crate::exchange::{Exchange, Success};

const KEY_NAME: &str = "x-goog-api-key";

/// A client of one model.
pub(super) struct Client {
    exchange: Exchange,
    address: Address,
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
        let key = (local.secret)("gemini_api_key")
            .or_else(|| (local.env)("GOOGLE_API_KEY").map(Secret::new))
            .filter(|key| !key.expose().trim().is_empty());
        let auth = match key {
            Some(key) => Auth::header(KEY_NAME, key, endpoint)?,
            None => Auth::None,
        };
        if matches!(auth, Auth::None) && profile.endpoint == super::BASE_URL {
            return Err(CallError::Misconfigured {
                endpoint: endpoint.to_owned(),
                status: 0,
                detail: "there is no API key; set GEMINI_API_KEY".to_owned(),
            });
        }
        Ok(Self {
            exchange: Exchange {
                classify: fault::classify,
                ..Exchange::new(local.http, auth, is_streamed)
            },
            address,
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
        let temperature = request.temperature.or(self.temperature);
        let body = Body::new(request, temperature, self.thinks);
        let read = |answer: &Success| {
            let reader = Reader {
                endpoint: &self.address.shown,
                secrets: &[answer.secret()],
            };
            if answer.is_stream {
                reader.read_stream(&answer.body)
            } else {
                reader.read(&answer.body)
            }
        };
        self.exchange
            .ask(&self.address, &body, request.timeout, read)
            .await
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
