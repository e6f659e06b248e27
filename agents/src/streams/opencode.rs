//! Events of `opencode run --format json`.

use serde_json::Value;

use super::{End, Reader, at, count_at, failure, said, text_at};
use crate::account::{Account, Outcome, ToolUse, Usage};

#[derive(Default)]
pub(super) struct Opencode {
    /// Text of the step that is under way.
    step: String,
    last_words: Option<String>,
    tools: Vec<ToolUse>,
    usage: Usage,
    cost: f64,
    terminal: Option<String>,
    error: Option<(Option<u16>, String)>,
}

impl Reader for Opencode {
    fn event(&mut self, event: &Value) {
        match text_at(event, &["type"]) {
            Some("step_start") => self.step.clear(),
            Some("text") => {
                self.step
                    .push_str(text_at(event, &["part", "text"]).unwrap_or_default());
                self.last_words = said(&self.step);
            }
            Some("tool_use") => {
                let exit = at(event, &["part", "state", "metadata", "exit"]);
                let failed = exit.and_then(Value::as_i64).is_some_and(|code| code != 0);
                let status = text_at(event, &["part", "state", "status"]);
                self.tools.push(ToolUse {
                    name: text_at(event, &["part", "tool"])
                        .unwrap_or_default()
                        .to_owned(),
                    ok: status == Some("completed") && !failed,
                });
            }
            Some("step_finish") => self.finish(event),
            Some("error") => {
                let status = count_at(event, &["error", "data", "statusCode"]);
                let words = text_at(event, &["error", "data", "message"])
                    .or_else(|| text_at(event, &["error", "name"]))
                    .unwrap_or_default();
                self.error = Some((u16::try_from(status).ok(), words.to_owned()));
                self.terminal = Some("error".to_owned());
            }
            _ => {}
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let this = *self;
        let mut account = Account {
            final_text: this.last_words,
            usage: Some(Usage {
                reasoning_output_tokens: Some(this.usage.reasoning_output_tokens.unwrap_or(0)),
                ..this.usage
            }),
            cost_usd: Some(this.cost),
            tool_calls: this.tools,
            ..Account::of(Outcome::Crashed)
        };
        account.outcome = match (this.error, this.terminal.as_deref()) {
            (Some((status, words)), _) => {
                let by_status = status.and_then(failure::of_status);
                let class = match failure::of_words(&words) {
                    Outcome::ContextOverflow => Outcome::ContextOverflow,
                    by_words => by_status.unwrap_or(by_words),
                };
                account.errors.push(words);
                class
            }
            (None, Some("length")) => Outcome::MaxOutputTokens,
            (None, Some("content-filter")) => Outcome::Filtered,
            // Between two steps, a step more was to come.
            (None, Some("tool-calls") | None) if end.by_signal() => Outcome::Killed,
            (None, None) => Outcome::Crashed,
            (None, Some(_)) => Outcome::Success,
        };
        account.terminal = this.terminal;
        account
    }
}

impl Opencode {
    fn finish(&mut self, event: &Value) {
        let tokens = |path: &[&str]| {
            let mut full = vec!["part", "tokens"];
            full.extend(path);
            count_at(event, &full)
        };
        self.usage.input_tokens += tokens(&["input"]);
        self.usage.cached_input_tokens += tokens(&["cache", "read"]);
        self.usage.output_tokens += tokens(&["output"]);
        *self.usage.reasoning_output_tokens.get_or_insert(0) += tokens(&["reasoning"]);
        self.cost += at(event, &["part", "cost"])
            .and_then(Value::as_f64)
            .unwrap_or(0.0);
        self.terminal = text_at(event, &["part", "reason"]).map(str::to_owned);
    }
}
