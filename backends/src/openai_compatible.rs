//! `openai_compatible`: Chat Completions over HTTP, as spoken by most servers.
//!
//! Body: `model`, `messages`, `max_tokens` (never `max_completion_tokens`), `temperature` only if
//! set, `response_format` only in schema-bound mode (backends spec 2.5). Reasoning effort is not
//! part of this dialect and is left out.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderValue, Method, StatusCode};
use serde_json::Map;
use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};
use skillopt_core::role::Role;
use skillopt_core::secret::Secret;

use crate::address::Address;
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, TEMPERATURE, Work, both, ops,
};
use crate::dialect::chat_completions::{Body, Reader, Style};
use crate::error::CallError;
use crate::failure;
use crate::http::{Call, Http, json_headers};

/// What the program knows of it.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "openai_compatible",
    about: "any server that speaks Chat Completions",
    labels: &[Label {
        name: "openai_compatible",
        aliases: &["openai-compatible", "openai_compatible_chat", "compat"],
        optimizer: "openai_compatible",
        target: "openai_compatible",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_: Role| Some("gpt-4o-mini"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    both(
        "openai_compatible_base_url",
        Kind::Text,
        BASE_URL,
        "Address up to and without `/chat/completions`.",
    ),
    both(
        "openai_compatible_api_key",
        Kind::Secret,
        "none",
        "Key sent as bearer token; better given in the environment.",
    ),
    both(
        "openai_compatible_temperature",
        TEMPERATURE,
        "what the provider does",
        "Sampling temperature.",
    ),
    both(
        "openai_compatible_max_tokens",
        int(1),
        "8000",
        "Upper limit of tokens per answer.",
    ),
    ops(both(
        "openai_compatible_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
];

const BASE_URL: &str = "https://api.openai.com/v1";
const MAX_TOKENS: u32 = 8_000;

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base_url = options.text("openai_compatible_base_url");
    let base_url = base_url.as_deref().unwrap_or(BASE_URL);
    base_url
        .trim_end_matches('/')
        .clone_into(&mut profile.endpoint);
    profile.temperature = options.number("openai_compatible_temperature");
    let limit = options.count("openai_compatible_max_tokens");
    profile.max_tokens = limit.unwrap_or(MAX_TOKENS);
    // Not part of this dialect, so it must not tell two equal calls apart.
    profile.reasoning_effort.clear();
}

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    Ok(Arc::new(Client::new(
        profile,
        (local.secret)("openai_compatible_api_key"),
        Arc::clone(local.http),
    )?))
}

/// A client of one server.
struct Client {
    http: Arc<Http>,
    address: Address,
    authorization: HeaderValue,
    secret: Secret,
    temperature: Option<f64>,
    max_tokens: u32,
}

impl Client {
    fn new(profile: &Profile, key: Option<Secret>, http: Arc<Http>) -> Result<Self, CallError> {
        let address = Address::new(&profile.endpoint, "/chat/completions")?;
        let secret = key.unwrap_or_default();
        // Local servers want something there, and take anything.
        let bearer = match secret.expose().trim() {
            "" => "dummy",
            key => key,
        };
        Ok(Self {
            http,
            authorization: crate::http::bearer(bearer, &address.shown)?,
            address,
            secret,
            temperature: profile.temperature,
            max_tokens: match profile.max_tokens {
                0 => u32::MAX,
                limit => limit,
            },
        })
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let body = Body {
            request,
            style: Style {
                limit_field: "max_tokens",
                limit: self.max_tokens,
                temperature: request.temperature.or(self.temperature),
                reasoning_effort: None,
                extra: &Map::new(),
            },
        };
        let mut headers = json_headers();
        headers.insert(http::header::AUTHORIZATION, self.authorization.clone());
        let endpoint = self.address.shown.as_str();
        let call = Call {
            method: Method::POST,
            uri: &self.address.uri,
            endpoint,
            headers,
            body: crate::http::json_body(&body, endpoint)?,
            limit: request.timeout,
        };
        let answer = self.http.send(call).await?;
        let secrets = &[self.secret.expose()];
        if answer.status != StatusCode::OK {
            return Err(failure::classify(&answer, endpoint, secrets));
        }
        let reader = Reader {
            endpoint,
            secrets,
            call_prefix: "call_",
        };
        reader.read(&answer.body)
    }
}
