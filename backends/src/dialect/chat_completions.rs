//! Chat Completions: the body that is sent, and the answer that is read (backends spec 2.4–2.7).

mod read;
mod server;
mod stream;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::contract::{ChatRequest, Content, Message, Part, Tool, ToolCall, ToolChoice};

pub(crate) use read::Reader;
pub(crate) use server::Server;

/// What differs between the servers of this dialect.
pub(crate) struct Style<'a> {
    /// Name of the field that limits the answer.
    pub(crate) limit_field: &'static str,
    /// No call asks for more tokens than this.
    pub(crate) limit: u32,
    /// Temperature of this call, if any is sent.
    pub(crate) temperature: Option<f64>,
    /// Reasoning effort, if it is sent.
    pub(crate) reasoning_effort: Option<&'a str>,
    /// Whether the answer is to come in pieces.
    pub(crate) streams: bool,
    /// Further fields, as they are.
    pub(crate) extra: &'a Map<String, Value>,
}

/// A request as it is written.
pub(crate) struct Body<'a> {
    pub(crate) request: &'a ChatRequest,
    pub(crate) style: Style<'a>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { request, style } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &request.model)?;
        map.serialize_entry("messages", &Messages(&request.messages))?;
        map.serialize_entry(style.limit_field, &request.max_tokens.min(style.limit))?;
        if let Some(temperature) = style.temperature {
            map.serialize_entry("temperature", &temperature)?;
        }
        if let Some(effort) = style.reasoning_effort {
            map.serialize_entry("reasoning_effort", effort)?;
        }
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request.tools.iter().map(tool).collect();
            map.serialize_entry("tools", &tools)?;
            if let Some(choice) = &request.tool_choice {
                map.serialize_entry("tool_choice", &tool_choice(choice))?;
            }
        }
        if let Some(named) = &request.schema {
            let schema = json!({
                "type": "json_schema",
                "json_schema": {"name": named.name, "strict": true, "schema": named.schema},
            });
            map.serialize_entry("response_format", &schema)?;
        }
        if style.streams {
            map.serialize_entry("stream", &true)?;
            // The last piece then tells what was used.
            map.serialize_entry("stream_options", &json!({"include_usage": true}))?;
        }
        for (name, value) in style.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn tool(tool: &Tool) -> Value {
    match tool {
        Tool::Function {
            name,
            description,
            parameters,
        } => {
            let mut function = Map::new();
            function.insert("name".to_owned(), name.as_str().into());
            if !description.is_empty() {
                function.insert("description".to_owned(), description.as_str().into());
            }
            function.insert("parameters".to_owned(), parameters.clone());
            json!({"type": "function", "function": function})
        }
        Tool::Provided(value) => value.clone(),
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Function(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

struct Messages<'a>(&'a [Message]);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(One))
    }
}

struct One<'a>(&'a Message);

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(message) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", message.role.as_str())?;
        match &message.content {
            Content::Text(text) => map.serialize_entry("content", text)?,
            Content::Parts(parts) => map.serialize_entry("content", &Parts(parts))?,
        }
        if !message.tool_calls.is_empty() {
            let calls: Vec<Value> = message.tool_calls.iter().map(call).collect();
            map.serialize_entry("tool_calls", &calls)?;
        }
        if let Some(id) = &message.tool_call_id {
            map.serialize_entry("tool_call_id", id)?;
        }
        map.end()
    }
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

struct Parts<'a>(&'a [Part]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for part in self.0 {
            match part {
                Part::Text(text) => {
                    list.serialize_element(&json!({"type": "text", "text": text}))?;
                }
                Part::Image(image) => {
                    let mut url = Map::new();
                    url.insert("url".to_owned(), image.url.as_str().into());
                    if let Some(detail) = &image.detail {
                        url.insert("detail".to_owned(), detail.as_str().into());
                    }
                    list.serialize_element(&json!({"type": "image_url", "image_url": url}))?;
                }
            }
        }
        list.end()
    }
}
