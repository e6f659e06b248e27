//! The simulated model as a chat backend inside the program: no key, no network, the same work.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest, Message, Role};
use skillopt_core::job::Usage;

use crate::model::{Outcome, SimulatedModel};
use crate::replies::Call;
use crate::stage::Stage;

/// What errors name as the endpoint.
const ENDPOINT: &str = "simulated";

/// A simulated model behind the contract of chat backends. Clones share the model.
#[derive(Clone, Debug)]
pub struct Simulated {
    model: Arc<SimulatedModel>,
}

impl Simulated {
    /// Puts `model` behind the contract.
    #[must_use]
    pub const fn new(model: Arc<SimulatedModel>) -> Self {
        Self { model }
    }

    /// Returns the model, for its statistics.
    #[must_use]
    pub const fn model(&self) -> &Arc<SimulatedModel> {
        &self.model
    }
}

#[async_trait]
impl ChatModel for Simulated {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let texts = Texts::of(&request.messages);
        let call = Call {
            sys: &texts.sys,
            user: &texts.user,
            model: &request.model,
            n_messages: request.messages.len(),
            // Our labels are coarser (`analyst`, `merge`); those that name no stage leave it to
            // the prompt.
            stage: Stage::named(&request.stage),
        };
        let limit = request.timeout;
        let outcome = tokio::time::timeout(limit, self.model.exchange(&call))
            .await
            .map_err(|_| CallError::Timeout {
                endpoint: ENDPOINT.to_owned(),
                limit,
            })?;
        answer(outcome, &call)
    }
}

fn answer(outcome: Outcome, call: &Call<'_>) -> Result<ChatReply, CallError> {
    let endpoint = ENDPOINT.to_owned();
    let detail = |text: &str| text.to_owned();
    Err(match outcome {
        Outcome::Text(reply) => {
            let usage = usage(call, &reply.text);
            return Ok(ChatReply::text(reply.text, usage));
        }
        Outcome::Throttled(seconds) => CallError::Throttled {
            endpoint,
            retry_after: seconds.map(Duration::from_secs),
        },
        Outcome::ServerError => CallError::Server {
            endpoint,
            status: 500,
            retry_after: None,
            detail: detail("simulated server error"),
        },
        Outcome::Unauthorized => CallError::Unauthorized {
            endpoint,
            status: 401,
            detail: detail("simulated rejection"),
        },
        Outcome::Malformed => CallError::Malformed {
            endpoint,
            detail: detail("simulated body that is no JSON"),
        },
        Outcome::Cut => CallError::Connection {
            endpoint,
            detail: detail("simulated cut of the connection"),
        },
    })
}

/// Returns the tokens of an exchange: a quarter of the bytes, rounded up (chapter 7).
pub(crate) fn usage(call: &Call<'_>, text: &str) -> Usage {
    let tokens = |bytes: usize| bytes.div_ceil(4) as u64;
    Usage {
        calls: 1,
        prompt_tokens: tokens(call.sys.len() + call.user.len()),
        completion_tokens: tokens(text.len()),
        ..Usage::default()
    }
}

/// The two texts that a conversation is to the simulated model.
struct Texts {
    sys: String,
    user: String,
}

impl Texts {
    fn of(messages: &[Message]) -> Self {
        let mut texts = Self {
            sys: String::new(),
            user: String::new(),
        };
        for message in messages {
            match message.role {
                Role::System | Role::Developer => {
                    if !texts.sys.is_empty() {
                        texts.sys.push('\n');
                    }
                    texts.sys.push_str(&message.content.as_text());
                }
                Role::User | Role::Tool => {
                    texts.user.push_str(&message.content.as_text());
                    texts.user.push('\n');
                }
                Role::Assistant => {}
            }
        }
        texts
    }
}

#[cfg(test)]
mod tests;
