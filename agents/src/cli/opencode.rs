//! opencode (exec-CLIs spec 6.1).
//!
//! It prints the events of `opencode run --format json`.

use serde_json::{Value, json};

use super::{Call, Cli, Errand, File, Needs, Range, Version, args, env, with_skill};
use crate::account::{Account, Outcome, ToolUse, Usage};
use crate::relay::Wire;
use crate::streams::{Dialect, End, Reader, at, count_at, failure, said, text_at};

pub(super) const OPENCODE: Cli = Cli {
    backend: "opencode_exec",
    program: "opencode",
    package: "opencode-ai",
    native: "opencode-linux-x64/bin/opencode",
    tested: Range {
        first: Version(1, 18, 33),
        last: Version(1, 18, 33),
    },
    wire: Wire::Chat,
    vendor: None,
    dialect: Dialect {
        name: "opencode",
        reader: || Box::<Opencode>::default(),
    },
    needs: Needs {
        memory_mib: 630,
        disk_mib: 64,
    },
    replaces: &[],
    since: &[],
    never: &[],
    call,
};

/// Most tokens of one answer where nobody says.
const ANSWER_TOKENS: u32 = 16_384;

fn call(errand: &Errand<'_>) -> Call {
    let model = format!("relay/{}", errand.model);
    let limit = match errand.max_tokens {
        0 => ANSWER_TOKENS,
        limit => limit,
    };
    let mut known = json!({
        "tool_call": true, "limit": {"context": 128_000, "output": limit},
    });
    if !errand.effort.is_empty() {
        known["options"] = json!({"reasoningEffort": errand.effort});
    }
    let config = json!({
        "provider": {"relay": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": errand.url("/v1"), "apiKey": errand.key},
            "models": {errand.model: known},
        }},
        "model": model,
        "small_model": model,
        "autoupdate": false,
        "share": "disabled",
    });
    let mut files = errand.skill_in(".agents/skills");
    files.push(File::home(
        ".config/opencode/opencode.json",
        config.to_string(),
    ));
    Call {
        args: args(&[
            "run",
            "--format",
            "json",
            "--model",
            &model,
            "--dir",
            errand.work,
        ]),
        env: env(&[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
            // Else it asks for no more than a number of its own.
            ("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", &limit.to_string()),
        ]),
        stdin: with_skill(errand),
        files,
    }
}

#[derive(Default)]
struct Opencode {
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
