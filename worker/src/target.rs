//! The agent under training as a benchmark sees it: a model with its settings and limits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use skillopt_backends::{CallError, ChatReply, ChatRequest, Disposition, Message};
use skillopt_benchmarks::Target;
use skillopt_runtime::Retry;

use crate::blobs::Model;

/// One rollout's view of its model.
pub(crate) struct SlotTarget<'a> {
    pub(crate) model: &'a Model,
    pub(crate) timeout: Duration,
    pub(crate) retry: Retry,
    /// Spreads waits, in [0, 1).
    pub(crate) unit: f64,
    pub(crate) answered: AtomicU32,
}

impl SlotTarget<'_> {
    fn request(&self, messages: Vec<Message>, max_tokens: u32) -> ChatRequest {
        request(self.model, messages, max_tokens, self.timeout, "rollout")
    }
}

#[async_trait]
impl Target for SlotTarget<'_> {
    async fn ask(&self, messages: Vec<Message>, max_tokens: u32) -> Result<ChatReply, CallError> {
        let request = self.request(messages, max_tokens);
        let mut failures = 0;
        loop {
            match self.model.client.chat(&request).await {
                Ok(mut reply) => {
                    cut(&mut reply.text);
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    return Ok(reply);
                }
                Err(error) => {
                    // A failed first call goes back to the queue, so that its slot is free while
                    // it waits. Later calls wait here: what was answered must not be asked again.
                    if self.answered.load(Ordering::Relaxed) == 0 {
                        return Err(error);
                    }
                    failures += 1;
                    let Disposition::Retry(hint) = error.disposition() else {
                        return Err(error);
                    };
                    let Some(wait) = self.retry.wait(failures, hint, self.unit) else {
                        return Err(error);
                    };
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// No limit of tokens that a rollout asks for allows a longer answer, in bytes; a server that
/// sends more ignores it. What is over is cut off, so that no trajectory grows without bound.
const ANSWER_BYTES_MAX: usize = 256 << 10;

fn cut(text: &mut String) {
    if text.len() > ANSWER_BYTES_MAX {
        text.truncate(text.floor_char_boundary(ANSWER_BYTES_MAX));
    }
}

/// Builds a call with the model's own settings.
pub(crate) fn request(
    model: &Model,
    messages: Vec<Message>,
    max_tokens: u32,
    timeout: Duration,
    stage: &str,
) -> ChatRequest {
    let profile = &model.profile;
    let cap = if profile.max_tokens == 0 {
        u32::MAX
    } else {
        profile.max_tokens
    };
    ChatRequest {
        model: profile.model.clone(),
        messages,
        max_tokens: max_tokens.min(cap),
        temperature: profile.temperature,
        reasoning_effort: Some(profile.reasoning_effort.clone()).filter(|e| !e.is_empty()),
        schema: None,
        timeout,
        stage: stage.to_owned(),
    }
}
