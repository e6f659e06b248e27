//! Anthropic Messages (chapter 2.2).

use serde_json::{Value, json};

use super::{Event, is_true, list, text, text_of};
use crate::mock::ask::Ask;
use crate::mock::pick::{Said, pieces};

pub(super) const fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    }
}

pub(super) fn read(body: &Value, ask: &mut Ask) {
    text(body, "model").clone_into(&mut ask.model);
    ask.stream = is_true(body, "stream");
    ask.stream_usage = true;
    let system = text_of(&body["system"]);
    if !system.is_empty() {
        ask.system(&system);
    }
    for message in list(body, "messages") {
        let is_user = text(message, "role") == "user";
        if let Some(text) = message["content"].as_str() {
            if is_user {
                ask.user(text);
            } else {
                ask.say(text);
            }
        }
        let mut calls = false;
        for block in list(message, "content") {
            match text(block, "type") {
                "tool_result" => ask.tool_output(&text_of(&block["content"])),
                "tool_use" => {
                    calls = true;
                    ask.say(&block["input"].to_string());
                }
                "text" if is_user => ask.user(text(block, "text")),
                _ => ask.say(text(block, "text")),
            }
        }
        if calls {
            ask.turn += 1;
        }
    }
    for tool in list(body, "tools") {
        ask.tools.push(text(tool, "name").to_owned());
    }
}

fn stop_reason(said: &Said) -> &'static str {
    match said.finish.as_str() {
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "refusal" | "content_filter" => "refusal",
        _ => "end_turn",
    }
}

fn usage(said: &Said) -> Value {
    let usage = said.usage;
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached + usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

/// The arguments of a call as an object; what is none is sent as the one argument `input`.
fn input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| json!({"input": arguments}))
}

pub(super) fn whole(said: &Said, ask: &Ask) -> Value {
    let mut content = Vec::new();
    if !said.reasoning.is_empty() {
        content.push(json!({"type": "thinking", "thinking": said.reasoning, "signature": "c2ln"}));
    }
    if !said.text.is_empty() {
        content.push(json!({"type": "text", "text": said.text}));
    }
    content.extend(said.calls.iter().map(|call| {
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input(&call.arguments)})
    }));
    json!({
        "id": format!("msg_mock{}", said.request),
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": content,
        "stop_reason": stop_reason(said),
        "stop_sequence": null,
        "usage": usage(said),
    })
}

pub(super) fn events(said: &Said, ask: &Ask) -> Vec<Event> {
    let mut start = whole(said, ask);
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = 1.into();
    let mut events = vec![Event::named(
        &json!({"type": "message_start", "message": start}),
    )];
    let mut index = 0;
    let mut block = |begin: Value, deltas: Vec<Value>| {
        events.push(Event::named(&json!({
            "type": "content_block_start", "index": index, "content_block": begin,
        })));
        events.extend(deltas.iter().map(|delta| {
            Event::named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
        }));
        events.push(Event::named(
            &json!({"type": "content_block_stop", "index": index}),
        ));
        index += 1;
    };
    if !said.reasoning.is_empty() {
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![
                json!({"type": "thinking_delta", "thinking": said.reasoning}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
            ],
        );
    }
    if !said.text.is_empty() {
        let deltas = pieces(&said.text, said.chunk_chars);
        let deltas = deltas
            .iter()
            .map(|text| json!({"type": "text_delta", "text": text}));
        block(json!({"type": "text", "text": ""}), deltas.collect());
    }
    for call in &said.calls {
        let whole = input(&call.arguments).to_string();
        let deltas = pieces(&whole, said.chunk_chars);
        let deltas = deltas
            .iter()
            .map(|json| json!({"type": "input_json_delta", "partial_json": json}));
        block(
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
            deltas.collect(),
        );
    }
    let delta = json!({"stop_reason": stop_reason(said), "stop_sequence": null});
    let end = json!({"type": "message_delta", "delta": delta, "usage": usage(said)});
    events.push(Event::named(&end).terminal());
    events.push(Event::named(&json!({"type": "message_stop"})).terminal());
    events
}
