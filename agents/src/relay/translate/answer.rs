//! An answer of Chat Completions as one of Responses.

use serde_json::{Value, json};

use super::Names;

/// Translates an answer in one piece.
#[must_use]
pub fn whole(chat: &Value, names: &Names) -> Value {
    let mut answering = Answering::new(names.clone());
    let choice = &chat["choices"][0];
    let message = &choice["message"];
    answering.model = chat["model"].clone();
    answering.text = message["content"].as_str().unwrap_or_default().to_owned();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        answering.calls.push(Call {
            index: 0,
            id: text(&call["id"]),
            name: text(&call["function"]["name"]),
            arguments: text(&call["function"]["arguments"]),
        });
    }
    answering.usage = chat["usage"].clone();
    answering.finish = choice["finish_reason"].as_str().map(str::to_owned);
    answering.response()
}

struct Call {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

/// A stream of Chat Completions on its way to one of Responses.
pub struct Answering {
    names: Names,
    model: Value,
    sequence: u64,
    has_begun: bool,
    text: String,
    calls: Vec<Call>,
    usage: Value,
    finish: Option<String>,
    error: Option<Value>,
}

const RESPONSE_ID: &str = "resp_relay";
const MESSAGE_ID: &str = "msg_relay";

impl Answering {
    /// Begins.
    #[must_use]
    pub const fn new(names: Names) -> Self {
        Self {
            names,
            model: Value::Null,
            sequence: 0,
            has_begun: false,
            text: String::new(),
            calls: Vec::new(),
            usage: Value::Null,
            finish: None,
            error: None,
        }
    }

    /// Takes the data of one event; appends what is to be written to `out`.
    pub fn event(&mut self, data: &str, out: &mut String) {
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            return;
        };
        if chunk["error"].is_object() {
            self.error = Some(chunk["error"].clone());
            return;
        }
        if !self.has_begun {
            self.has_begun = true;
            self.model = chunk["model"].clone();
            let response = self.skeleton("in_progress");
            self.write(
                json!({"type": "response.created", "response": response}),
                out,
            );
        }
        if chunk["usage"].is_object() {
            self.usage = chunk["usage"].clone();
        }
        let choice = &chunk["choices"][0];
        if let Some(text) = choice["delta"]["content"]
            .as_str()
            .filter(|text| !text.is_empty())
        {
            self.say(text, out);
        }
        for call in choice["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            self.call(call);
        }
        if let Some(word) = choice["finish_reason"].as_str() {
            self.finish = Some(word.to_owned());
        }
    }

    fn say(&mut self, text: &str, out: &mut String) {
        if self.text.is_empty() {
            let item = json!({
                "type": "message", "id": MESSAGE_ID, "role": "assistant",
                "status": "in_progress", "content": [],
            });
            self.write(
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                out,
            );
        }
        self.text.push_str(text);
        self.write(
            json!({
                "type": "response.output_text.delta", "item_id": MESSAGE_ID,
                "output_index": 0, "content_index": 0, "delta": text,
            }),
            out,
        );
    }

    fn call(&mut self, part: &Value) {
        let index = part["index"].as_u64().unwrap_or(0);
        let known = self.calls.iter().position(|call| call.index == index);
        let at = known.unwrap_or_else(|| {
            self.calls.push(Call {
                index,
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        call.id.push_str(&text(&part["id"]));
        call.name.push_str(&text(&part["function"]["name"]));
        call.arguments
            .push_str(&text(&part["function"]["arguments"]));
    }

    /// Writes what ends the answer. A stream that broke off has no end, and neither has this.
    pub fn end(&mut self, out: &mut String) {
        if let Some(error) = self.error.take() {
            let message = error["message"].as_str().unwrap_or("the provider failed");
            let code = error["code"].as_str().unwrap_or("server_error");
            let mut response = self.skeleton("failed");
            response["error"] = json!({"code": code, "message": message});
            self.write(
                json!({"type": "response.failed", "response": response}),
                out,
            );
            return;
        }
        if self.finish.is_none() {
            return;
        }
        for (index, item) in self.items().into_iter().enumerate() {
            self.write(
                json!({"type": "response.output_item.done", "output_index": index, "item": item}),
                out,
            );
        }
        let response = self.response();
        let kind = if response["status"] == "incomplete" {
            "response.incomplete"
        } else {
            "response.completed"
        };
        self.write(json!({"type": kind, "response": response}), out);
    }

    fn write(&mut self, mut event: Value, out: &mut String) {
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.push_str("event: ");
        out.push_str(event["type"].as_str().unwrap_or_default());
        out.push_str("\ndata: ");
        out.push_str(&event.to_string());
        out.push_str("\n\n");
    }

    fn items(&self) -> Vec<Value> {
        let mut items = Vec::new();
        if !self.text.is_empty() || self.calls.is_empty() {
            items.push(json!({
                "type": "message", "id": MESSAGE_ID, "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": self.text, "annotations": []}],
            }));
        }
        for call in &self.calls {
            let known = self.names.get(&call.name);
            let mut item = json!({
                "id": format!("fc_{}", call.id), "call_id": call.id, "name": known.name,
                "status": "completed",
            });
            if let Some(namespace) = known.namespace {
                item["namespace"] = namespace.into();
            }
            if known.is_custom {
                let input = serde_json::from_str::<Value>(&call.arguments).ok();
                let input = input.as_ref().and_then(|value| value["input"].as_str());
                item["type"] = "custom_tool_call".into();
                // A model may write the text as it is.
                item["input"] = input.unwrap_or(&call.arguments).into();
            } else {
                item["type"] = "function_call".into();
                item["arguments"] = call.arguments.as_str().into();
            }
            items.push(item);
        }
        items
    }

    fn skeleton(&self, status: &str) -> Value {
        json!({
            "id": RESPONSE_ID, "object": "response", "created_at": 0, "status": status,
            "model": self.model, "output": [], "usage": null, "error": null,
            "incomplete_details": null,
        })
    }

    fn response(&self) -> Value {
        let reason = match self.finish.as_deref() {
            Some("length") => Some("max_output_tokens"),
            Some("content_filter") => Some("content_filter"),
            _ => None,
        };
        let status = if reason.is_some() {
            "incomplete"
        } else {
            "completed"
        };
        let mut response = self.skeleton(status);
        response["output"] = self.items().into();
        response["incomplete_details"] = reason.map(|reason| json!({"reason": reason})).into();
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        if self.usage.is_object() {
            let (sent, received) = (
                count(&self.usage["prompt_tokens"]),
                count(&self.usage["completion_tokens"]),
            );
            let cached = count(&self.usage["prompt_tokens_details"]["cached_tokens"]);
            let reasoning = count(&self.usage["completion_tokens_details"]["reasoning_tokens"]);
            response["usage"] = json!({
                "input_tokens": sent, "input_tokens_details": {"cached_tokens": cached},
                "output_tokens": received, "output_tokens_details": {"reasoning_tokens": reasoning},
                "total_tokens": sent + received,
            });
        }
        response
    }
}
