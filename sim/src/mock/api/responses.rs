//! OpenAI Responses (chapter 2.1).

use serde_json::{Value, json};

use super::{Event, is_true, list, text, text_of};
use crate::mock::ask::Ask;
use crate::mock::pick::{Call, Said, pieces};

pub(super) fn read(body: &Value, ask: &mut Ask) {
    text(body, "model").clone_into(&mut ask.model);
    ask.stream = is_true(body, "stream");
    let instructions = text(body, "instructions");
    if !instructions.is_empty() {
        ask.system(instructions);
    }
    if let Some(text) = body.get("input").and_then(Value::as_str) {
        ask.user(text);
    }
    // Calls with nothing but reasoning between them are one round.
    let mut in_round = false;
    for item in list(body, "input") {
        match text(item, "type") {
            "function_call" | "custom_tool_call" => {
                if !in_round {
                    ask.turn += 1;
                }
                in_round = true;
                ask.say(text(item, "arguments"));
                ask.say(text(item, "input"));
            }
            "function_call_output" | "custom_tool_call_output" => {
                in_round = false;
                ask.tool_output(&text_of(&item["output"]));
            }
            "reasoning" => {}
            "additional_tools" => ask.tools.extend(names(list(item, "tools"))),
            _ => {
                in_round = false;
                let said = text_of(&item["content"]);
                match text(item, "role") {
                    "system" | "developer" => ask.system(&said),
                    "user" => ask.user(&said),
                    _ => ask.say(&said),
                }
            }
        }
    }
    ask.tools.extend(names(list(body, "tools")));
}

fn names(tools: &[Value]) -> Vec<String> {
    let mut names = Vec::new();
    for tool in tools {
        let name = text(tool, "name");
        names.push(
            if name.is_empty() {
                text(tool, "type")
            } else {
                name
            }
            .to_owned(),
        );
        names.extend(names_of_nested(tool));
    }
    names
}

fn names_of_nested(tool: &Value) -> impl Iterator<Item = String> {
    let nested = list(tool, "tools").iter();
    nested.map(|tool| text(tool, "name").to_owned())
}

fn call(call: &Call) -> Value {
    let key = if call.custom { "input" } else { "arguments" };
    json!({
        "type": if call.custom { "custom_tool_call" } else { "function_call" },
        "id": format!("fc_{}", call.id),
        "call_id": call.id,
        "name": call.name,
        key: call.arguments,
        "status": "completed",
    })
}

fn items(said: &Said) -> Vec<Value> {
    let mut items = Vec::new();
    if !said.reasoning.is_empty() {
        items.push(json!({
            "type": "reasoning",
            "id": format!("rs_mock{}", said.request),
            "summary": [{"type": "summary_text", "text": said.reasoning}],
            "encrypted_content": null,
        }));
    }
    if !said.text.is_empty() || said.calls.is_empty() {
        let part = if said.finish == "refusal" {
            json!({"type": "refusal", "refusal": said.text})
        } else {
            json!({"type": "output_text", "text": said.text, "annotations": []})
        };
        items.push(json!({
            "type": "message",
            "id": format!("msg_mock{}", said.request),
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }));
    }
    items.extend(said.calls.iter().map(call));
    items
}

fn reason(said: &Said) -> Option<&'static str> {
    match said.finish.as_str() {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    }
}

pub(super) fn whole(said: &Said, ask: &Ask) -> Value {
    let usage = said.usage;
    let reason = reason(said);
    json!({
        "id": format!("resp_mock{}", said.request),
        "object": "response",
        "created_at": 1,
        "status": if reason.is_some() { "incomplete" } else { "completed" },
        "model": ask.model,
        "output": items(said),
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
        "error": null,
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "parallel_tool_calls": true,
        "tool_choice": "auto",
        "tools": [],
    })
}

pub(super) fn events(said: &Said, ask: &Ask) -> Vec<Event> {
    let whole = whole(said, ask);
    let mut open = whole.clone();
    open["status"] = "in_progress".into();
    open["output"] = json!([]);
    open["usage"] = Value::Null;
    let mut events = vec![Event::named(
        &json!({"type": "response.created", "response": open}),
    )];
    for (i, item) in items(said).into_iter().enumerate() {
        events.push(Event::named(&json!({
            "type": "response.output_item.added", "output_index": i, "item": item,
        })));
        if text(&item, "type") == "message" {
            for piece in pieces(&said.text, said.chunk_chars) {
                events.push(Event::named(&json!({
                    "type": "response.output_text.delta",
                    "item_id": item["id"], "output_index": i, "content_index": 0, "delta": piece,
                })));
            }
        }
        events.push(Event::named(&json!({
            "type": "response.output_item.done", "output_index": i, "item": item,
        })));
    }
    let kind = if reason(said).is_some() {
        "response.incomplete"
    } else {
        "response.completed"
    };
    events.push(Event::named(&json!({"type": kind, "response": whole})).terminal());
    events
}
