//! A conversation as one text, for programs that take no other.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::contract::{ChatRequest, Content, Message, Part, Role, Tool, ToolChoice};
use crate::picture::Picture;

const HISTORY: &str = "The conversation so far:";
const TOOLS: &str = "Tools that you may ask for, each with the JSON schema of its arguments:";
const TOOLS_RULE: &str = "You cannot run these tools yourself. Ask for one by naming it in \
    `tool_calls`, with its arguments as one string of JSON.";
const MUST_CALL: &str = "You must ask for at least one tool.";
const MUST_CALL_ONE: &str = "You must ask for the tool `";
const MUST_NOT_CALL: &str = "Do not ask for any tool.";
const ASKED: &str = "It asked for these tools:";
const ANSWER: &str = "Answer the latest request in this conversation.";
const ANSWER_JSON: &str = "Answer the latest request in this conversation with one JSON document \
    of the given schema, and with nothing else.";
const ANSWER_JSON_TOOLS: &str = "What you say goes into `content`, which may be empty; the tools \
    that you ask for go into `tool_calls`, which is empty if you need none.";

/// Writes conversations down.
pub(crate) struct Prompt<'a> {
    pub(crate) request: &'a ChatRequest,
    /// Whether what the system says comes first; else it reaches the model another way.
    pub(crate) with_system: bool,
}

/// Returns what the system says, its parts with an empty line between them.
pub(crate) fn system(messages: &[Message]) -> String {
    let said = messages
        .iter()
        .filter(|message| message.role == Role::System)
        .map(|message| message.content.as_text().trim().to_owned())
        .filter(|text| !text.is_empty());
    said.collect::<Vec<_>>().join("\n\n")
}

/// Returns the images of a conversation in order.
pub(crate) fn images(messages: &[Message]) -> impl Iterator<Item = Picture<'_>> {
    let images = messages.iter().flat_map(|m| m.content.images());
    images.map(|image| Picture::of(&image.url))
}

impl Prompt<'_> {
    /// Writes it down.
    pub(crate) fn text(&self) -> String {
        let request = self.request;
        let mut parts = Vec::new();
        if self.with_system {
            parts.push(system(&request.messages));
        }
        let has_tools = !request.tools.is_empty();
        if has_tools {
            parts.push(format!("{TOOLS}\n{}", pretty(&tools(&request.tools))));
            parts.push(TOOLS_RULE.to_owned());
            parts.extend(request.tool_choice.as_ref().and_then(choice));
        }
        parts.push(history(&request.messages));
        if has_tools {
            parts.push(ANSWER_JSON.to_owned());
            parts.push(ANSWER_JSON_TOOLS.to_owned());
        } else if request.schema.is_some() {
            parts.push(ANSWER_JSON.to_owned());
        } else {
            parts.push(ANSWER.to_owned());
        }
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }
}

fn choice(choice: &ToolChoice) -> Option<String> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(MUST_NOT_CALL.to_owned()),
        ToolChoice::Required => Some(MUST_CALL.to_owned()),
        ToolChoice::Function(name) => Some(format!("{MUST_CALL_ONE}{name}`.")),
    }
}

fn tools(tools: &[Tool]) -> Value {
    let described = tools.iter().map(|tool| match tool {
        Tool::Function {
            name,
            description,
            parameters,
        } => json!({"name": name, "description": description, "parameters": parameters}),
        Tool::Provided(value) => value.clone(),
    });
    described.collect()
}

fn history(messages: &[Message]) -> String {
    let mut text = HISTORY.to_owned();
    let mut image = 0;
    for message in messages.iter().filter(|m| m.role != Role::System) {
        let who = match message.role {
            Role::System | Role::User => "User".to_owned(),
            Role::Developer => "Developer".to_owned(),
            Role::Assistant => "Assistant".to_owned(),
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                format!("Tool result (tool_call_id={id})")
            }
        };
        let said = said(&message.content, &mut image);
        let said = said.trim().replace('\n', "\n  ");
        // Writing to a text cannot fail.
        let _ = match said.as_str() {
            "" => write!(text, "\n- {who}:"),
            said => write!(text, "\n- {who}: {said}"),
        };
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter();
            let calls = calls.map(|c| json!({"name": c.name, "arguments": c.arguments}));
            let _ = write!(text, "\n  {ASKED}\n{}", pretty(&calls.collect()));
        }
    }
    text
}

fn said(content: &Content, image: &mut u32) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Image(_) => {
                    *image += 1;
                    format!("[Attached image {image}]")
                }
            })
            .collect(),
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

#[cfg(test)]
mod tests;
