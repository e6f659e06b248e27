//! What a run of an agent came to, whatever CLI it was.

use serde::Serialize;
use serde_json::Value;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent says that it is done. Its answer may still be wrong or empty.
    Success,
    /// The provider rejected the credential, or there was none.
    AuthError,
    /// The account has no money or quota left.
    QuotaExceeded,
    /// The provider asked to slow down, until the CLI gave up.
    RateLimited,
    /// The provider failed, or could not be reached.
    ServerError,
    /// The provider refused the request as such: model, parameter, address.
    BadRequest,
    /// The conversation no longer fits into the model.
    ContextOverflow,
    /// An answer was cut by the limit of tokens.
    MaxOutputTokens,
    /// The provider or the model withheld the answer.
    Filtered,
    /// The agent used all the turns that it had.
    MaxTurns,
    /// The agent used all the money that its CLI was given.
    BudgetExceeded,
    /// It was interrupted in the midst of something.
    Interrupted,
    /// It was killed, or we told it to go: nothing that it printed counts.
    Killed,
    /// It ended well without having asked the model anything.
    NoModelCall,
    /// It has an answer, but no tokens were counted: the stream from the provider may have been cut.
    SuspectNoUsage,
    /// It ended without saying how.
    Crashed,
}

impl Outcome {
    /// Returns whether the agent's answer may be scored: whatever else went wrong was not its doing.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Success | Self::MaxOutputTokens | Self::MaxTurns)
    }
}

/// Tokens as the CLI itself counts them: whether `input_tokens` contains the cached ones differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens sent that the provider had in its cache.
    pub cached_input_tokens: u64,
    /// Tokens that the provider put into its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_input_tokens: Option<u64>,
    /// Tokens received.
    pub output_tokens: u64,
    /// Those of them that were hidden reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_output_tokens: Option<u64>,
}

impl Usage {
    /// Returns whether nothing was counted.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.input_tokens == 0 && self.cached_input_tokens == 0 && self.output_tokens == 0
    }
}

/// A tool that ran to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolUse {
    /// The tool, as the CLI calls it.
    pub name: String,
    /// Whether it worked, as far as the CLI shows.
    pub ok: bool,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    /// How it ended.
    pub outcome: Outcome,
    /// The agent's last words; `None` if there were none.
    pub final_text: Option<String>,
    /// Tokens; `None` if the CLI does not tell.
    pub usage: Option<Usage>,
    /// What the CLI believes that it cost. Not to be billed on: CLIs make prices up.
    pub cost_usd: Option<f64>,
    /// The tools that ran, in order.
    pub tool_calls: Vec<ToolUse>,
    /// What went wrong, in the CLI's words.
    pub errors: Vec<String>,
    /// The word of the event that decided.
    pub terminal: Option<String>,
    /// Whether the CLI says that it failed, where it says so apart from the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Exchanges with the model, where the CLI counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u64>,
    /// Tools that were not allowed, where the CLI counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_denials: Option<u64>,
    /// An answer bound to a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<Value>,
    /// Lines that were no events.
    #[serde(skip)]
    pub unread_lines: u64,
    /// What was said and done, of a CLI whose exchanges with its model nobody sees.
    #[serde(skip)]
    pub trace: Vec<Value>,
}

impl Account {
    /// An account of which nothing is known but how it ended.
    #[must_use]
    pub const fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            final_text: None,
            usage: None,
            cost_usd: None,
            tool_calls: Vec::new(),
            errors: Vec::new(),
            terminal: None,
            is_error: None,
            num_turns: None,
            permission_denials: None,
            structured_output: None,
            unread_lines: 0,
            trace: Vec::new(),
        }
    }
}
