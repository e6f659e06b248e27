//! The body of a request to the Messages API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::generation::{Generation, Thinking};
use crate::contract::{
    ChatRequest, Content, Image, Message, Part, Role, Tool, ToolCall, ToolChoice,
};
use crate::picture::Picture;

/// System prompts from this length on are worth keeping in the provider's cache, in bytes: about a
/// thousand tokens, the least that any model keeps.
const CACHED_BYTES_MIN: usize = 4 << 10;

/// What a client adds to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Whether models think where the effort asks for it.
    pub(super) thinks: bool,
    /// Whether the answer comes in pieces.
    pub(super) streams: bool,
    /// Whether the provider is asked to keep what comes again.
    pub(super) caches: bool,
}

/// A request as it is written.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    output_config: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Keep>,
    },
    Image {
        source: Source<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Value,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Keep>,
    },
}

/// Asks the provider to keep everything up to here for some minutes.
#[derive(Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
struct Keep {}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

impl<'a> Body<'a> {
    /// Writes `request`.
    pub(super) fn new(request: &'a ChatRequest, temperature: Option<f64>, style: Style) -> Self {
        let generation = Generation::of(&request.model);
        let mut messages = turns(&request.messages);
        let mut system = system(&request.messages);
        if style.caches {
            mark(&mut system, &mut messages);
        }
        let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
        let choice = request.tool_choice.as_ref().filter(|_| !tools.is_empty());
        let mut tool_choice = choice.map(choose);
        let mut output_config = Map::new();
        if let Some(named) = &request.schema {
            if generation.binds_schemas() {
                let format = json!({"type": "json_schema", "schema": named.schema});
                output_config.insert("format".to_owned(), format);
            } else if tools.is_empty() {
                // An older model is bound by a tool that it must call.
                tools.push(json!({"name": named.name, "input_schema": named.schema}));
                tool_choice = Some(json!({"type": "tool", "name": named.name}));
            }
        }
        let effort = request.reasoning_effort.as_deref().unwrap_or("");
        let reasoning = generation.reasoning(effort, request.max_tokens);
        if let Some(effort) = reasoning.effort {
            output_config.insert("effort".to_owned(), effort.into());
        }
        let is_forced = tool_choice
            .as_ref()
            .is_some_and(|choice| matches!(choice["type"].as_str(), Some("any" | "tool")));
        // The interface refuses thinking together with either.
        let may_think = style.thinks && temperature.is_none() && !is_forced;
        let thinking = reasoning.thinking.filter(|_| may_think);
        let thinking = match thinking {
            Some(Thinking::Adaptive) => Some(json!({"type": "adaptive"})),
            // A budget wants the thoughts before a tool call back, which nobody has kept.
            Some(Thinking::Budget(_)) if waits_for_tools(&request.messages) => None,
            Some(Thinking::Budget(tokens)) => {
                Some(json!({"type": "enabled", "budget_tokens": tokens}))
            }
            None => None,
        };
        Self {
            model: &request.model,
            max_tokens: request.max_tokens,
            system,
            messages,
            temperature,
            thinking,
            output_config,
            tools,
            tool_choice,
            stream: style.streams,
        }
    }
}

/// Asks to keep the system prompt, which a stage sends again and again, and of a conversation that
/// goes on what has been said.
fn mark(system: &mut [Block<'_>], messages: &mut [Turn<'_>]) {
    let bytes: usize = system.iter().map(Block::len).sum();
    if bytes >= CACHED_BYTES_MIN {
        keep(system.last_mut());
    }
    let said: usize = messages
        .iter()
        .flat_map(|t| &t.content)
        .map(Block::len)
        .sum();
    let goes_on = messages.iter().any(|turn| turn.role == "assistant");
    if goes_on && bytes + said >= CACHED_BYTES_MIN {
        keep(messages.last_mut().and_then(|turn| turn.content.last_mut()));
    }
}

fn keep(block: Option<&mut Block<'_>>) {
    if let Some(Block::Text { cache_control, .. } | Block::ToolResult { cache_control, .. }) = block
    {
        *cache_control = Some(Keep {});
    }
}

impl<'a> Block<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        // The interface refuses a text without a word.
        (!text.trim().is_empty()).then_some(Self::Text {
            text,
            cache_control: None,
        })
    }

    fn image(image: &'a Image) -> Self {
        let source = match Picture::of(&image.url) {
            Picture::Inline { media_type, base64 } => Source::Base64 {
                media_type,
                data: base64,
            },
            Picture::Remote(url) => Source::Url { url },
        };
        Self::Image { source }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text { text, .. } => text.len(),
            Self::ToolResult { content, .. } => content.len(),
            Self::Image { .. } | Self::ToolUse { .. } => 0,
        }
    }
}

fn system(messages: &[Message]) -> Vec<Block<'_>> {
    messages
        .iter()
        .filter(|message| message.role == Role::System)
        .filter_map(|message| Block::text(message.content.as_text()))
        .collect()
}

/// Puts what follows each other in the same role into one turn, as the interface wants it of the
/// answers to several tool calls.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        let role = match message.role {
            Role::System => continue,
            Role::Assistant => "assistant",
            Role::User | Role::Developer | Role::Tool => "user",
        };
        let blocks = blocks(message);
        match turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.content.extend(blocks),
            None if blocks.is_empty() => {}
            None => turns.push(Turn {
                role,
                content: blocks,
            }),
        }
    }
    turns
}

fn blocks(message: &Message) -> Vec<Block<'_>> {
    if message.role == Role::Tool {
        return vec![Block::ToolResult {
            tool_use_id: message.tool_call_id.as_deref().unwrap_or_default(),
            content: message.content.as_text(),
            cache_control: None,
        }];
    }
    let said: Vec<Option<Block<'_>>> = match &message.content {
        Content::Text(text) => vec![Block::text(text)],
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => Block::text(text),
                Part::Image(image) => Some(Block::image(image)),
            })
            .collect(),
    };
    let calls = message.tool_calls.iter().map(call);
    said.into_iter().flatten().chain(calls).collect()
}

fn call(call: &ToolCall) -> Block<'_> {
    // Arguments that are no object are shown to the model as it wrote them.
    let input = serde_json::from_str(&call.arguments)
        .ok()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({"arguments": call.arguments}));
    Block::ToolUse {
        id: &call.id,
        name: &call.name,
        input,
    }
}

/// Returns whether the last thing that was said is a tool's answer.
fn waits_for_tools(messages: &[Message]) -> bool {
    messages
        .last()
        .is_some_and(|message| message.role == Role::Tool)
}

fn tool(tool: &Tool) -> Value {
    match tool {
        Tool::Function {
            name,
            description,
            parameters,
        } => {
            let mut written = Map::new();
            written.insert("name".to_owned(), name.as_str().into());
            if !description.is_empty() {
                written.insert("description".to_owned(), description.as_str().into());
            }
            written.insert("input_schema".to_owned(), parameters.clone());
            written.into()
        }
        Tool::Provided(value) => value.clone(),
    }
}

fn choose(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Required => json!({"type": "any"}),
        ToolChoice::Function(name) => json!({"type": "tool", "name": name}),
    }
}

#[cfg(test)]
mod tests;
