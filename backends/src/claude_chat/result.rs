//! Reads what the Claude program prints: its last event of type `result` decides.

use serde::Deserialize;
use serde_json::Value;
use skillopt_core::job::Usage;
use skillopt_runtime::redact::redact;

use super::said::Tokens;
use crate::cli::{Envelope, Fault, Output, enforce};
use crate::contract::{ChatReply, ChatRequest, Finish, ToolCall};
use crate::error::CallError;

/// What to do about a missing login.
const LOGIN: &str = "log in with `claude`, or set CLAUDE_CODE_OAUTH_TOKEN (`claude setup-token`) \
    or ANTHROPIC_API_KEY";

/// Reads the output for one request.
pub(super) struct Reader<'a> {
    /// The program, for messages.
    pub(super) endpoint: &'a str,
    /// Kept out of messages.
    pub(super) secrets: &'a [&'a str],
    pub(super) request: &'a ChatRequest,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ended {
    #[serde(rename = "type")]
    kind: String,
    is_error: Option<bool>,
    api_error_status: Option<u16>,
    num_turns: Option<u64>,
    result: Option<String>,
    content: Option<String>,
    errors: Vec<String>,
    stop_reason: Option<String>,
    structured_output: Option<Value>,
    usage: Option<Tokens>,
    #[serde(rename = "modelUsage")]
    by_model: serde_json::Map<String, Value>,
}

impl Reader<'_> {
    pub(super) fn read(&self, output: &Output) -> Result<ChatReply, CallError> {
        let Some(ended) = ended(&output.stdout) else {
            return Err(self.unended(output));
        };
        let usage = ended.usage();
        let is_error = ended.is_error == Some(true) || !matches!(output.code, Some(0));
        let words = || {
            let first = ended.errors.first().or(ended.result.as_ref());
            first.map_or(output.stderr.trim(), String::as_str)
        };
        if ended.stop_reason.as_deref() == Some("refusal") {
            return Err(CallError::Refused {
                endpoint: self.endpoint.to_owned(),
                detail: redact(words(), self.secrets),
                usage,
            });
        }
        if is_error && words().contains("output token maximum") {
            return Ok(ChatReply {
                finish: Finish::Length,
                ..ChatReply::text("", usage)
            });
        }
        if is_error {
            return Err(self.fault(words(), ended.api_error_status, usage));
        }
        if ended.num_turns == Some(0) {
            return Err(CallError::Unfit {
                endpoint: self.endpoint.to_owned(),
                detail: format!("the model was not asked: {}", words()),
                usage,
            });
        }
        self.reply(ended, usage)
    }

    fn reply(&self, ended: Ended, usage: Usage) -> Result<ChatReply, CallError> {
        let text = ended.result.or(ended.content).unwrap_or_default();
        let finish = match ended.stop_reason.as_deref() {
            Some("max_tokens") => Finish::Length,
            _ => Finish::Stop,
        };
        if self.request.tools.is_empty() {
            // A bound answer stands in `result` too, unless the model did not bind itself.
            let text = match ended.structured_output {
                Some(bound) if self.request.schema.is_some() => bound.to_string(),
                _ => text,
            };
            return Ok(ChatReply {
                finish,
                ..ChatReply::text(text, usage)
            });
        }
        let document = ended
            .structured_output
            .or_else(|| serde_json::from_str(&text).ok());
        let envelope = document.as_ref().and_then(Envelope::open);
        let envelope = envelope.ok_or_else(|| CallError::Unfit {
            endpoint: self.endpoint.to_owned(),
            detail: "the answer is not of the schema".to_owned(),
            usage,
        })?;
        let calls = envelope.calls.into_iter().enumerate();
        let tool_calls: Vec<ToolCall> = calls
            .map(|(i, (name, arguments))| ToolCall {
                id: format!("claude_tool_{}", i + 1),
                name,
                arguments,
            })
            .collect();
        enforce(self.request, &tool_calls, usage, self.endpoint)?;
        Ok(ChatReply {
            text: envelope.text,
            finish: match tool_calls.as_slice() {
                [] => finish,
                _ => Finish::ToolCalls,
            },
            tool_calls,
            usage,
        })
    }

    /// Says why there is no result.
    fn unended(&self, output: &Output) -> CallError {
        let stdout = output.plain_words();
        let words = match (output.stderr.trim(), stdout.as_str()) {
            ("", "") => "it printed nothing",
            ("", said) => said,
            (said, _) => said,
        };
        match output.code {
            Some(0) => self.fault(&format!("no result event: {words}"), None, Usage::default()),
            _ => self.fault(words, None, Usage::default()),
        }
    }

    fn fault(&self, words: &str, status: Option<u16>, usage: Usage) -> CallError {
        Fault {
            endpoint: self.endpoint,
            words,
            status,
            login: LOGIN,
            model: &self.request.model,
            usage,
            secrets: self.secrets,
        }
        .class()
    }
}

/// Finds the result: the whole output is one document, or its lines are.
fn ended(stdout: &[u8]) -> Option<Ended> {
    let read = |text: &[u8]| {
        let ended: Ended = serde_json::from_slice(text).ok()?;
        (ended.kind == "result").then_some(ended)
    };
    read(stdout).or_else(|| stdout.split(|b| *b == b'\n').rev().find_map(read))
}

impl Ended {
    /// The sums by model are right where `usage` is 0, after a repeated request for example.
    fn usage(&self) -> Usage {
        if self.by_model.is_empty() {
            return self.usage.unwrap_or_default().usage();
        }
        let sum = |key: &str| -> u64 {
            let models = self.by_model.values();
            models.filter_map(|model| model.get(key)?.as_u64()).sum()
        };
        let cached = sum("cacheReadInputTokens");
        Usage {
            calls: 1,
            prompt_tokens: sum("inputTokens") + cached + sum("cacheCreationInputTokens"),
            completion_tokens: sum("outputTokens"),
            cached_tokens: cached,
            reasoning_tokens: sum("thinkingTokens"),
            cache_write_tokens: sum("cacheCreationInputTokens"),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests;
