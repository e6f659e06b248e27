//! The same answers as they come in pieces: server-sent events of each interface.

use serde_json::{Value, json};

/// Returns what is sent, event by event; the last ones end the answer.
pub(super) type Pieces = fn(&Value) -> Vec<String>;

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// An event that also says its name apart, as OpenAI's Responses and Anthropic's Messages do.
fn named(value: &Value) -> String {
    let name = value["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {value}\n\n")
}

/// Returns a text in two parts.
fn halves(text: &str) -> [&str; 2] {
    let (left, right) = text.split_at(text.floor_char_boundary(text.len() / 2));
    [left, right]
}

/// Chat Completions.
pub(super) fn chat_completions(whole: &Value) -> Vec<String> {
    let choice = &whole["choices"][0];
    let message = &choice["message"];
    let piece = |delta: Value, finish: &Value| {
        data(&json!({
            "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    };
    let mut events = vec![piece(
        json!({"role": "assistant", "content": ""}),
        &Value::Null,
    )];
    for text in halves(message["content"].as_str().unwrap_or_default()) {
        events.push(piece(json!({"content": text}), &Value::Null));
    }
    for (index, call) in message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let function = json!({"name": call["function"]["name"], "arguments": ""});
        let begun =
            json!({"index": index, "id": call["id"], "type": "function", "function": function});
        events.push(piece(json!({"tool_calls": [begun]}), &Value::Null));
        for part in halves(call["function"]["arguments"].as_str().unwrap_or_default()) {
            let more = json!({"index": index, "function": {"arguments": part}});
            events.push(piece(json!({"tool_calls": [more]}), &Value::Null));
        }
    }
    let usage = json!({"id": "x", "choices": [], "usage": whole["usage"]});
    events.extend([
        piece(json!({}), &choice["finish_reason"]),
        data(&usage),
        "data: [DONE]\n\n".to_owned(),
    ]);
    events
}

/// OpenAI's Responses.
pub(super) fn responses(whole: &Value) -> Vec<String> {
    let mut events = vec![named(
        &json!({"type": "response.created", "response": {"id": "x", "status": "in_progress"}}),
    )];
    let text = whole["output"][0]["content"][0]["text"].as_str();
    for part in halves(text.unwrap_or_default()) {
        events.push(named(
            &json!({"type": "response.output_text.delta", "output_index": 0, "delta": part}),
        ));
    }
    let status = whole["status"].as_str().unwrap_or_default();
    events.push(named(
        &json!({"type": format!("response.{status}"), "response": whole}),
    ));
    events
}

/// Anthropic's Messages.
pub(super) fn messages(whole: &Value) -> Vec<String> {
    let mut usage = whole["usage"].clone();
    usage["output_tokens"] = 1.into();
    let start = json!({"type": "message_start", "message": {
        "id": "x", "type": "message", "role": "assistant", "content": [], "usage": usage}});
    let mut events = vec![named(&start), named(&json!({"type": "ping"}))];
    for (index, block) in whole["content"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let (empty, deltas) = if block["type"] == "tool_use" {
            let arguments = block["input"].to_string();
            let delta = |part: &str| json!({"type": "input_json_delta", "partial_json": part});
            let mut empty = block.clone();
            empty["input"] = json!({});
            (empty, halves(&arguments).map(delta))
        } else {
            let text = block["text"].as_str().unwrap_or_default();
            let delta = |part: &str| json!({"type": "text_delta", "text": part});
            (json!({"type": "text", "text": ""}), halves(text).map(delta))
        };
        events.push(named(
            &json!({"type": "content_block_start", "index": index, "content_block": empty}),
        ));
        for delta in deltas {
            events.push(named(
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        events.push(named(
            &json!({"type": "content_block_stop", "index": index}),
        ));
    }
    let stop = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
    let usage = json!({"output_tokens": whole["usage"]["output_tokens"]});
    events.push(named(
        &json!({"type": "message_delta", "delta": stop, "usage": usage}),
    ));
    events.push(named(&json!({"type": "message_stop"})));
    events
}

/// Google's `streamGenerateContent`.
pub(super) fn generate_content(whole: &Value) -> Vec<String> {
    let candidate = &whole["candidates"][0];
    let piece = |part: Value| {
        data(&json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}))
    };
    let mut events = Vec::new();
    for part in candidate["content"]["parts"]
        .as_array()
        .into_iter()
        .flatten()
    {
        match part["text"].as_str() {
            Some(text) => events.extend(halves(text).map(|text| piece(json!({"text": text})))),
            None => events.push(piece(part.clone())),
        }
    }
    let last = json!({"content": {"role": "model", "parts": []}, "index": 0,
        "finishReason": candidate["finishReason"]});
    events.push(data(
        &json!({"candidates": [last], "usageMetadata": whole["usageMetadata"]}),
    ));
    events
}
