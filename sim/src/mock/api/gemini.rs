//! Gemini (chapter 2.4).

use serde_json::{Value, json};

use super::{Event, list, text};
use crate::mock::ask::Ask;
use crate::mock::pick::{Said, pieces};

pub(super) const fn error_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        500..=599 => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

pub(super) fn read(path: &str, body: &Value, ask: &mut Ask) {
    let slug = path.rsplit_once("/models/").map_or("", |(_, rest)| rest);
    slug.split(':')
        .next()
        .unwrap_or_default()
        .clone_into(&mut ask.model);
    ask.stream = path.contains(":streamGenerateContent");
    let system = texts(
        body.get("systemInstruction")
            .unwrap_or(&body["system_instruction"]),
    );
    if !system.is_empty() {
        ask.system(&system);
    }
    for content in list(body, "contents") {
        let is_model = text(content, "role") == "model";
        let said = texts(content);
        let parts = list(content, "parts");
        for part in parts {
            if let Some(response) = part.get("functionResponse") {
                ask.tool_output(&response["response"].to_string());
            }
        }
        if is_model {
            ask.say(&said);
            if parts.iter().any(|part| part.get("functionCall").is_some()) {
                ask.turn += 1;
            }
        } else if !said.is_empty() {
            ask.user(&said);
        }
    }
    for tool in list(body, "tools") {
        let functions = list(tool, "functionDeclarations").iter();
        ask.tools
            .extend(functions.map(|function| text(function, "name").to_owned()));
    }
}

fn texts(content: &Value) -> String {
    let texts = list(content, "parts")
        .iter()
        .filter_map(|part| part.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

fn finish(said: &Said) -> &'static str {
    match said.finish.as_str() {
        "length" => "MAX_TOKENS",
        "content_filter" | "refusal" => "SAFETY",
        _ => "STOP",
    }
}

fn usage(said: &Said) -> Value {
    let usage = said.usage;
    json!({
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "totalTokenCount": usage.input + usage.output,
        "cachedContentTokenCount": usage.cached,
        "thoughtsTokenCount": usage.reasoning,
    })
}

fn calls(said: &Said) -> Vec<Value> {
    let calls = said.calls.iter().map(|call| {
        let args: Value = serde_json::from_str(&call.arguments)
            .unwrap_or_else(|_| json!({"input": call.arguments}));
        json!({"functionCall": {"name": call.name, "args": args, "id": call.id}})
    });
    calls.collect()
}

fn answer(parts: &[Value], finish: Option<&str>, usage: Option<Value>, ask: &Ask) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    let mut answer = json!({"candidates": [candidate], "modelVersion": ask.model});
    if let Some(usage) = usage {
        answer["usageMetadata"] = usage;
    }
    answer
}

pub(super) fn whole(said: &Said, ask: &Ask) -> Value {
    let mut parts = Vec::new();
    if !said.reasoning.is_empty() {
        parts.push(json!({"text": said.reasoning, "thought": true}));
    }
    if !said.text.is_empty() {
        parts.push(json!({"text": said.text}));
    }
    parts.extend(calls(said));
    answer(&parts, Some(finish(said)), Some(usage(said)), ask)
}

pub(super) fn events(said: &Said, ask: &Ask) -> Vec<Event> {
    let mut events = Vec::new();
    if !said.reasoning.is_empty() {
        let part = json!({"text": said.reasoning, "thought": true});
        events.push(Event::data(&answer(&[part], None, None, ask)));
    }
    for piece in pieces(&said.text, said.chunk_chars) {
        events.push(Event::data(&answer(
            &[json!({"text": piece})],
            None,
            None,
            ask,
        )));
    }
    let last = answer(&calls(said), Some(finish(said)), Some(usage(said)), ask);
    events.push(Event::data(&last).terminal());
    events
}
