//! The Responses API: the body that is sent, and the answer that is read (backends spec 2.4).

mod read;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::contract::{ChatRequest, Content, Message, Part, Role, Tool, ToolChoice};

pub(crate) use read::{read, read_stream};

/// A request as it is written.
pub(crate) struct Body<'a> {
    pub(crate) request: &'a ChatRequest,
    /// No call asks for more tokens than this.
    pub(crate) limit: u32,
    pub(crate) reasoning_effort: Option<&'a str>,
    /// Whether the answer is to come in pieces.
    pub(crate) streams: bool,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.request;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &request.model)?;
        if let Some(instructions) = instructions(&request.messages) {
            map.serialize_entry("instructions", &instructions)?;
        }
        map.serialize_entry("input", &input(&request.messages))?;
        map.serialize_entry("max_output_tokens", &request.max_tokens.min(self.limit))?;
        if let Some(temperature) = request.temperature {
            map.serialize_entry("temperature", &temperature)?;
        }
        if let Some(effort) = self.reasoning_effort {
            map.serialize_entry("reasoning", &json!({ "effort": effort }))?;
        }
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request.tools.iter().map(tool).collect();
            map.serialize_entry("tools", &tools)?;
            if let Some(choice) = &request.tool_choice {
                map.serialize_entry("tool_choice", &tool_choice(choice))?;
            }
        }
        if self.streams {
            map.serialize_entry("stream", &true)?;
        }
        if let Some(named) = &request.schema {
            let format = json!({
                "type": "json_schema", "name": named.name, "strict": true, "schema": named.schema,
            });
            map.serialize_entry("text", &json!({ "format": format }))?;
        }
        map.end()
    }
}

/// Joins what the system says, wherever it stands.
fn instructions(messages: &[Message]) -> Option<String> {
    let texts: Vec<_> = messages
        .iter()
        .filter(|message| message.role == Role::System)
        .map(|message| message.content.as_text())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

fn input(messages: &[Message]) -> Vec<Value> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match message.role {
            Role::System => {}
            Role::User | Role::Developer => {
                items.push(json!({"role": "user", "content": content(&message.content)}));
            }
            Role::Assistant => {
                let text = message.content.as_text();
                if !text.trim().is_empty() {
                    items.push(json!({"role": "assistant", "content": text}));
                }
                items.extend(message.tool_calls.iter().map(|call| {
                    json!({
                        "type": "function_call", "call_id": call.id, "name": call.name,
                        "arguments": call.arguments,
                    })
                }));
            }
            Role::Tool => items.push(json!({
                "type": "function_call_output",
                "call_id": message.tool_call_id.as_deref().unwrap_or_default(),
                "output": message.content.as_text(),
            })),
        }
    }
    items
}

fn content(content: &Content) -> Value {
    let parts = match content {
        Content::Text(text) => return text.as_str().into(),
        Content::Parts(parts) => parts,
    };
    let written = parts.iter().map(|part| match part {
        Part::Text(text) => json!({"type": "input_text", "text": text}),
        Part::Image(image) => {
            let mut item = Map::new();
            item.insert("type".to_owned(), "input_image".into());
            item.insert("image_url".to_owned(), image.url.as_str().into());
            if let Some(detail) = &image.detail {
                item.insert("detail".to_owned(), detail.as_str().into());
            }
            item.into()
        }
    });
    written.collect()
}

fn tool(tool: &Tool) -> Value {
    match tool {
        Tool::Function {
            name,
            description,
            parameters,
        } => {
            let parameters = match parameters {
                Value::Null => json!({"type": "object", "properties": {}}),
                given => given.clone(),
            };
            json!({
                "type": "function", "name": name, "description": description,
                "parameters": parameters,
            })
        }
        Tool::Provided(value) => value.clone(),
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Function(name) => json!({"type": "function", "name": name}),
    }
}
