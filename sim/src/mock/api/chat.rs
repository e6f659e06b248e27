//! Chat Completions (chapter 2.3).

use serde_json::{Value, json};

use super::{Event, is_true, list, text, text_of};
use crate::mock::ask::Ask;
use crate::mock::pick::{Said, pieces};

pub(super) fn read(body: &Value, ask: &mut Ask) {
    text(body, "model").clone_into(&mut ask.model);
    ask.stream = is_true(body, "stream");
    ask.stream_usage = body
        .get("stream_options")
        .is_some_and(|o| is_true(o, "include_usage"));
    for message in list(body, "messages") {
        let said = text_of(&message["content"]);
        match text(message, "role") {
            "system" | "developer" => ask.system(&said),
            "user" => ask.user(&said),
            "tool" => ask.tool_output(&said),
            _ => {
                ask.say(&said);
                if !list(message, "tool_calls").is_empty() {
                    ask.turn += 1;
                }
            }
        }
    }
    for tool in list(body, "tools") {
        let name = tool
            .get("function")
            .map_or_else(|| text(tool, "type"), |f| text(f, "name"));
        ask.tools.push(name.to_owned());
    }
}

fn usage(said: &Said) -> Value {
    let usage = said.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

fn finish(said: &Said) -> &str {
    match said.finish.as_str() {
        "refusal" => "stop",
        word => word,
    }
}

pub(super) fn whole(said: &Said, ask: &Ask) -> Value {
    let mut message = json!({"role": "assistant", "content": said.text});
    if !said.reasoning.is_empty() {
        message["reasoning_content"] = said.reasoning.as_str().into();
    }
    if said.finish == "refusal" {
        message["content"] = Value::Null;
        message["refusal"] = said.text.as_str().into();
    }
    if !said.calls.is_empty() {
        let calls = said.calls.iter().map(|call| {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": format!("chatcmpl-mock{}", said.request),
        "object": "chat.completion",
        "created": 1,
        "model": ask.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish(said)}],
        "usage": usage(said),
    })
}

pub(super) fn events(said: &Said, ask: &Ask) -> Vec<Event> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": format!("chatcmpl-mock{}", said.request),
            "object": "chat.completion.chunk",
            "created": 1,
            "model": ask.model,
            "choices": choices,
        });
        if !usage.is_null() {
            chunk["usage"] = usage;
        }
        Event::data(&chunk)
    };
    let delta = |delta: Value, finish: Option<&str>| {
        chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": finish}]),
            Value::Null,
        )
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), None)];
    if !said.reasoning.is_empty() {
        events.push(delta(json!({"reasoning_content": said.reasoning}), None));
    }
    for piece in pieces(&said.text, said.chunk_chars) {
        events.push(delta(json!({"content": piece}), None));
    }
    for (i, call) in said.calls.iter().enumerate() {
        let begin = json!({"index": i, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}});
        events.push(delta(json!({"tool_calls": [begin]}), None));
        for piece in pieces(&call.arguments, said.chunk_chars) {
            let rest = json!({"index": i, "function": {"arguments": piece}});
            events.push(delta(json!({"tool_calls": [rest]}), None));
        }
    }
    events.push(delta(json!({}), Some(finish(said))).terminal());
    if ask.stream_usage {
        events.push(chunk(json!([]), usage(said)).terminal());
    }
    events.push(Event {
        bytes: "data: [DONE]\n\n".to_owned(),
        is_terminal: true,
    });
    events
}
