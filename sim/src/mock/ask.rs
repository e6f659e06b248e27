//! What a request asks, whatever the interface.

use std::collections::BTreeMap;

/// The interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Responses,
    Messages,
    Chat,
    Gemini,
}

impl Api {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }

    /// Finds the interface by the end of a path, so that any prefix works.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            Some(Self::Gemini)
        } else {
            None
        }
    }
}

/// What a request asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    pub(super) model: String,
    pub(super) system: String,
    /// Everything that is said, system text included.
    pub(super) text: String,
    pub(super) last_user: String,
    pub(super) last_tool: String,
    pub(super) tools: Vec<String>,
    /// Rounds of tool calls so far.
    pub(super) turn: usize,
    pub(super) stream: bool,
    /// Whether a stream ends with the tokens, where the interface leaves that to the client.
    pub(super) stream_usage: bool,
    pub(super) headers: BTreeMap<String, String>,
}

impl Ask {
    pub(super) fn say(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(super) fn system(&mut self, text: &str) {
        if !self.system.is_empty() {
            self.system.push('\n');
        }
        self.system.push_str(text);
        self.say(text);
    }

    pub(super) fn user(&mut self, text: &str) {
        text.clone_into(&mut self.last_user);
        self.say(text);
    }

    pub(super) fn tool_output(&mut self, text: &str) {
        text.clone_into(&mut self.last_tool);
        self.say(text);
    }
}
