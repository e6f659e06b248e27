//! The body of a `generateContent` request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::reasoning::thinking;
use super::signature;
use crate::contract::{
    ChatRequest, Content, Image, Message, Part, Role, Tool, ToolCall, ToolChoice,
};
use crate::picture::Picture;

/// A request as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Turn<'a>>,
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    generation_config: Settings<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settings<'a> {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Value>,
}

#[derive(Serialize)]
struct Turn<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    role: &'static str,
    parts: Vec<Piece<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Piece<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Inline<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline<'a> {
    mime_type: &'a str,
    data: &'a str,
}

impl<'a> Body<'a> {
    /// Writes `request`.
    pub(super) fn new(request: &'a ChatRequest, temperature: Option<f64>, thinks: bool) -> Self {
        let is_system = |message: &&Message| message.role == Role::System;
        let system = request.messages.iter().filter(is_system);
        let parts: Vec<Piece<'_>> = system
            .filter_map(|message| Piece::text(message.content.as_text()))
            .collect();
        let has_tools = !request.tools.is_empty();
        let effort = request.reasoning_effort.as_deref().unwrap_or("");
        let schema = request.schema.as_ref();
        Self {
            system_instruction: (!parts.is_empty()).then_some(Turn { role: "", parts }),
            contents: turns(&request.messages),
            tools: tools(&request.tools),
            tool_config: request
                .tool_choice
                .as_ref()
                .filter(|_| has_tools)
                .map(choose),
            generation_config: Settings {
                max_output_tokens: request.max_tokens,
                temperature,
                response_mime_type: schema.map(|_| "application/json"),
                response_json_schema: schema.map(|named| &named.schema),
                thinking_config: thinking(&request.model, effort).filter(|_| thinks),
            },
        }
    }
}

impl<'a> Piece<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty()).then(|| Self {
            text: Some(text),
            ..Self::default()
        })
    }

    fn image(image: &'a Image) -> Self {
        match Picture::of(&image.url) {
            Picture::Inline { media_type, base64 } => Self {
                inline_data: Some(Inline {
                    mime_type: media_type,
                    data: base64,
                }),
                ..Self::default()
            },
            Picture::Remote(url) => Self {
                file_data: Some(json!({"fileUri": url})),
                ..Self::default()
            },
        }
    }

    fn call(call: &'a ToolCall) -> Self {
        let (id, signature) = signature::split(&call.id);
        // Arguments that are no object are shown to the model as it wrote them.
        let args = serde_json::from_str(&call.arguments)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({"arguments": call.arguments}));
        let mut written = named(id, &call.name);
        written.insert("args".to_owned(), args);
        Self {
            function_call: Some(written.into()),
            thought_signature: signature,
            ..Self::default()
        }
    }

    /// Writes a tool's answer, which names the tool: it is looked up in what was said before.
    fn answer(message: &'a Message, before: &'a [Message]) -> Self {
        let joined = message.tool_call_id.as_deref().unwrap_or_default();
        let mut calls = before.iter().rev().flat_map(|said| &said.tool_calls);
        let name = calls.find(|call| call.id == joined).map_or("", |c| &c.name);
        let (id, _) = signature::split(joined);
        let mut written = named(id, name);
        let output = json!({"output": message.content.as_text()});
        written.insert("response".to_owned(), output);
        Self {
            function_response: Some(written.into()),
            ..Self::default()
        }
    }
}

fn named(id: Option<&str>, name: &str) -> Map<String, Value> {
    let mut written = Map::new();
    if let Some(id) = id {
        written.insert("id".to_owned(), id.into());
    }
    written.insert("name".to_owned(), name.into());
    written
}

/// Puts what follows each other in the same role into one turn: the answers to several calls
/// belong together.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let role = match message.role {
            Role::System => continue,
            Role::Assistant => "model",
            Role::User | Role::Developer | Role::Tool => "user",
        };
        let parts = if message.role == Role::Tool {
            vec![Piece::answer(message, &messages[..at])]
        } else {
            pieces(message)
        };
        match turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.parts.extend(parts),
            None if parts.is_empty() => {}
            None => turns.push(Turn { role, parts }),
        }
    }
    turns
}

fn pieces(message: &Message) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = match &message.content {
        Content::Text(text) => Piece::text(text).into_iter().collect(),
        Content::Parts(parts) => parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Piece::text(text),
                Part::Image(image) => Some(Piece::image(image)),
            })
            .collect(),
    };
    pieces.extend(message.tool_calls.iter().map(Piece::call));
    pieces
}

/// Functions share one entry; a tool of the provider's own is an entry as it is.
fn tools(tools: &[Tool]) -> Vec<Value> {
    let mut functions = Vec::new();
    let mut entries = Vec::new();
    for tool in tools {
        match tool {
            Tool::Function {
                name,
                description,
                parameters,
            } => {
                let mut function = named(None, name);
                if !description.is_empty() {
                    function.insert("description".to_owned(), description.as_str().into());
                }
                function.insert("parametersJsonSchema".to_owned(), parameters.clone());
                functions.push(Value::from(function));
            }
            Tool::Provided(value) => entries.push(value.clone()),
        }
    }
    if !functions.is_empty() {
        entries.insert(0, json!({"functionDeclarations": functions}));
    }
    entries
}

fn choose(choice: &ToolChoice) -> Value {
    let calling = match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Function(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    };
    json!({"functionCallingConfig": calling})
}

#[cfg(test)]
mod tests;
