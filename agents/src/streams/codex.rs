//! Events of `codex exec --json`.

use serde_json::Value;

use super::{End, Reader, count_at, failure, said, text_at};
use crate::account::{Account, Outcome, ToolUse, Usage};

#[derive(Default)]
pub(super) struct Codex {
    last_words: Option<String>,
    tools: Vec<ToolUse>,
    turn: Option<Turn>,
}

enum Turn {
    Completed(Usage),
    Failed(String),
}

impl Reader for Codex {
    fn event(&mut self, event: &Value) {
        match text_at(event, &["type"]) {
            Some("item.completed") => self.item(event),
            Some("turn.completed") => {
                let usage = |key: &str| count_at(event, &["usage", key]);
                self.turn = Some(Turn::Completed(Usage {
                    input_tokens: usage("input_tokens"),
                    cached_input_tokens: usage("cached_input_tokens"),
                    cache_write_input_tokens: Some(usage("cache_write_input_tokens")),
                    output_tokens: usage("output_tokens"),
                    reasoning_output_tokens: Some(usage("reasoning_output_tokens")),
                }));
            }
            Some("turn.failed") => {
                let message = text_at(event, &["error", "message"]).unwrap_or_default();
                self.turn = Some(Turn::Failed(message.to_owned()));
            }
            // `error` is also how a retry is told: only a turn's end decides.
            _ => {}
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let this = *self;
        let mut account = Account {
            final_text: this.last_words,
            tool_calls: this.tools,
            ..Account::of(Outcome::Crashed)
        };
        match this.turn {
            Some(Turn::Completed(usage)) => {
                account.outcome = Outcome::Success;
                account.usage = Some(usage);
                account.terminal = Some("turn.completed".to_owned());
            }
            Some(Turn::Failed(message)) => {
                account.outcome = failure::of_words(&message);
                account.errors.push(message);
                account.terminal = Some("turn.failed".to_owned());
            }
            None if end.by_signal() => account.outcome = Outcome::Killed,
            None => {}
        }
        account
    }
}

impl Codex {
    fn item(&mut self, event: &Value) {
        let kind = text_at(event, &["item", "type"]);
        match kind {
            Some("agent_message") => {
                let text = text_at(event, &["item", "text"]).unwrap_or_default();
                self.last_words = said(text);
            }
            Some("command_execution" | "file_change" | "mcp_tool_call" | "web_search") => {
                self.tools.push(ToolUse {
                    name: kind.unwrap_or_default().to_owned(),
                    ok: text_at(event, &["item", "status"]) == Some("completed"),
                });
            }
            // An item `error` is a warning, e.g. of a model without metadata.
            _ => {}
        }
    }
}
