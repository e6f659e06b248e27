//! Reads what `codex exec --json` prints: the end of the turn decides.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use skillopt_core::job::Usage;

use crate::cli::{Envelope, Fault, Output, enforce};
use crate::contract::{ChatReply, ChatRequest, Finish, ToolCall};
use crate::error::CallError;

/// What to do about a missing login.
const LOGIN: &str = "log in with `codex login`, or set CODEX_API_KEY";

/// Reads the output for one request.
pub(super) struct Reader<'a> {
    /// The program, for messages.
    pub(super) endpoint: &'a str,
    /// Kept out of messages.
    pub(super) secrets: &'a [&'a str],
    pub(super) request: &'a ChatRequest,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Event {
    #[serde(rename = "item.completed")]
    Item { item: Item },
    #[serde(rename = "turn.completed")]
    Completed {
        #[serde(default)]
        usage: Tokens,
    },
    #[serde(rename = "turn.failed")]
    Failed {
        #[serde(default)]
        error: Told,
    },
    /// Also how a retry is told: decides nothing, but explains an exit.
    #[serde(rename = "error")]
    Error {
        #[serde(default)]
        message: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    text: String,
}

#[derive(Default, Deserialize)]
struct Told {
    #[serde(default)]
    message: String,
}

/// Cached tokens are among the input.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: u64,
    cached_input_tokens: u64,
    output_tokens: u64,
    reasoning_output_tokens: u64,
}

#[derive(Default)]
struct Turn {
    last_words: String,
    usage: Option<Usage>,
    failure: Option<String>,
    last_error: Option<String>,
}

impl Turn {
    fn of(stdout: &[u8]) -> Self {
        let mut turn = Self::default();
        let lines = stdout.split(|byte| *byte == b'\n');
        for event in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            match event {
                Event::Item { item } if item.kind == "agent_message" => turn.last_words = item.text,
                Event::Completed { usage } => turn.usage = Some(usage.usage()),
                Event::Failed { error } => turn.failure = Some(error.message),
                Event::Error { message } => turn.last_error = Some(message),
                Event::Item { .. } | Event::Other => {}
            }
        }
        turn
    }
}

impl Reader<'_> {
    pub(super) fn read(&self, output: &Output, file: &str) -> Result<ChatReply, CallError> {
        let turn = Turn::of(&output.stdout);
        let usage = turn.usage.unwrap_or(Usage {
            calls: 1,
            ..Usage::default()
        });
        let text = match file.trim() {
            "" => turn.last_words.trim(),
            text => text,
        };
        if turn.failure.as_deref().is_some_and(is_cut) {
            return Ok(ChatReply {
                finish: Finish::Length,
                ..ChatReply::text(text, usage)
            });
        }
        if turn.failure.is_some() || output.code != Some(0) {
            let stdout = output.plain_words();
            let said = [
                turn.failure.as_deref(),
                turn.last_error.as_deref(),
                Some(output.stderr.trim()),
                Some(stdout.as_str()),
            ];
            let said = said.into_iter().flatten().find(|words| !words.is_empty());
            return Err(self.fault(said.unwrap_or("it printed nothing"), usage));
        }
        if turn.usage.is_none() {
            return Err(self.fault("the turn has no end", usage));
        }
        self.reply(text, usage)
    }

    fn reply(&self, text: &str, usage: Usage) -> Result<ChatReply, CallError> {
        if self.request.tools.is_empty() {
            return Ok(ChatReply::text(text, usage));
        }
        let document = serde_json::from_str(text).ok();
        let envelope = document.as_ref().and_then(Envelope::open);
        let envelope = envelope.ok_or_else(|| CallError::Unfit {
            endpoint: self.endpoint.to_owned(),
            detail: "the answer is not of the schema".to_owned(),
            usage,
        })?;
        let calls = envelope.calls.into_iter().enumerate();
        let tool_calls: Vec<ToolCall> = calls
            .map(|(i, (name, arguments))| ToolCall {
                id: self.id(i + 1, &name, &arguments),
                name,
                arguments,
            })
            .collect();
        enforce(self.request, &tool_calls, usage, self.endpoint)?;
        Ok(ChatReply {
            text: envelope.text,
            finish: match tool_calls.as_slice() {
                [] => Finish::Stop,
                _ => Finish::ToolCalls,
            },
            tool_calls,
            usage,
        })
    }

    /// Names a call: the same for the same call at the same place, another in another turn.
    fn id(&self, number: usize, name: &str, arguments: &str) -> String {
        let mut hasher = DefaultHasher::new();
        (self.request.messages.len(), name, arguments).hash(&mut hasher);
        format!("tool_{number}_{:012x}", hasher.finish() & 0xffff_ffff_ffff)
    }

    fn fault(&self, words: &str, usage: Usage) -> CallError {
        Fault {
            endpoint: self.endpoint,
            words,
            status: None,
            login: LOGIN,
            model: &self.request.model,
            usage,
            secrets: self.secrets,
        }
        .class()
    }
}

fn is_cut(failure: &str) -> bool {
    failure.contains("max_output_tokens")
}

impl Tokens {
    fn usage(&self) -> Usage {
        Usage {
            calls: 1,
            prompt_tokens: self.input_tokens,
            completion_tokens: self.output_tokens,
            cached_tokens: self.cached_input_tokens,
            reasoning_tokens: self.reasoning_output_tokens,
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests;
