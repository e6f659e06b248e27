//! Claude Code CLI (exec-CLIs spec 5).
//!
//! It prints the events of `claude -p --output-format stream-json --verbose`.

use serde_json::Value;

use super::{Call, Cli, Errand, Needs, Range, SKILL_NAME, Version, args};
use crate::account::{Account, Outcome, ToolUse, Usage};
use crate::relay::Wire;
use crate::streams::{Dialect, End, Reader, at, count_at, failure, said, text_at};

pub(super) const CLAUDE: Cli = Cli {
    backend: "claude_code_exec",
    program: "claude",
    package: "@anthropic-ai/claude-code",
    native: "@anthropic-ai/claude-code-linux-x64/claude",
    tested: Range {
        first: Version(2, 1, 197),
        last: Version(2, 1, 197),
    },
    wire: Wire::Messages,
    vendor: None,
    dialect: Dialect {
        name: "claude",
        reader: || Box::<Claude>::default(),
    },
    needs: Needs {
        memory_mib: 300,
        disk_mib: 16,
    },
    replaces: &[],
    since: &[],
    never: &[],
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let mut words = args(&[
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--no-session-persistence",
        "--model",
        errand.model,
        "--permission-mode",
        "bypassPermissions",
        // Settings of whoever runs the worker must not lead the agent.
        "--setting-sources",
        "project",
        "--strict-mcp-config",
    ]);
    if let Some(effort) = effort(errand.effort) {
        words.extend(args(&["--effort", effort]));
    }
    if let Some(tokens) = thinking(errand) {
        words.extend(["--max-thinking-tokens".to_owned(), tokens.to_string()]);
    }
    if let Some(name) = errand.setting("claude_code_exec_profile") {
        words.extend(args(&[
            "--append-system-prompt",
            &format!("Profile: {name}"),
        ]));
    }
    Call {
        args: words,
        env: errand.env(
            &[
                ("CLAUDE_CONFIG_DIR", &format!("{}/.claude", errand.home)),
                ("ANTHROPIC_BASE_URL", &errand.url("")),
                ("ANTHROPIC_API_KEY", errand.key),
                ("DISABLE_AUTOUPDATER", "1"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                // The relay tries again; the CLI would for minutes.
                ("CLAUDE_CODE_MAX_RETRIES", "0"),
                ("API_TIMEOUT_MS", "600000"),
                // Root inside the sandbox is nobody outside.
                ("IS_SANDBOX", "1"),
            ],
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        ),
        // A slash and the skill's name puts its text into the first request.
        stdin: format!("/{SKILL_NAME} {}", errand.prompt),
        files: errand.skill_in(".claude/skills"),
    }
}

/// Most tokens of thinking where nobody says.
const THINKING: u64 = 16_384;
/// The interface takes no smaller number, but for none at all.
const THINKING_MIN: u64 = 1_024;

/// Returns the most tokens of thinking; `None` leaves it to the CLI.
fn thinking(errand: &Errand<'_>) -> Option<u64> {
    if let Some(tokens) = errand.settings.get("claude_code_exec_max_thinking_tokens") {
        return tokens.as_u64().filter(|tokens| *tokens > 0);
    }
    if errand.max_tokens == 0 {
        return Some(THINKING);
    }
    // Thoughts count as part of an answer: they must leave room for the rest of it.
    let half = u64::from(errand.max_tokens) / 2;
    match half < THINKING_MIN {
        true => Some(0),
        false => Some(half.min(THINKING)),
    }
}

/// Returns how hard the model thinks in a word that the CLI knows; `None` leaves it to the CLI.
fn effort(word: &str) -> Option<&'static str> {
    Some(match word.trim().to_lowercase().as_str() {
        "none" | "off" => return None,
        "minimal" | "low" => "low",
        "high" => "high",
        "xhigh" | "max" => "max",
        _ => "medium",
    })
}

#[derive(Default)]
struct Claude {
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
