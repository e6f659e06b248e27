//! Events of `gemini -o stream-json`. It shows a command that failed as one that worked, and may
//! exit with 0 although `result` says `error`.

use serde_json::Value;

use super::{End, Reader, count_at, failure, text_at};
use crate::account::{Account, Outcome, ToolUse, Usage};

#[derive(Default)]
pub(super) struct Gemini {
    /// What the assistant said since the last tool.
    words: String,
    called: Vec<(String, String)>,
    tools: Vec<ToolUse>,
    errors: Vec<String>,
    result: Option<Value>,
}

impl Reader for Gemini {
    fn event(&mut self, event: &Value) {
        let text = |key: &str| text_at(event, &[key]).unwrap_or_default().to_owned();
        match text_at(event, &["type"]) {
            Some("message") if text("role") == "assistant" => self.words.push_str(&text("content")),
            Some("tool_use") => {
                self.words.clear();
                self.called.push((text("tool_id"), text("tool_name")));
            }
            Some("tool_result") => {
                let id = text("tool_id");
                if let Some(at) = self.called.iter().position(|(known, _)| *known == id) {
                    let (_, name) = self.called.remove(at);
                    let ok = text("status") == "success";
                    self.tools.push(ToolUse { name, ok });
                }
            }
            Some("error") => {
                let words =
                    text_at(event, &["message"]).or_else(|| text_at(event, &["error", "message"]));
                self.errors.extend(words.map(str::to_owned));
            }
            Some("result") => self.result = Some(event.clone()),
            _ => {}
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let this = *self;
        let mut account = Account {
            tool_calls: this.tools,
            errors: this.errors,
            ..Account::of(Outcome::Crashed)
        };
        let Some(result) = this.result else {
            if end.by_signal() {
                account.outcome = Outcome::Killed;
            }
            return account;
        };
        let stats = |key: &str| count_at(&result, &["stats", key]);
        account.final_text = Some(this.words);
        account.usage = Some(Usage {
            input_tokens: stats("input_tokens"),
            cached_input_tokens: stats("cached"),
            cache_write_input_tokens: None,
            output_tokens: stats("output_tokens"),
            reasoning_output_tokens: None,
        });
        account.terminal = text_at(&result, &["status"]).map(str::to_owned);
        account.outcome = if account.terminal.as_deref() == Some("success") {
            Outcome::Success
        } else {
            let words = text_at(&result, &["error", "message"]).unwrap_or_default();
            let class = failure::of_words(words);
            account.errors.push(words.to_owned());
            class
        };
        account
    }
}
