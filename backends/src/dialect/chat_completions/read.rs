//! Reads an answer. What is long is borrowed from the bytes that came.

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use skillopt_core::job::Usage;
use skillopt_runtime::redact::redact;

use crate::contract::{ChatReply, Finish, ToolCall};
use crate::error::CallError;
use crate::failure;

/// Most characters of a refusal that are kept.
const REFUSAL_CHARS_MAX: usize = 300;

/// Reads answers of one server.
pub(crate) struct Reader<'a> {
    /// The address, for messages.
    pub(crate) endpoint: &'a str,
    /// Kept out of messages.
    pub(crate) secrets: &'a [&'a str],
    /// Begins the names of tool calls that came without one.
    pub(crate) call_prefix: &'static str,
}

impl Reader<'_> {
    /// Reads the body of a success.
    pub(crate) fn read(&self, body: &[u8]) -> Result<ChatReply, CallError> {
        let reply: Reply<'_> = serde_json::from_slice(body).map_err(|e| {
            let begins = failure::detail(body, self.secrets);
            self.malformed(format!("{e}; it begins `{begins}`"))
        })?;
        if let Some(error) = reply.error.filter(|error| !error.is_null()) {
            // Gateways tell so what befell the server behind them.
            return Err(failure::told(&error, self.endpoint, self.secrets));
        }
        let usage = usage(reply.usage.unwrap_or_default());
        let choice = reply.choices.unwrap_or_default().into_iter().next();
        let choice = choice.ok_or_else(|| self.malformed("no choices".to_owned()))?;
        let finish = self.finish(choice.finish_reason.as_deref(), usage)?;
        let text = choice
            .message
            .content
            .map(|text| text.0)
            .unwrap_or_default();
        if text.is_empty()
            && let Some(refusal) = choice.message.refusal
        {
            let detail = redact(&refusal, self.secrets);
            return Err(CallError::Refused {
                endpoint: self.endpoint.to_owned(),
                detail: detail.chars().take(REFUSAL_CHARS_MAX).collect(),
                usage,
            });
        }
        let calls = choice.message.tool_calls.unwrap_or_default();
        Ok(ChatReply {
            text: text.into_owned(),
            tool_calls: self.tool_calls(calls),
            finish,
            usage,
        })
    }

    /// Reads why the answer ended. Servers of other makes have words of their own, and gateways let
    /// those of other interfaces through.
    fn finish(&self, reason: Option<&str>, usage: Usage) -> Result<Finish, CallError> {
        let endpoint = || self.endpoint.to_owned();
        let word = reason.unwrap_or_default().to_ascii_lowercase();
        match word.as_str() {
            // A server that says nothing: its body is whole, and a stream's end was seen.
            "" | "stop" | "stop_sequence" | "eos" | "eos_token" | "end_turn" => Ok(Finish::Stop),
            "length"
            | "max_tokens"
            | "max_output_tokens"
            | "model_length"
            | "model_context_window_exceeded"
            | "repetition" => Ok(Finish::Length),
            "tool_calls" | "tool_call" | "tool_use" | "function_call" => Ok(Finish::ToolCalls),
            "content_filter" | "content_filtered" | "safety" | "sensitive" | "recitation" => {
                Err(CallError::Filtered {
                    endpoint: endpoint(),
                    detail: "content filter".to_owned(),
                    usage,
                })
            }
            // Servers that gave up in the midst of an answer say so here and nowhere else.
            "error"
            | "abort"
            | "aborted"
            | "cancelled"
            | "network_error"
            | "insufficient_system_resource"
            | "load"
            | "unload" => Err(CallError::Server {
                endpoint: endpoint(),
                status: 200,
                retry_after: None,
                detail: format!("the answer broke off (`{word}`)"),
            }),
            // Nobody says that the answer is whole.
            _ => Err(CallError::Unfit {
                endpoint: endpoint(),
                detail: failure::detail(
                    format!("it ended for the reason `{word}`").as_bytes(),
                    self.secrets,
                ),
                usage,
            }),
        }
    }

    fn tool_calls(&self, calls: Vec<Call>) -> Vec<ToolCall> {
        let named = calls.into_iter().enumerate().map(|(i, call)| {
            let function = call.function.unwrap_or_default();
            ToolCall {
                id: call
                    .id
                    .filter(|id| !id.is_empty())
                    .unwrap_or_else(|| format!("{}{}", self.call_prefix, i + 1)),
                name: function.name.unwrap_or_default(),
                arguments: match function.arguments {
                    None | Some(Value::Null) => "{}".to_owned(),
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                },
            }
        });
        named.collect()
    }

    pub(super) fn malformed(&self, detail: String) -> CallError {
        CallError::Malformed {
            endpoint: self.endpoint.to_owned(),
            detail,
        }
    }
}

fn usage(tokens: Tokens) -> Usage {
    let prompt = tokens.prompt_tokens.or(tokens.input_tokens);
    let completion = tokens.completion_tokens.or(tokens.output_tokens);
    let cached = tokens.prompt_tokens_details.unwrap_or_default();
    let reasoning = tokens.completion_tokens_details.unwrap_or_default();
    Usage {
        calls: 1,
        prompt_tokens: prompt.unwrap_or(0),
        completion_tokens: completion.unwrap_or(0),
        cached_tokens: cached.cached_tokens.unwrap_or(0),
        reasoning_tokens: reasoning.reasoning_tokens.unwrap_or(0),
        ..Usage::default()
    }
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: ReplyMessage<'a>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ReplyMessage<'a> {
    #[serde(borrow, default)]
    content: Option<Text<'a>>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Tokens {
    prompt_tokens: Option<u64>,
    input_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    output_tokens: Option<u64>,
    prompt_tokens_details: Option<Cached>,
    completion_tokens_details: Option<Reasoning>,
}

#[derive(Default, Deserialize)]
struct Cached {
    cached_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Reasoning {
    reasoning_tokens: Option<u64>,
}

/// The text of a content, borrowed where it can be.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, or a list of parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed("")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut text = String::new();
        while let Some(part) = parts.next_element::<Value>()? {
            text.push_str(part.get("text").and_then(Value::as_str).unwrap_or_default());
        }
        Ok(Text(Cow::Owned(text)))
    }

    /// Content that is neither text nor parts: as JSON, so that nothing is lost.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some(key) = map.next_key::<String>()? {
            object.insert(key, map.next_value()?);
        }
        Ok(Text(Cow::Owned(Value::from(object).to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let reader = Reader {
            endpoint: "http://h/v1",
            secrets: &["sk-secret"],
            call_prefix: "call_",
        };
        let seen = format!("{:?}", reader.read(body.as_bytes()));
        assert!(seen.contains(expected), "{seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }

    #[test]
    fn a_reply_is_read_or_named_malformed() {
        check(
            r#"{"choices":[{"message":{"content":"a\"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
            "a\\\"b",
        );
        check(
            r#"{"choices":[{"message":{"content":null},"finish_reason":"length"}]}"#,
            "Length",
        );
        check(
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#,
            "\"ab\"",
        );
        check(r#"{"choices":[]}"#, "Malformed");
        check(
            r#"{"error":{"code":502,"message":"upstream sk-secret"}}"#,
            "Server",
        );
        check(r#"{"error":{"code":429},"choices":[]}"#, "Throttled");
        check(r#"{"choices":null}"#, "Malformed");
        check("{\"choices\":[{\"mess", "Malformed");
        check("<html>sk-secret", "Malformed");
        check(
            r#"{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}"#,
            "Filtered",
        );
        check(
            r#"{"choices":[{"message":{"content":null,"refusal":"no sk-secret"},"finish_reason":"stop"}]}"#,
            "Refused",
        );
    }

    #[test]
    fn an_answer_counts_only_if_its_reason_to_end_is_known() {
        for (reason, expected) in [
            ("null", "finish: Stop"),
            ("\"stop\"", "finish: Stop"),
            ("\"eos_token\"", "finish: Stop"),
            ("\"STOP\"", "finish: Stop"),
            ("\"MAX_TOKENS\"", "finish: Length"),
            ("\"model_length\"", "finish: Length"),
            ("\"function_call\"", "finish: ToolCalls"),
            ("\"SAFETY\"", "Filtered"),
            ("\"abort\"", "Server"),
            ("\"network_error\"", "Server"),
            ("\"pause_turn\"", "Unfit"),
            ("\"sk-secret\"", "Unfit"),
        ] {
            check(
                &format!(
                    r#"{{"choices":[{{"message":{{"content":"half an ans"}},"finish_reason":{reason}}}]}}"#
                ),
                expected,
            );
        }
    }

    #[test]
    fn tool_calls_have_ids_and_arguments() {
        check(
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f"}},{"id":"x","function":{"name":"g","arguments":{"a":1}}}]},"finish_reason":"tool_calls"}]}"#,
            r#"[ToolCall { id: "call_1", name: "f", arguments: "{}" }, ToolCall { id: "x", name: "g", arguments: "{\"a\":1}" }]"#,
        );
    }

    #[test]
    fn cached_and_reasoning_tokens_are_counted_apart() {
        check(
            r#"{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}}"#,
            "cached_tokens: 1, reasoning_tokens: 2",
        );
    }
}
