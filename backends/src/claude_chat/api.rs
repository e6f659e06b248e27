//! A client of the Messages API.

use async_trait::async_trait;
use http::{HeaderName, HeaderValue};
use skillopt_core::job::Profile;
use skillopt_core::secret::Secret;

use super::body::{Body, Style};
use super::fault;
use super::generation::Generation;
use super::read::Reader;
use crate::address::Address;
use crate::auth::Auth;
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;
use crate::exchange::{Exchange, Success};

/// The version of the interface that is spoken.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");
const VERSION_NAME: HeaderName = HeaderName::from_static("anthropic-version");
const KEY_NAME: &str = "x-api-key";

/// A client of one address.
pub(super) struct Client {
    exchange: Exchange,
    address: Address,
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
        let auth = if let Some(key) = key {
            Auth::header(KEY_NAME, Secret::new(key), endpoint)?
        } else if let Some(token) = token() {
            Auth::bearer(Secret::new(token), endpoint)?
        } else if profile.endpoint == super::BASE_URL {
            return Err(CallError::Misconfigured {
                endpoint: endpoint.to_owned(),
                status: 0,
                detail: "there is no API key; set ANTHROPIC_API_KEY, or \
                    `claude_transport: cli` to use the Claude program with a subscription"
                    .to_owned(),
            });
        } else {
            Auth::None
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
            exchange: Exchange {
                classify: fault::classify,
                header: Some((VERSION_NAME, VERSION)),
                ..Exchange::new(local.http, auth, style.streams)
            },
            address,
            temperature: profile.temperature,
            style,
        })
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let temperature = request.temperature.or(self.temperature);
        let body = Body::new(request, temperature, self.style);
        let by_tool = request
            .schema
            .as_ref()
            .filter(|_| !Generation::of(&request.model).binds_schemas());
        let read = |answer: &Success| {
            let reader = Reader {
                endpoint: &self.address.shown,
                secrets: &[answer.secret()],
                schema_tool: by_tool.map(|schema| schema.name.as_str()),
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
