//! The client: signs in as configured and speaks the interface that serves the model.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use skillopt_core::job::Profile;
use skillopt_core::secret::Secret;

use super::route::{Interface, Routes};
use super::{AuthMode, INTERFACE, hosts, sign_in};
use crate::address::Address;
use crate::auth::Auth;
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::dialect::{chat_completions, responses};
use crate::error::CallError;
use crate::exchange::{Exchange, Success};
use crate::tokens::Tokens;

/// A client of one account.
struct Client {
    exchange: Exchange,
    routes: Routes,
    /// The model of the profile, which nearly every call names, with its address.
    usual: (String, Address),
}

pub(super) fn connect(
    profile: &Profile,
    local: &Local<'_>,
) -> Result<Arc<dyn ChatModel>, CallError> {
    if profile.endpoint.is_empty() {
        return Err(misconfigured(
            profile,
            "no address is set; set `model.azure_openai_endpoint` or AZURE_OPENAI_ENDPOINT to the \
             resource's address, or to https://api.openai.com/v1 with \
             `model.azure_openai_auth_mode: openai_compatible`",
        ));
    }
    let version = profile.settings.get("azure_api_version");
    let version = version.and_then(Value::as_str).map(str::to_owned);
    let interface = profile.settings.get(INTERFACE).and_then(Value::as_str);
    let routes = Routes::new(&profile.endpoint, Interface::of(interface), version);
    let address = routes.to(&profile.model)?;
    let auth = auth(profile, local, &routes, &address.shown)?;
    Ok(Arc::new(Client {
        exchange: Exchange::new(
            local.http,
            auth,
            local.options.switch("azure_openai_stream") == Some(true),
        ),
        routes,
        usual: (profile.model.clone(), address),
    }))
}

/// The profile says which interface it is, this machine how it signs in.
fn auth(
    profile: &Profile,
    local: &Local<'_>,
    routes: &Routes,
    endpoint: &str,
) -> Result<Auth, CallError> {
    let key = ["azure_openai_api_key", "azure_api_key"]
        .into_iter()
        .find_map(local.secret)
        .filter(|key| !key.expose().trim().is_empty());
    if !routes.is_azure() {
        // Local servers want something there, and take anything.
        return Auth::bearer(key.unwrap_or_else(|| Secret::new("dummy")), endpoint);
    }
    match AuthMode::of(local.options) {
        AuthMode::ApiKey | AuthMode::Plain => match key {
            Some(key) => Auth::header("api-key", key, endpoint),
            None => Err(misconfigured(
                profile,
                "no API key is set; set AZURE_OPENAI_API_KEY, or another \
                 `model.azure_openai_auth_mode`",
            )),
        },
        mode => {
            let extra = local.options.text("azure_openai_token_hosts");
            hosts::check(&routes.to(&profile.model)?, extra.as_deref())?;
            let source =
                sign_in::source(mode, local).map_err(|missing| misconfigured(profile, &missing))?;
            Ok(Auth::Token(Arc::new(Tokens::new(source))))
        }
    }
}

fn misconfigured(profile: &Profile, detail: &str) -> CallError {
    let endpoint = match profile.endpoint.as_str() {
        "" => format!("{} model", profile.role),
        endpoint => crate::address::without_credentials(endpoint),
    };
    CallError::Misconfigured {
        endpoint,
        status: 0,
        detail: detail.to_owned(),
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let other;
        let address = if request.model == self.usual.0 {
            &self.usual.1
        } else {
            other = self.routes.to(&request.model)?;
            &other
        };
        let effort = request.reasoning_effort.as_deref();
        let effort = effort.filter(|effort| !effort.trim().is_empty());
        if self.routes.is_responses(&request.model) {
            self.responses(request, address, effort).await
        } else {
            self.completions(request, address, effort).await
        }
    }
}

impl Client {
    async fn completions(
        &self,
        request: &ChatRequest,
        address: &Address,
        effort: Option<&str>,
    ) -> Result<ChatReply, CallError> {
        let body = chat_completions::Body {
            request,
            style: chat_completions::Style {
                limit_field: "max_completion_tokens",
                limit: u32::MAX,
                temperature: request.temperature,
                // Refused together with tools by several models.
                reasoning_effort: effort.filter(|_| request.tools.is_empty()),
                streams: self.exchange.streams,
                extra: &Map::new(),
            },
        };
        let read = |answer: &Success| {
            let reader = chat_completions::Reader {
                endpoint: &address.shown,
                secrets: &[answer.secret()],
                call_prefix: "call_",
            };
            if answer.is_stream {
                reader.read_stream(&answer.body)
            } else {
                reader.read(&answer.body)
            }
        };
        self.exchange
            .ask(address, &body, request.timeout, read)
            .await
    }

    async fn responses(
        &self,
        request: &ChatRequest,
        address: &Address,
        effort: Option<&str>,
    ) -> Result<ChatReply, CallError> {
        let body = responses::Body {
            request,
            limit: u32::MAX,
            reasoning_effort: effort,
            streams: self.exchange.streams,
        };
        let read = |answer: &Success| {
            let read = if answer.is_stream {
                responses::read_stream
            } else {
                responses::read
            };
            read(&answer.body, &address.shown, answer.secret())
        };
        self.exchange
            .ask(address, &body, request.timeout, read)
            .await
    }
}
