//! A request of Responses as one of Chat Completions.

use serde_json::{Map, Value, json};

use super::{Known, Names};

/// Translates a request; returns it with the names that its tools got.
#[must_use]
pub fn request(body: &Value) -> (Value, Names) {
    let mut names = Names::default();
    let mut tools = Vec::new();
    for tool in list(body, "tools") {
        add_tool(tool, None, &mut tools, &mut names);
    }
    let mut messages = Messages::default();
    if let Some(text) = text(body, "instructions").filter(|text| !text.is_empty()) {
        messages.push("system", text.into());
    }
    if let Some(text) = text(body, "input") {
        messages.push("user", text.into());
    }
    for item in list(body, "input") {
        if text(item, "type") == Some("additional_tools") {
            for tool in list(item, "tools") {
                add_tool(tool, None, &mut tools, &mut names);
            }
        } else {
            messages.item(item);
        }
    }
    let mut chat = Map::new();
    let mut put = |name: &str, value: Value| chat.insert(name.to_owned(), value);
    put("model", body["model"].clone());
    put("messages", messages.end());
    if let Some(limit) = body
        .get("max_output_tokens")
        .filter(|limit| limit.is_number())
    {
        put("max_tokens", limit.clone());
    }
    if let Some(effort) = text(&body["reasoning"], "effort").filter(|effort| *effort != "none") {
        put("reasoning_effort", effort.into());
    }
    if !tools.is_empty() {
        put("tools", tools.into());
        if let Some(choice) = tool_choice(&body["tool_choice"]) {
            put("tool_choice", choice);
        }
        if let Some(parallel) = body.get("parallel_tool_calls").filter(|v| v.is_boolean()) {
            put("parallel_tool_calls", parallel.clone());
        }
    }
    let format = &body["text"]["format"];
    if text(format, "type") == Some("json_schema") {
        let schema = json!({
            "name": format["name"], "strict": format["strict"], "schema": format["schema"],
        });
        put(
            "response_format",
            json!({"type": "json_schema", "json_schema": schema}),
        );
    }
    if body["stream"] == true {
        put("stream", true.into());
        put("stream_options", json!({"include_usage": true}));
    }
    (Value::from(chat), names)
}

fn tool_choice(choice: &Value) -> Option<Value> {
    if let Some(word) = choice.as_str() {
        return Some(word.into());
    }
    let name = text(choice, "name")?;
    Some(json!({"type": "function", "function": {"name": name}}))
}

fn add_tool(tool: &Value, namespace: Option<&str>, tools: &mut Vec<Value>, names: &mut Names) {
    let name = text(tool, "name").unwrap_or_default();
    let outside = match namespace {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    };
    let known = |is_custom| Known {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        is_custom,
    };
    let function = |parameters: Value| {
        let description = text(tool, "description").unwrap_or_default();
        json!({"type": "function", "function": {
            "name": outside, "description": description, "parameters": parameters,
        }})
    };
    match text(tool, "type") {
        Some("function") => {
            let parameters = tool.get("parameters").filter(|p| p.is_object());
            let none = json!({"type": "object", "properties": {}});
            tools.push(function(parameters.cloned().unwrap_or(none)));
            names.add(&outside, known(false));
        }
        Some("custom") => {
            tools.push(function(json!({
                "type": "object",
                "properties": {"input": {"type": "string"}},
                "required": ["input"],
            })));
            names.add(&outside, known(true));
        }
        Some("namespace") => {
            for inner in list(tool, "tools") {
                add_tool(inner, Some(name), tools, names);
            }
        }
        // The provider's own tools are not offered elsewhere.
        _ => {}
    }
}

/// Messages under way: calls of tools belong to the assistant's message before them.
#[derive(Default)]
struct Messages(Vec<Value>);

impl Messages {
    fn push(&mut self, role: &str, content: Value) {
        self.0.push(json!({"role": role, "content": content}));
    }

    fn item(&mut self, item: &Value) {
        match text(item, "type") {
            Some("function_call") => {
                let name = match text(item, "namespace") {
                    Some(namespace) => {
                        format!("{namespace}__{}", text(item, "name").unwrap_or_default())
                    }
                    None => text(item, "name").unwrap_or_default().to_owned(),
                };
                let arguments = text(item, "arguments").unwrap_or("{}");
                self.call(item, &name, arguments);
            }
            Some("custom_tool_call") => {
                let input = json!({"input": text(item, "input").unwrap_or_default()});
                let name = text(item, "name").unwrap_or_default();
                self.call(item, name, &input.to_string());
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let output = match &item["output"] {
                    Value::String(text) => text.clone(),
                    Value::Array(parts) => {
                        let texts = parts.iter().filter_map(|part| text(part, "text"));
                        texts.collect::<Vec<_>>().join("\n")
                    }
                    other => other.to_string(),
                };
                self.0.push(json!({
                    "role": "tool", "tool_call_id": item["call_id"], "content": output,
                }));
            }
            Some("reasoning") => {}
            _ => {
                let role = match text(item, "role") {
                    Some("assistant") => "assistant",
                    Some("system" | "developer") => "system",
                    _ => "user",
                };
                self.push(role, content(&item["content"]));
            }
        }
    }

    fn call(&mut self, item: &Value, name: &str, arguments: &str) {
        let call = json!({
            "id": item["call_id"], "type": "function",
            "function": {"name": name, "arguments": arguments},
        });
        let last = self.0.last_mut().filter(|last| last["role"] == "assistant");
        if let Some(last) = last {
            match last["tool_calls"].as_array_mut() {
                Some(calls) => calls.push(call),
                None => last["tool_calls"] = json!([call]),
            }
        } else {
            self.0
                .push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        }
    }

    fn end(self) -> Value {
        Value::from(self.0)
    }
}

fn content(content: &Value) -> Value {
    let Some(parts) = content.as_array() else {
        return content.clone();
    };
    let has_image = parts
        .iter()
        .any(|part| text(part, "type") == Some("input_image"));
    if !has_image {
        let texts = parts.iter().filter_map(|part| text(part, "text"));
        return texts.collect::<Vec<_>>().join("\n").into();
    }
    let parts = parts.iter().filter_map(|part| match text(part, "type") {
        Some("input_image") => {
            let mut url = Map::new();
            url.insert("url".to_owned(), part["image_url"].clone());
            if let Some(detail) = text(part, "detail") {
                url.insert("detail".to_owned(), detail.into());
            }
            Some(json!({"type": "image_url", "image_url": url}))
        }
        _ => Some(json!({"type": "text", "text": text(part, "text")?})),
    });
    parts.collect()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
