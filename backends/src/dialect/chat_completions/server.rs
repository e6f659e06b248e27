//! A server of this dialect whose address does not depend on the model.

use async_trait::async_trait;
use serde_json::{Map, Value};
use skillopt_core::job::Profile;

use super::{Body, Reader, Style};
use crate::address::Address;
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::error::CallError;
use crate::exchange::{Exchange, Success};

/// Names an error that hides in an answer that looks like a success.
pub(crate) type Hidden = fn(body: &[u8], endpoint: &str, secret: &str) -> Option<CallError>;

/// A client of one server.
pub(crate) struct Server {
    pub(crate) exchange: Exchange,
    pub(crate) address: Address,
    pub(crate) limit_field: &'static str,
    pub(crate) max_tokens: u32,
    pub(crate) temperature: Option<f64>,
    /// Further fields of each body.
    pub(crate) extra: Map<String, Value>,
    /// Begins the names of tool calls that came without one.
    pub(crate) call_prefix: &'static str,
    pub(crate) hidden: Hidden,
}

impl Server {
    /// Makes a client with what a profile says for all servers of this dialect.
    pub(crate) fn new(profile: &Profile, address: Address, exchange: Exchange) -> Self {
        Self {
            exchange,
            address,
            limit_field: "max_tokens",
            max_tokens: match profile.max_tokens {
                0 => u32::MAX,
                limit => limit,
            },
            temperature: profile.temperature,
            extra: Map::new(),
            call_prefix: "call_",
            hidden: |_, _, _| None,
        }
    }
}

#[async_trait]
impl ChatModel for Server {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let body = Body {
            request,
            style: Style {
                limit_field: self.limit_field,
                limit: self.max_tokens,
                temperature: request.temperature.or(self.temperature),
                reasoning_effort: None,
                streams: self.exchange.streams,
                extra: &self.extra,
            },
        };
        let endpoint = self.address.shown.as_str();
        let read = |answer: &Success| {
            let reader = Reader {
                endpoint,
                secrets: &[answer.secret()],
                call_prefix: self.call_prefix,
            };
            let read = if answer.is_stream {
                reader.read_stream(&answer.body)
            } else {
                reader.read(&answer.body)
            };
            read.map_err(|error| match error {
                CallError::Malformed { .. } => {
                    (self.hidden)(&answer.body, endpoint, answer.secret()).unwrap_or(error)
                }
                other => other,
            })
        };
        self.exchange
            .ask(&self.address, &body, request.timeout, read)
            .await
    }
}
