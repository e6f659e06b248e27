//! Reads an answer of `generateContent`, whole or in pieces.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use skillopt_core::job::Usage;

use super::{fault, signature};
use crate::contract::{ChatReply, Finish, ToolCall};
use crate::dialect::events;
use crate::error::CallError;
use crate::failure;

/// Reads the answers to one request.
pub(super) struct Reader<'a> {
    /// The address, for messages.
    pub(super) endpoint: &'a str,
    /// Kept out of messages.
    pub(super) secrets: &'a [&'a str],
}

/// What has come so far.
#[derive(Default)]
struct Said {
    text: String,
    calls: Vec<ToolCall>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
    block_reason: Option<String>,
    tokens: Tokens,
    has_candidate: bool,
}

impl Reader<'_> {
    /// Reads the body of a success.
    pub(super) fn read(&self, body: &[u8]) -> Result<ChatReply, CallError> {
        let mut said = Said::default();
        self.take(&mut said, body)?;
        self.reply(said)
    }

    /// Reads an answer that came in pieces.
    pub(super) fn read_stream(&self, body: &[u8]) -> Result<ChatReply, CallError> {
        let mut said = Said::default();
        for data in events::data(body) {
            self.take(&mut said, &data)?;
        }
        if said.finish_reason.is_none() && said.block_reason.is_none() {
            return Err(self.malformed("the stream ended before its end".to_owned()));
        }
        self.reply(said)
    }

    fn take(&self, said: &mut Said, body: &[u8]) -> Result<(), CallError> {
        let piece: Piece<'_> = serde_json::from_slice(body).map_err(|e| {
            let begins = failure::detail(body, self.secrets);
            self.malformed(format!("{e}; it begins `{begins}`"))
        })?;
        if let Some(error) = piece.error {
            return Err(fault::told(&error, self.endpoint, self.secrets));
        }
        if let Some(feedback) = piece.prompt_feedback {
            said.block_reason = feedback.block_reason.or(said.block_reason.take());
        }
        if let Some(tokens) = piece.usage_metadata {
            said.tokens = tokens;
        }
        let Some(candidate) = piece.candidates.unwrap_or_default().into_iter().next() else {
            return Ok(());
        };
        said.has_candidate = true;
        said.finish_reason = candidate.finish_reason.or(said.finish_reason.take());
        said.finish_message = candidate.finish_message.or(said.finish_message.take());
        for part in candidate
            .content
            .unwrap_or_default()
            .parts
            .unwrap_or_default()
        {
            if let Some(call) = part.function_call {
                let signature = part.thought_signature.as_deref();
                said.calls.push(ToolCall {
                    id: signature::join(call.id.as_deref(), said.calls.len(), signature),
                    name: call.name.unwrap_or_default(),
                    arguments: call
                        .args
                        .map_or_else(|| "{}".to_owned(), |args| args.get().to_owned()),
                });
            } else if !part.thought.unwrap_or(false) {
                said.text.push_str(&part.text.unwrap_or_default());
            }
        }
        Ok(())
    }

    fn reply(&self, said: Said) -> Result<ChatReply, CallError> {
        let usage = said.tokens.usage();
        let endpoint = self.endpoint.to_owned();
        if let Some(reason) = said.block_reason {
            return Err(CallError::Filtered {
                endpoint,
                detail: format!("the prompt was blocked: {reason}"),
                usage,
            });
        }
        if !said.has_candidate {
            return Err(self.malformed("no candidates".to_owned()));
        }
        let reason = said.finish_reason.unwrap_or_default();
        let finish = match reason.as_str() {
            "STOP" if !said.calls.is_empty() => Finish::ToolCalls,
            "STOP" => Finish::Stop,
            "MAX_TOKENS" => Finish::Length,
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "LANGUAGE" => {
                return Err(CallError::Filtered {
                    endpoint,
                    detail: shown(&reason, said.finish_message.as_deref()),
                    usage,
                });
            }
            "" => return Err(self.malformed("no `finishReason`".to_owned())),
            // Malformed calls, `OTHER`, and whatever is new: nobody says that the answer is whole.
            _ => {
                return Err(CallError::Unfit {
                    endpoint,
                    detail: shown(&reason, said.finish_message.as_deref()),
                    usage,
                });
            }
        };
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

/// Most characters of an explanation that are kept.
const DETAIL_CHARS_MAX: usize = 300;

fn shown(reason: &str, message: Option<&str>) -> String {
    let text = match message {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    };
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Piece<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    usage_metadata: Option<Tokens>,
    #[serde(default)]
    error: Option<fault::Told>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
}

#[derive(Default, Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    /// Whether this is a summary of what the model thought.
    #[serde(default)]
    thought: Option<bool>,
    #[serde(borrow, default)]
    thought_signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function_call: Option<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// What was billed. Thoughts are not among the candidates' tokens; cached ones are among the
/// prompt's.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tokens {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

impl Tokens {
    fn usage(self) -> Usage {
        let of_tools = self.tool_use_prompt_token_count.unwrap_or(0);
        let thoughts = self.thoughts_token_count.unwrap_or(0);
        Usage {
            calls: 1,
            prompt_tokens: self.prompt_token_count.unwrap_or(0) + of_tools,
            completion_tokens: self.candidates_token_count.unwrap_or(0) + thoughts,
            cached_tokens: self.cached_content_token_count.unwrap_or(0),
            reasoning_tokens: thoughts,
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: Reader<'_> = Reader {
        endpoint: "http://h/v1beta/models/m",
        secrets: &["sk-secret"],
    };

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let seen = format!("{:?}", READER.read(body.as_bytes()));
        assert!(seen.contains(expected), "{seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }

    #[test]
    fn a_reply_is_read_or_named_malformed() {
        check(
            r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a"},{"text":"b","thoughtSignature":"x"}],"role":"model"},"finishReason":"STOP"}]}"#,
            r#"text: "ab", tool_calls: [], finish: Stop"#,
        );
        check(
            r#"{"candidates":[{"finishReason":"MAX_TOKENS"}]}"#,
            "Length",
        );
        for (reason, expected) in [
            ("OTHER", "Unfit"),
            ("FINISH_REASON_UNSPECIFIED", "Unfit"),
            ("NEW_ONE", "Unfit"),
            ("MALFORMED_FUNCTION_CALL", "Unfit"),
            ("LANGUAGE", "Filtered"),
            ("", "Malformed"),
        ] {
            let part = r#""content":{"parts":[{"text":"half an ans"}]}"#;
            check(
                &format!(r#"{{"candidates":[{{{part},"finishReason":"{reason}"}}]}}"#),
                expected,
            );
        }
        check(r#"{"candidates":[]}"#, "Malformed");
        check("<html>sk-secret", "Malformed");
    }

    #[test]
    fn tools_are_called_with_their_signatures() {
        check(
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"b":1,"a":2}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"y","name":"g"}}]},"finishReason":"STOP"}]}"#,
            r#"[ToolCall { id: "gemini_tool_1#thought=c2ln", name: "f", arguments: "{\"b\":1,\"a\":2}" }, ToolCall { id: "y", name: "g", arguments: "{}" }], finish: ToolCalls"#,
        );
    }

    #[test]
    fn what_is_withheld_says_why_and_what_it_cost() {
        check(
            r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}"#,
            r#"Filtered { endpoint: "http://h/v1beta/models/m", detail: "the prompt was blocked: SAFETY", usage: Usage { calls: 1, prompt_tokens: 4"#,
        );
        check(
            r#"{"candidates":[{"finishReason":"RECITATION"}]}"#,
            "Filtered",
        );
        check(
            r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"bad"}]}"#,
            "Unfit",
        );
    }

    #[test]
    fn thoughts_are_paid_for_as_output() {
        check(
            r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":5,"cachedContentTokenCount":2,"totalTokenCount":17}}"#,
            "prompt_tokens: 9, completion_tokens: 8, cached_tokens: 2, reasoning_tokens: 5",
        );
    }

    #[test]
    fn pieces_make_an_answer_unless_the_last_is_missing() {
        let first = r#"data: {"candidates":[{"content":{"parts":[{"text":"po"}]}}]}"#;
        let last = r#"data: {"candidates":[{"content":{"parts":[{"text":"ng"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9}}"#;
        let whole = format!("{first}\r\n\r\n{last}\r\n\r\n");
        let reply = READER.read_stream(whole.as_bytes()).unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.usage.prompt_tokens),
            ("pong", 9)
        );
        let cut = READER.read_stream(first.as_bytes());
        assert!(matches!(cut, Err(CallError::Malformed { .. })), "{cut:?}");
    }
}
