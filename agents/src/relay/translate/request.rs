//! A request of Responses as one of Chat Completions.

use serde_json::{Map, Value, json};

use super::{Known, Names};

/// Most characters of an unknown kind that are shown.
const KIND_MAX: usize = 40;

/// Translates a request; returns it with the names that its tools got.
///
/// # Errors
/// It holds something that Chat Completions cannot say: words that name its kind.
pub fn request(body: &Value) -> Result<(Value, Names), String> {
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
            messages.item(item)?;
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
    Ok((Value::from(chat), names))
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

/// Messages under way: calls of tools belong to the assistant's message before them, and nothing may
/// stand between the outputs of tools.
#[derive(Default)]
struct Messages {
    list: Vec<Value>,
    /// Parts of the outputs of tools that follow the last of them.
    images: Vec<Value>,
}

impl Messages {
    fn push(&mut self, role: &str, content: Value) {
        self.list.push(json!({"role": role, "content": content}));
    }

    fn item(&mut self, item: &Value) -> Result<(), String> {
        let kind = text(item, "type");
        let is_output = matches!(
            kind,
            Some("function_call_output" | "custom_tool_call_output" | "reasoning")
        );
        if !is_output {
            self.show_images();
        }
        match kind {
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
                    Value::Array(parts) => self.output(parts, &item["call_id"])?,
                    other => other.to_string(),
                };
                self.list.push(json!({
                    "role": "tool", "tool_call_id": item["call_id"], "content": output,
                }));
            }
            Some("reasoning") => {}
            // An item with a role needs no type.
            None | Some("message") => {
                let role = match text(item, "role") {
                    Some("assistant") => "assistant",
                    Some("system" | "developer") => "system",
                    _ => "user",
                };
                self.push(role, content(&item["content"])?);
            }
            Some(kind) => return Err(unknown("item", kind)),
        }
        Ok(())
    }

    /// Returns the text of a tool's output, and keeps its images for later.
    fn output(&mut self, parts: &[Value], call: &Value) -> Result<String, String> {
        let mut texts = Vec::new();
        let mut images = Vec::new();
        for part in parts {
            match Part::of(part)? {
                Part::Text(text) => texts.push(text),
                Part::Image(image) => images.push(image),
            }
        }
        if !images.is_empty() {
            texts.push("[its images follow in a message of the user's]");
            let call = call.as_str().unwrap_or_default();
            let words = format!("Images of the output of the tool call `{call}`:");
            self.images.push(json!({"type": "text", "text": words}));
            self.images.append(&mut images);
        }
        Ok(texts.join("\n"))
    }

    fn show_images(&mut self) {
        if !self.images.is_empty() {
            let images = std::mem::take(&mut self.images);
            self.push("user", images.into());
        }
    }

    fn call(&mut self, item: &Value, name: &str, arguments: &str) {
        let call = json!({
            "id": item["call_id"], "type": "function",
            "function": {"name": name, "arguments": arguments},
        });
        let last = self
            .list
            .last_mut()
            .filter(|last| last["role"] == "assistant");
        if let Some(last) = last {
            match last["tool_calls"].as_array_mut() {
                Some(calls) => calls.push(call),
                None => last["tool_calls"] = json!([call]),
            }
        } else {
            self.list
                .push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        }
    }

    fn end(mut self) -> Value {
        self.show_images();
        Value::from(self.list)
    }
}

/// A part of a message or of a tool's output.
enum Part<'a> {
    Text(&'a str),
    Image(Value),
}

impl<'a> Part<'a> {
    fn of(part: &'a Value) -> Result<Self, String> {
        let kind = text(part, "type").unwrap_or("text");
        match kind {
            "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" => {
                Ok(Self::Text(text(part, "text").unwrap_or_default()))
            }
            "refusal" => Ok(Self::Text(text(part, "refusal").unwrap_or_default())),
            "input_image" => {
                let address = text(part, "image_url")
                    .ok_or_else(|| unknown("image without an address", kind))?;
                let mut url = Map::new();
                url.insert("url".to_owned(), address.into());
                if let Some(detail) = text(part, "detail") {
                    url.insert("detail".to_owned(), detail.into());
                }
                Ok(Self::Image(json!({"type": "image_url", "image_url": url})))
            }
            kind => Err(unknown("part of a message", kind)),
        }
    }
}

fn unknown(what: &str, kind: &str) -> String {
    let kind: String = kind.chars().take(KIND_MAX).collect();
    format!(
        "a provider that speaks Chat Completions cannot be told of a {what} of the kind `{kind}`; use \
         one that speaks Responses"
    )
}

fn content(content: &Value) -> Result<Value, String> {
    let Some(parts) = content.as_array() else {
        return match content {
            Value::String(_) => Ok(content.clone()),
            _ => Err(unknown("message", "without content")),
        };
    };
    let parts = parts.iter().map(Part::of);
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => Some(*text),
        Part::Image(_) => None,
    });
    if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
        return Ok(texts.join("\n").into());
    }
    let parts = parts.into_iter().map(|part| match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image(image) => image,
    });
    Ok(parts.collect())
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
