//! Events of `claude -p --output-format stream-json --verbose`.

use serde_json::Value;

use super::{End, Reader, at, count_at, failure, said, text_at};
use crate::account::{Account, Outcome, ToolUse, Usage};

#[derive(Default)]
pub(super) struct Claude {
    tools: Tools,
    /// The class that the CLI gave to an error of the provider.
    error_class: Option<String>,
    result: Option<Value>,
}

/// Tools that were called, by the id of the call; those that came back are kept in order.
#[derive(Default)]
pub(super) struct Tools {
    called: Vec<(String, String)>,
    done: Vec<ToolUse>,
}

impl Tools {
    /// Takes a message of the assistant.
    pub(super) fn assistant(&mut self, event: &Value) {
        for block in blocks(event) {
            if text_at(block, &["type"]) == Some("tool_use") {
                let text = |key: &str| text_at(block, &[key]).unwrap_or_default().to_owned();
                self.called.push((text("id"), text("name")));
            }
        }
    }

    /// Takes a message with what tools gave back.
    pub(super) fn user(&mut self, event: &Value) {
        for block in blocks(event) {
            if text_at(block, &["type"]) != Some("tool_result") {
                continue;
            }
            let id = text_at(block, &["tool_use_id"]).unwrap_or_default();
            if let Some(at) = self.called.iter().position(|(known, _)| known == id) {
                let (_, name) = self.called.remove(at);
                let is_error = block.get("is_error").and_then(Value::as_bool);
                self.done.push(ToolUse {
                    name,
                    ok: is_error != Some(true),
                });
            }
        }
    }

    pub(super) fn done(self) -> Vec<ToolUse> {
        self.done
    }
}

fn blocks(event: &Value) -> impl Iterator<Item = &Value> {
    let content = at(event, &["message", "content"]).and_then(Value::as_array);
    content.into_iter().flatten()
}

impl Reader for Claude {
    fn event(&mut self, event: &Value) {
        match text_at(event, &["type"]) {
            Some("assistant") => {
                self.tools.assistant(event);
                if let Some(class) = text_at(event, &["error"]) {
                    self.error_class = Some(class.to_owned());
                }
            }
            Some("user") => self.tools.user(event),
            Some("result") => self.result = Some(event.clone()),
            _ => {}
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let mut account = Account::of(Outcome::Crashed);
        account.tool_calls = self.tools.done();
        let Some(result) = self.result else {
            if end.by_signal() {
                account.outcome = Outcome::Killed;
            }
            return account;
        };
        let is_error = result.get("is_error").and_then(Value::as_bool) == Some(true);
        let turns = count_at(&result, &["num_turns"]);
        let usage = usage(&result);
        account.final_text = text_at(&result, &["result"]).and_then(said);
        account.cost_usd = result.get("total_cost_usd").and_then(Value::as_f64);
        account.terminal = text_at(&result, &["subtype"]).map(str::to_owned);
        account.is_error = Some(is_error);
        account.num_turns = Some(turns);
        account.permission_denials = Some(denials(&result));
        account.structured_output = result.get("structured_output").cloned();
        account.usage = Some(usage);
        account.outcome = if is_error {
            account.errors = errors(&result);
            class(&result, self.error_class.as_deref(), &account.errors)
        } else if turns == 0 {
            Outcome::NoModelCall
        } else if usage.is_zero() && account.final_text.is_some() {
            Outcome::SuspectNoUsage
        } else {
            Outcome::Success
        };
        account
    }
}

/// Returns the number of tools that were refused.
pub(super) fn denials(result: &Value) -> u64 {
    let list = result.get("permission_denials").and_then(Value::as_array);
    list.map_or(0, |list| list.len() as u64)
}

/// Takes the tokens from the sums by model: `usage` is 0 after some ends where these are right.
fn usage(result: &Value) -> Usage {
    let models = result.get("modelUsage").and_then(Value::as_object);
    let sum = |key: &str| {
        let counts = models.into_iter().flat_map(|models| models.values());
        counts.map(|model| count_at(model, &[key])).sum()
    };
    Usage {
        input_tokens: sum("inputTokens"),
        cached_input_tokens: sum("cacheReadInputTokens"),
        cache_write_input_tokens: Some(sum("cacheCreationInputTokens")),
        output_tokens: sum("outputTokens"),
        reasoning_output_tokens: None,
    }
}

fn errors(result: &Value) -> Vec<String> {
    let listed = result.get("errors").and_then(Value::as_array);
    let listed: Vec<String> = listed
        .into_iter()
        .flatten()
        .filter_map(|error| error.as_str().map(str::to_owned))
        .collect();
    if listed.is_empty() {
        text_at(result, &["result"])
            .map(str::to_owned)
            .into_iter()
            .collect()
    } else {
        listed
    }
}

fn class(result: &Value, named: Option<&str>, errors: &[String]) -> Outcome {
    match text_at(result, &["subtype"]) {
        Some("error_max_turns") => return Outcome::MaxTurns,
        Some("error_max_budget_usd") => return Outcome::BudgetExceeded,
        Some("error_during_execution") => return Outcome::Interrupted,
        _ => {}
    }
    if text_at(result, &["stop_reason"]) == Some("refusal") {
        return Outcome::Filtered;
    }
    let words = errors
        .first()
        .map_or(Outcome::BadRequest, |e| failure::of_words(e));
    if words == Outcome::ContextOverflow {
        return words;
    }
    let status = count_at(result, &["api_error_status"]);
    let by_status = u16::try_from(status).ok().and_then(failure::of_status);
    by_status.unwrap_or(match named {
        Some("authentication_failed") => Outcome::AuthError,
        Some("rate_limit") => Outcome::RateLimited,
        Some("server_error") => Outcome::ServerError,
        Some("max_output_tokens") => Outcome::MaxOutputTokens,
        Some("invalid_request" | "model_not_found") => Outcome::BadRequest,
        _ => words,
    })
}
