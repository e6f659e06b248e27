//! What a chat backend is: one exchange, no retries.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skillopt_core::job::{Schema, Usage};

use crate::error::CallError;
use crate::gate::Gate;

/// Who speaks a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions in the midst of a conversation; where a provider has no such role, the user's.
    Developer,
    /// The task.
    User,
    /// An earlier answer.
    Assistant,
    /// What a tool that the assistant called gave back.
    Tool,
}

impl Role {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
    /// Tools that an assistant called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// Makes a message of text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            content: Content::Text(text.into()),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// Makes a tool's answer to the call `id`.
    #[must_use]
    pub fn tool(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(id.into()),
            ..Self::text(Role::Tool, text)
        }
    }

    /// Returns whether there is nothing but one text.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.content, Content::Text(_))
            && self.tool_calls.is_empty()
            && self.tool_call_id.is_none()
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One text.
    Text(String),
    /// Texts and images, in order.
    Parts(Vec<Part>),
}

impl Content {
    /// Returns the texts alone, joined by a newline.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    Part::Image(_) => None,
                });
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// Returns the images.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        let parts = match self {
            Self::Text(_) => &[][..],
            Self::Parts(parts) => parts,
        };
        parts.iter().filter_map(|part| match part {
            Part::Image(image) => Some(image),
            Part::Text(_) => None,
        })
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A part of what a message says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A text.
    Text(String),
    /// An image.
    Image(Image),
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `data:image/png;base64,…`, or an `https` address that the provider fetches.
    pub url: String,
    /// How closely it is looked at (`low`, `high`, `auto`), where a provider lets one say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call, for its answer.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments as JSON text, as the model wrote them: not always valid.
    pub arguments: String,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// A function of ours.
    Function {
        /// Its name.
        name: String,
        /// What it does; may be empty.
        description: String,
        /// JSON schema of its arguments.
        parameters: Value,
    },
    /// A tool of the provider's own, as it is written on the wire.
    Provided(Value),
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It decides.
    Auto,
    /// It may not.
    None,
    /// It must call one.
    Required,
    /// It must call this one.
    Function(String),
}

/// One exchange to make.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// Model name as the provider knows it.
    pub model: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Whether it must; counts only with tools. `None` leaves it to the provider.
    pub tool_choice: Option<ToolChoice>,
    /// Upper limit of the answer, in tokens.
    pub max_tokens: u32,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Reasoning effort; `None` leaves it to the provider.
    pub reasoning_effort: Option<String>,
    /// JSON schema that binds the answer.
    pub schema: Option<Schema>,
    /// Limit of the whole exchange, from connect to the last byte.
    pub timeout: Duration,
    /// Stage label (`rollout`, `analyst`, …), for accounting and the simulated model.
    pub stage: String,
}

impl ChatRequest {
    /// Makes a request with nothing but a conversation; what else is wanted is set afterwards.
    #[must_use]
    pub fn new(
        model: impl Into<String>,
        messages: Vec<Message>,
        max_tokens: u32,
        timeout: Duration,
    ) -> Self {
        Self {
            model: model.into(),
            messages,
            tools: Vec::new(),
            tool_choice: None,
            max_tokens,
            temperature: None,
            reasoning_effort: None,
            schema: None,
            timeout,
            stage: String::new(),
        }
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done, or its server never says why answers end.
    Stop,
    /// The token limit cut it.
    Length,
    /// It waits for tools.
    ToolCalls,
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatReply {
    /// The text; may be empty.
    pub text: String,
    /// The tools it calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of this exchange (`calls` is 1).
    pub usage: Usage,
}

impl ChatReply {
    /// Makes a finished answer of text.
    #[must_use]
    pub fn text(text: impl Into<String>, usage: Usage) -> Self {
        Self {
            text: text.into(),
            tool_calls: Vec::new(),
            finish: Finish::Stop,
            usage,
        }
    }
}

/// Where an agent does its task, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// The trained skill: the text of its `SKILL.md`.
    pub skill: String,
    /// The skill's other text files, by their path in its folder.
    pub skill_files: BTreeMap<String, String>,
    /// Files that the agent finds, by their path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Patterns of the files that are wanted back, e.g. `solution.py`.
    pub collect: Vec<String>,
}

/// What an agent did, beside what it said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Why the agent failed by itself; `None` if it did not.
    pub failed: Option<String>,
    /// Files that were wanted back.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What is known of the run: version, whether the skill reached the model, …
    pub facts: Map<String, Value>,
    /// What was said and done, in order, as entries of a trajectory.
    pub trace: Vec<Value>,
}

/// A chat model: makes one exchange, without retries.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Makes one exchange.
    ///
    /// # Errors
    /// Every way an exchange can fail to give an answer; see [`CallError::disposition`].
    ///
    /// # Cancel safety
    /// Dropping the future abandons the exchange; the provider may still have been paid.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError>;

    /// Does a task as an agent: the messages say what, `workspace` where. Its reply's usage covers all
    /// the exchanges that the agent made, each of which asks `gate` first.
    ///
    /// # Errors
    /// Nothing can be said of the agent; its own failures are told in [`Worked::failed`]. A model
    /// that only talks is [`CallError::Misconfigured`].
    ///
    /// # Cancel safety
    /// Dropping the future ends everything that was started.
    async fn work(
        &self,
        request: &ChatRequest,
        workspace: &Workspace,
        gate: &Arc<dyn Gate>,
    ) -> Result<(ChatReply, Worked), CallError> {
        let _: (&Workspace, &Arc<dyn Gate>) = (workspace, gate);
        Err(CallError::Misconfigured {
            endpoint: format!("model `{}`", request.model),
            status: 0,
            detail: "it only talks; choose an agent as the target".to_owned(),
        })
    }
}
