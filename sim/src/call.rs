//! A call and the reply to it.

use crate::stage::Stage;

/// A call, as far as a reply depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// All system and developer text; for an agent the skill document.
    pub sys: &'a str,
    /// All user text, each message followed by a newline; for an agent the task.
    pub user: &'a str,
    /// Name of the model that is asked.
    pub model: &'a str,
    /// Number of messages, the system text included.
    pub n_messages: usize,
    /// The stage, if the caller says it; else the texts tell.
    pub stage: Option<Stage>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// Names the work (chapter 6).
    pub key: String,
    /// The stage it was taken for.
    pub stage: Stage,
}
