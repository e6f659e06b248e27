//! Puts an answer together that came in pieces, so that it is read like any other.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Reader;
use crate::contract::ChatReply;
use crate::dialect::events;
use crate::error::CallError;
use crate::failure;

/// What ends a stream.
const DONE: &[u8] = b"[DONE]";

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
    /// Some servers tell an error without `error`, by what it says.
    #[serde(default)]
    message: Option<IgnoredAny>,
}

impl Piece {
    /// Returns the error that stands in place of a part of the answer; `data` is the whole piece.
    fn error(&mut self, data: &[u8]) -> Option<Value> {
        if let Some(error) = self.error.take().filter(|error| !error.is_null()) {
            return Some(error);
        }
        let is_part = self.choices.is_some() || self.usage.is_some();
        let is_error = !is_part && self.message.is_some();
        is_error.then(|| serde_json::from_slice(data).unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    /// Which of the calls it belongs to; some servers leave it out where there is one.
    #[serde(default)]
    index: usize,
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
    arguments: Option<String>,
}

/// Most calls of tools in one answer: an index beyond is no index.
const CALLS_MAX: usize = 1_024;

/// What has come so far.
#[derive(Default)]
struct Assembled {
    text: Option<String>,
    refusal: Option<String>,
    calls: Vec<(Option<String>, String, String)>,
    finish: Option<String>,
    usage: Option<Value>,
    has_choice: bool,
    is_done: bool,
}

impl Reader<'_> {
    /// Reads the body of a success that came in pieces.
    pub(crate) fn read_stream(&self, body: &[u8]) -> Result<ChatReply, CallError> {
        let mut whole = Assembled::default();
        for data in events::data(body) {
            if &*data == DONE {
                whole.is_done = true;
                break;
            }
            let mut piece: Piece = serde_json::from_slice(&data).map_err(|e| {
                let begins = failure::detail(&data, self.secrets);
                self.malformed(format!("{e}; a piece begins `{begins}`"))
            })?;
            if let Some(error) = piece.error(&data) {
                return Err(failure::told(&error, self.endpoint, self.secrets));
            }
            whole
                .add(piece.choices, piece.usage)
                .map_err(|why| self.malformed(why))?;
        }
        if whole.finish.is_none() && !whole.is_done {
            return Err(CallError::Connection {
                endpoint: self.endpoint.to_owned(),
                detail: "the answer ended before it was whole".to_owned(),
            });
        }
        self.read(whole.into_json().to_string().as_bytes())
    }
}

impl Assembled {
    fn add(&mut self, choices: Option<Vec<Choice>>, usage: Option<Value>) -> Result<(), String> {
        // The last piece that names it counts: some servers tell it as they go.
        self.usage = usage.filter(|usage| !usage.is_null()).or(self.usage.take());
        let first = choices
            .into_iter()
            .flatten()
            .find(|choice| choice.index == 0);
        let Some(choice) = first else { return Ok(()) };
        self.has_choice = true;
        // Some servers write an empty one into every piece.
        let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
        self.finish = reason.or(self.finish.take());
        let Some(delta) = choice.delta else {
            return Ok(());
        };
        append(&mut self.text, delta.content);
        append(&mut self.refusal, delta.refusal);
        for call in delta.tool_calls.into_iter().flatten() {
            if call.index >= CALLS_MAX {
                return Err(format!("a tool call has the index {}", call.index));
            }
            if self.calls.len() <= call.index {
                self.calls.resize(call.index + 1, Default::default());
            }
            let (id, name, arguments) = &mut self.calls[call.index];
            let function = call.function.unwrap_or_default();
            *id = id.take().or(call.id);
            name.push_str(&function.name.unwrap_or_default());
            arguments.push_str(&function.arguments.unwrap_or_default());
        }
        Ok(())
    }

    /// Writes the answer as one that came whole.
    fn into_json(self) -> Value {
        if !self.has_choice {
            return json!({"choices": [], "usage": self.usage});
        }
        let mut message = Map::new();
        message.insert("content".to_owned(), self.text.into());
        if let Some(refusal) = self.refusal {
            message.insert("refusal".to_owned(), refusal.into());
        }
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().map(|(id, name, arguments)| {
                let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
                json!({"id": id, "function": {"name": name, "arguments": arguments}})
            });
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        json!({
            "choices": [{"message": message, "finish_reason": self.finish}],
            "usage": self.usage,
        })
    }
}

fn append(text: &mut Option<String>, more: Option<String>) {
    if let Some(more) = more {
        text.get_or_insert_default().push_str(&more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &str) {
        let body: String = pieces
            .iter()
            .map(|piece| format!("data: {piece}\n\n"))
            .collect();
        let reader = Reader {
            endpoint: "http://h/v1",
            secrets: &["sk-secret"],
            call_prefix: "call_",
        };
        let seen = format!("{:?}", reader.read_stream(body.as_bytes()));
        assert!(seen.contains(expected), "{seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }

    const A: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}"#;
    const END: &str = r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}"#;
    const USED: &str = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;

    #[test]
    fn pieces_make_the_same_answer() {
        check(&[A, END, USED, "[DONE]"], r#"text: "ab""#);
        check(&[A, END, USED, "[DONE]"], "prompt_tokens: 3");
        check(&[A, END], "Stop");
        check(
            &[A, r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#],
            "Length",
        );
        check(
            &[r#"{"choices":[{"delta":{"refusal":"no"},"finish_reason":"stop"}]}"#],
            "Refused",
        );
    }

    #[test]
    fn half_a_text_is_no_answer_however_the_stream_ends() {
        let empty = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}"#;
        check(&[empty], "Connection");
        check(&[empty, END], r#"text: "ab""#);
        let told = r#"{"object":"error","message":"sk-secret fell over","code":50001}"#;
        check(&[A, told, "[DONE]"], "Server");
        let bare = r#"{"message":"slow down","type":"rate_limit_error"}"#;
        check(&[A, bare, "[DONE]"], "Throttled");
    }

    #[test]
    fn tool_calls_are_put_together_by_their_index() {
        check(
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"y","function":{"name":"g","arguments":"{"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}},{"index":1,"function":{"arguments":"}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            ],
            r#"[ToolCall { id: "x", name: "f", arguments: "{\"a\":1}" }, ToolCall { id: "y", name: "g", arguments: "{}" }]"#,
        );
        let far = r#"{"choices":[{"delta":{"tool_calls":[{"index":99999999999}]}}]}"#;
        check(&[far], "Malformed");
    }

    #[test]
    fn a_stream_that_breaks_is_no_answer() {
        check(&[A], "ended before it was whole");
        check(
            &[A, r#"{"error":{"message":"x sk-secret","code":500}}"#],
            "Server",
        );
        check(&[A, r#"{"error":{"code":429}}"#], "Throttled");
        check(&[A, "{"], "Malformed");
        check(&["[DONE]"], "no choices");
    }
}
