//! What a script says: rules, replies, faults (chapter 4).
//!
//! ```json
//! {
//!   "rules": [
//!     {"when": {"turn": 0, "text": "RULE-7"}, "reply": {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}},
//!     {"when": {"api": "messages"}, "reply": {"fault": {"kind": "status", "status": 529, "times": 1}, "text": "well"}}
//!   ],
//!   "default": {"text": "<answer>1066</answer>"}
//! }
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the script of the mock server is wrong: {0}")]
pub struct ScriptError(#[from] serde_json::Error);

/// A script: the first rule that fits answers, else `default`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The rules, in order.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// What is said where no rule fits.
    #[serde(default)]
    pub default: Reply,
    /// A key that every request must bring; others get 401.
    #[serde(default)]
    pub key: Option<String>,
    /// Wait before every answer, in milliseconds.
    #[serde(default)]
    pub latency_ms: u64,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// It is no JSON, or says something unknown; the message names the place.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Ok(serde_json::from_str(text)?)
    }
}

/// A rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What the request must be like; nothing fits everything.
    #[serde(default)]
    pub when: When,
    /// What is said; further ones for the second time that the rule fits, the third, …: the last
    /// one stays.
    #[serde(default)]
    pub reply: Option<Reply>,
    /// Replies in turn; instead of `reply`.
    #[serde(default)]
    pub sequence: Vec<Reply>,
}

/// Conditions; all that are given must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// `responses`, `messages`, `chat` or `gemini`.
    #[serde(default)]
    pub api: Option<String>,
    /// A part of the model's name.
    #[serde(default)]
    pub model: Option<String>,
    /// A part of anything said in the request, system text included.
    #[serde(default)]
    pub text: Option<String>,
    /// A part that must not be said anywhere.
    #[serde(default)]
    pub without: Option<String>,
    /// A part of the last text of the user.
    #[serde(default)]
    pub last_user: Option<String>,
    /// A part of the system text.
    #[serde(default)]
    pub system: Option<String>,
    /// A tool that must be offered.
    #[serde(default)]
    pub tool: Option<String>,
    /// Whether any tool is offered.
    #[serde(default)]
    pub tools: Option<bool>,
    /// Tool rounds that the conversation has had.
    #[serde(default)]
    pub turn: Option<usize>,
    /// Parts of headers, by lower-case name.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// What is said. In texts `{model}`, `{turn}`, `{last_user}`, `{last_tool}` and `{request}` stand
/// for what they name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The text.
    #[serde(default)]
    pub text: String,
    /// The text is said so many times over.
    #[serde(default)]
    pub repeat: Option<usize>,
    /// Reasoning before it.
    #[serde(default)]
    pub reasoning: String,
    /// Tools that are called.
    #[serde(default)]
    pub tool_calls: Vec<Tool>,
    /// `stop`, `tool_calls`, `length`, `content_filter` or `refusal`; by default what fits.
    #[serde(default)]
    pub finish: Option<String>,
    /// Tokens; by default a quarter of the characters.
    #[serde(default)]
    pub usage: Option<Tokens>,
    /// A body that is sent as it is, instead.
    #[serde(default)]
    pub json: Option<Value>,
    /// Wait before the answer, in milliseconds.
    #[serde(default)]
    pub latency_ms: u64,
    /// Characters of one piece of a stream.
    #[serde(default)]
    pub chunk_chars: Option<usize>,
    /// Wait between the pieces of a stream, in milliseconds.
    #[serde(default)]
    pub chunk_delay_ms: u64,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What goes wrong.
    #[serde(default)]
    pub fault: Option<Fault>,
}

/// A tool that is called.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// An object, or a text that is sent as it is.
    #[serde(default)]
    pub arguments: Value,
    /// Names the call; made up if missing.
    #[serde(default)]
    pub id: Option<String>,
    /// A custom tool of the Responses interface, whose input is a text.
    #[serde(default)]
    pub custom: bool,
}

/// Tokens of an answer. `input` is what was sent in all, the cached ones included.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// Sent.
    #[serde(default)]
    pub input: u64,
    /// Received.
    #[serde(default)]
    pub output: u64,
    /// Of those sent, read from a cache.
    #[serde(default)]
    pub cached: u64,
    /// Of those sent, written to a cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Of those received, reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

/// What goes wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Which.
    pub kind: FaultKind,
    /// So many times, then all is well; without it, always.
    #[serde(default)]
    pub times: Option<u64>,
    /// Status of `status`.
    #[serde(default)]
    pub status: Option<u16>,
    /// Code of the error in the body, e.g. `context_length_exceeded`.
    #[serde(default)]
    pub code: Option<String>,
    /// Message of the error in the body.
    #[serde(default)]
    pub message: Option<String>,
    /// Whole body of `status`, or the bytes of `malformed`.
    #[serde(default)]
    pub body: Option<String>,
    /// How long `hang` and `hang_mid` last at most, in seconds.
    #[serde(default)]
    pub seconds: Option<u64>,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// An error with a status.
    Status,
    /// The connection is closed before any byte.
    Close,
    /// Nothing is ever answered.
    Hang,
    /// Some events, then silence.
    HangMid,
    /// Some events, then the connection breaks.
    Drop,
    /// Some events, then bytes that are none, and a clean end.
    Malformed,
    /// All events but those that end the answer.
    NoTerminal,
    /// An error in the midst of the stream.
    ErrorEvent,
    /// Success without a body.
    Empty,
    /// Success with a web page.
    Html,
}
