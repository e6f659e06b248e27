//! What tools gave back, found by the id of the call wherever an interface has ids.
//!
//! A request holds the conversation so far: the calls with their ids, and the outputs with the ids
//! of what they answer. Calls of one turn run side by side and come back in any order, and CLIs drop
//! old turns of long conversations, so that places alone say nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::relay::Record;

/// What a call gave back.
#[derive(Default)]
pub(super) struct Output {
    pub(super) text: String,
    /// Whether the interface says that it is an error; most say nothing.
    pub(super) is_error: bool,
}

/// The outputs of a run that nobody has taken yet.
pub(super) struct Outputs {
    /// Calls in the order in which they first stood in a request.
    calls: Vec<Call>,
    by_id: BTreeMap<String, Output>,
    /// Outputs that name no call, in order.
    nameless: std::vec::IntoIter<Output>,
}

struct Call {
    id: String,
    name: String,
    arguments: Value,
    is_taken: bool,
}

impl Outputs {
    pub(super) fn of(record: &Record) -> Self {
        let mut found = Found::default();
        let answered = record
            .exchanges
            .iter()
            .filter(|exchange| exchange.status == 200);
        for exchange in answered {
            found.nameless.clear();
            found.read(&exchange.request);
        }
        Self {
            calls: found.calls,
            by_id: found.by_id,
            // The last request that was answered holds the whole conversation.
            nameless: found.nameless.into_iter(),
        }
    }

    /// Returns what a call gave back; empty if it is in no request.
    pub(super) fn take(&mut self, name: &str, arguments: &str) -> Output {
        let wanted = value_of(arguments);
        let fits = |call: &&mut Call| !call.is_taken && call.name == name;
        let same = self
            .calls
            .iter_mut()
            .filter(fits)
            .find(|call| call.arguments == wanted);
        let call = match same {
            Some(call) => Some(call),
            // Some CLIs put the arguments right before they keep them.
            None => self.calls.iter_mut().find(fits),
        };
        let Some(call) = call else {
            return self.nameless.next().unwrap_or_default();
        };
        call.is_taken = true;
        self.by_id.remove(&call.id).unwrap_or_default()
    }
}

#[derive(Default)]
struct Found {
    calls: Vec<Call>,
    known: BTreeSet<String>,
    by_id: BTreeMap<String, Output>,
    nameless: Vec<Output>,
}

impl Found {
    /// Reads a part of a request of any interface.
    fn read(&mut self, value: &Value) {
        let map = match value {
            Value::Array(list) => return list.iter().for_each(|value| self.read(value)),
            Value::Object(map) => map,
            _ => return,
        };
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        match text("type") {
            Some("function_call") => return self.call(text("call_id"), value, "arguments"),
            Some("custom_tool_call") => return self.call(text("call_id"), value, "input"),
            Some("tool_use") => return self.call(text("id"), value, "input"),
            Some("function_call_output" | "custom_tool_call_output") => {
                return self.output(text("call_id"), map.get("output"), false);
            }
            Some("tool_result") => {
                let is_error = map.get("is_error") == Some(&Value::Bool(true));
                return self.output(text("tool_use_id"), map.get("content"), is_error);
            }
            _ => {}
        }
        if text("role") == Some("tool") {
            return self.output(text("tool_call_id"), map.get("content"), false);
        }
        if let Some(function) = map.get("function").filter(|_| map.contains_key("id")) {
            return self.call(text("id"), function, "arguments");
        }
        for (key, part) in map {
            let id = part.get("id").and_then(Value::as_str);
            match key.as_str() {
                "functionCall" => self.call(id, part, "args"),
                "functionResponse" => {
                    let response = part.get("response");
                    let is_error = response.is_some_and(|said| said.get("error").is_some());
                    self.output(id, response, is_error);
                }
                // What a tool is, is no conversation.
                "tools" => {}
                _ => self.read(part),
            }
        }
    }

    fn call(&mut self, id: Option<&str>, call: &Value, arguments: &str) {
        let Some(id) = id else { return };
        if !self.known.insert(id.to_owned()) {
            return;
        }
        let name = call.get("name").and_then(Value::as_str);
        self.calls.push(Call {
            id: id.to_owned(),
            name: name.unwrap_or_default().to_owned(),
            arguments: match call.get(arguments) {
                Some(Value::String(text)) => value_of(text),
                Some(other) => other.clone(),
                None => Value::Null,
            },
            is_taken: false,
        });
    }

    fn output(&mut self, id: Option<&str>, output: Option<&Value>, is_error: bool) {
        let output = Output {
            text: text_of(output),
            is_error,
        };
        match id {
            Some(id) => _ = self.by_id.entry(id.to_owned()).or_insert(output),
            None => self.nameless.push(output),
        }
    }
}

/// Arguments are JSON in most interfaces, and any text in some.
fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
