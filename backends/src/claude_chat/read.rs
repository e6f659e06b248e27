//! Reads an answer of the Messages API, whole or in pieces.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use skillopt_runtime::redact::redact;

use super::fault;
use super::said::{Said, StopDetails, Tokens};
use super::stream;
use crate::contract::{ChatReply, Finish, ToolCall};
use crate::error::CallError;
use crate::failure;

/// Most characters of a refusal that are kept.
const REFUSAL_CHARS_MAX: usize = 300;

/// Reads the answers to one request.
pub(super) struct Reader<'a> {
    /// The address, for messages.
    pub(super) endpoint: &'a str,
    /// Kept out of messages.
    pub(super) secrets: &'a [&'a str],
    /// The tool that stands for a schema, if one was sent.
    pub(super) schema_tool: Option<&'a str>,
}

impl Reader<'_> {
    /// Reads the body of a success.
    pub(super) fn read(&self, body: &[u8]) -> Result<ChatReply, CallError> {
        let whole: Whole<'_> = serde_json::from_slice(body).map_err(|e| {
            let begins = failure::detail(body, self.secrets);
            self.malformed(format!("{e}; it begins `{begins}`"))
        })?;
        if let Some(error) = whole.error {
            return Err(fault::told(&error, self.endpoint, self.secrets));
        }
        let blocks = whole
            .content
            .ok_or_else(|| self.malformed("no `content`".to_owned()))?;
        let mut said = Said {
            stop_reason: whole.stop_reason,
            explanation: whole.stop_details.and_then(|details| details.explanation),
            tokens: whole.usage.unwrap_or_default(),
            ..Said::default()
        };
        for block in blocks {
            match block.kind.as_ref() {
                "text" => said.text.push_str(&block.text.unwrap_or_default()),
                "tool_use" => said.calls.push(ToolCall {
                    id: block.id.unwrap_or_default(),
                    name: block.name.unwrap_or_default(),
                    arguments: block
                        .input
                        .map_or_else(|| "{}".to_owned(), |input| input.get().to_owned()),
                }),
                // Thoughts, and what the provider's own tools say.
                _ => {}
            }
        }
        self.reply(said)
    }

    /// Reads an answer that came in pieces.
    pub(super) fn read_stream(&self, body: &[u8]) -> Result<ChatReply, CallError> {
        match stream::assemble(body) {
            Ok(said) => self.reply(said),
            Err(stream::Broken::Told(error)) => {
                Err(fault::told(&error, self.endpoint, self.secrets))
            }
            Err(stream::Broken::Malformed(detail)) => {
                Err(self.malformed(redact(&detail, self.secrets)))
            }
        }
    }

    fn reply(&self, mut said: Said) -> Result<ChatReply, CallError> {
        let usage = said.tokens.usage();
        let mut finish = match said.stop_reason.as_deref() {
            Some("end_turn" | "stop_sequence") => Finish::Stop,
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("tool_use") => Finish::ToolCalls,
            Some("refusal") => {
                let detail = said.explanation.unwrap_or(said.text);
                let detail = redact(&detail, self.secrets);
                return Err(CallError::Refused {
                    endpoint: self.endpoint.to_owned(),
                    detail: detail.chars().take(REFUSAL_CHARS_MAX).collect(),
                    usage,
                });
            }
            None => return Err(self.malformed("no `stop_reason`".to_owned())),
            // `pause_turn`, and whatever is new: nobody says that the answer is whole.
            Some(reason) => {
                return Err(CallError::Unfit {
                    endpoint: self.endpoint.to_owned(),
                    detail: format!("it stopped for the reason `{reason}`"),
                    usage,
                });
            }
        };
        if let Some(name) = self.schema_tool
            && let Some(at) = said.calls.iter().position(|call| call.name == name)
        {
            said.text = said.calls.swap_remove(at).arguments;
            if finish == Finish::ToolCalls {
                finish = Finish::Stop;
            }
        }
        Ok(ChatReply {
            text: said.text,
            tool_calls: said.calls,
            finish,
            usage,
        })
    }

    fn malformed(&self, detail: String) -> CallError {
        CallError::Malformed {
            endpoint: self.endpoint.to_owned(),
            detail,
        }
    }
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    content: Option<Vec<Block<'a>>>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    stop_details: Option<StopDetails>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    error: Option<fault::Told>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let reader = Reader {
            endpoint: "http://h/v1/messages",
            secrets: &["sk-secret"],
            schema_tool: Some("edits"),
        };
        let seen = format!("{:?}", reader.read(body.as_bytes()));
        assert!(seen.contains(expected), "{seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }

    #[test]
    fn a_reply_is_read_or_named_malformed() {
        check(
            r#"{"content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"a\"b"},{"type":"text","text":"c"}],"stop_reason":"end_turn"}"#,
            r#"text: "a\"bc", tool_calls: [], finish: Stop"#,
        );
        check(r#"{"content":[],"stop_reason":"max_tokens"}"#, "Length");
        check(
            r#"{"content":[],"stop_reason":"model_context_window_exceeded"}"#,
            "Length",
        );
        for reason in ["pause_turn", "new_one"] {
            let part = r#""content":[{"type":"text","text":"half an ans"}]"#;
            check(&format!(r#"{{{part},"stop_reason":"{reason}"}}"#), "Unfit");
        }
        check(r#"{"content":[],"stop_reason":null}"#, "Malformed");
        check(r#"{"type":"message"}"#, "Malformed");
        check("<html>sk-secret", "Malformed");
    }

    #[test]
    fn tools_are_called_and_the_one_that_stands_for_a_schema_is_the_answer() {
        check(
            r#"{"content":[{"type":"tool_use","id":"t","name":"f","input":{"b":1,"a":2}}],"stop_reason":"tool_use"}"#,
            r#"tool_calls: [ToolCall { id: "t", name: "f", arguments: "{\"b\":1,\"a\":2}" }], finish: ToolCalls"#,
        );
        check(
            r#"{"content":[{"type":"tool_use","id":"t","name":"edits","input":{"a":2}}],"stop_reason":"tool_use"}"#,
            r#"text: "{\"a\":2}", tool_calls: [], finish: Stop"#,
        );
    }

    #[test]
    fn a_refusal_says_why_and_what_it_cost() {
        check(
            r#"{"content":[{"type":"text","text":"sk-secret, no"}],"stop_reason":"refusal","usage":{"input_tokens":3,"output_tokens":1}}"#,
            "Refused",
        );
        check(
            r#"{"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"too near"},"usage":{"input_tokens":3}}"#,
            r#"detail: "too near", usage: Usage { calls: 1, prompt_tokens: 3"#,
        );
    }

    #[test]
    fn the_cache_is_part_of_what_was_sent() {
        check(
            r#"{"content":[],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":9,"cache_read_input_tokens":20,"cache_creation_input_tokens":100,"output_tokens_details":{"thinking_tokens":4}}}"#,
            "prompt_tokens: 123, completion_tokens: 9, cached_tokens: 20, reasoning_tokens: 4",
        );
    }

    #[test]
    fn an_error_in_a_success_is_an_error() {
        check(
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
            "Server",
        );
    }
}
