//! Puts an answer together that came in pieces.

use serde::Deserialize;

use super::fault;
use super::said::{Said, StopDetails, Tokens};
use crate::contract::ToolCall;
use crate::dialect::events;

/// Why a stream gave no answer.
#[derive(Debug)]
pub(super) enum Broken {
    /// The server said so in its midst.
    Told(fault::Told),
    /// It is none, or it ended before its end.
    Malformed(String),
}

/// Reads all events of a stream.
pub(super) fn assemble(body: &[u8]) -> Result<Said, Broken> {
    let mut said = Said::default();
    let mut blocks = Vec::new();
    let mut has_ended = false;
    for data in events::data(body) {
        let event: Event = serde_json::from_slice(&data)
            .map_err(|e| Broken::Malformed(format!("an event of the stream: {e}")))?;
        match event {
            Event::MessageStart { message } => said.tokens = message.usage.unwrap_or_default(),
            Event::ContentBlockStart { content_block } => blocks.push(content_block),
            Event::ContentBlockDelta { delta } => {
                if let Some(block) = blocks.last_mut() {
                    block.add(delta);
                }
            }
            Event::MessageDelta { delta, usage } => {
                said.stop_reason = delta.stop_reason.or(said.stop_reason);
                let details = delta.stop_details;
                said.explanation = details.and_then(|details| details.explanation);
                said.tokens = said.tokens.or_later(usage.unwrap_or_default());
            }
            Event::MessageStop => has_ended = true,
            Event::Error { error } => return Err(Broken::Told(error)),
            Event::Other => {}
        }
    }
    if !has_ended {
        return Err(Broken::Malformed(
            "the stream ended before its end".to_owned(),
        ));
    }
    for block in blocks {
        match block.kind.as_str() {
            "text" => said.text.push_str(&block.text),
            "tool_use" => said.calls.push(ToolCall {
                id: block.id,
                name: block.name,
                arguments: match block.partial_json.as_str() {
                    "" => "{}".to_owned(),
                    _ => block.partial_json,
                },
            }),
            _ => {}
        }
    }
    Ok(said)
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        content_block: Block,
    },
    ContentBlockDelta {
        delta: Piece,
    },
    MessageDelta {
        delta: Stop,
        #[serde(default)]
        usage: Option<Tokens>,
    },
    MessageStop,
    Error {
        error: fault::Told,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Stop {
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    stop_details: Option<StopDetails>,
}

/// One block of content; blocks follow each other, so a piece belongs to the last.
#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(skip)]
    partial_json: String,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    text: String,
    #[serde(default)]
    partial_json: String,
}

impl Block {
    fn add(&mut self, piece: Piece) {
        self.text.push_str(&piece.text);
        self.partial_json.push_str(&piece.partial_json);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"po"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ng"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}

data: {"type":"content_block_stop","index":1}

"#;
    const END: &str = r#"data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}

data: {"type":"message_stop"}

"#;

    #[test]
    fn pieces_make_an_answer() {
        let said = assemble(format!("{BEGIN}{END}").as_bytes()).unwrap();
        assert_eq!(said.text, "pong");
        assert_eq!(said.calls[0].arguments, "{\"a\":1}");
        assert_eq!(said.stop_reason.as_deref(), Some("tool_use"));
        let usage = said.tokens.usage();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (7, 7));
    }

    #[test]
    fn a_stream_that_breaks_off_is_no_answer() {
        let broken = assemble(BEGIN.as_bytes());
        assert!(matches!(broken, Err(Broken::Malformed(_))), "{broken:?}");
        let told = format!(
            "{BEGIN}event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"busy\"}}}}\n\n"
        );
        assert!(matches!(assemble(told.as_bytes()), Err(Broken::Told(_))));
        assert!(matches!(assemble(b"<html>"), Err(Broken::Malformed(_))));
    }
}
