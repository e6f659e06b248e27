//! Gemini CLI (exec-CLIs spec 6.3).
//!
//! It prints the events of `gemini -o stream-json`. It shows a command that failed as one that worked, and may
//! exit with 0 although `result` says `error`.

use serde_json::{Map, Value, json};
use skillopt_backends::agents::gemini_thinking;

use super::{Call, Cli, Errand, File, Needs, Range, Version, args, env, with_skill};
use crate::account::{Account, Outcome, ToolUse, Usage};
use crate::relay::Wire;
use crate::streams::{Dialect, End, Reader, count_at, failure, text_at};

pub(super) const GEMINI: Cli = Cli {
    backend: "gemini_exec",
    program: "gemini",
    package: "@google/gemini-cli",
    native: "",
    tested: Range {
        first: Version(0, 61, 0),
        last: Version(0, 61, 0),
    },
    wire: Wire::Gemini,
    vendor: None,
    dialect: Dialect {
        name: "gemini",
        reader: || Box::<Gemini>::default(),
    },
    needs: Needs {
        memory_mib: 380,
        disk_mib: 16,
    },
    replaces: REPLACES,
    since: &[],
    never: &[],
    call,
};

/// It asks a key's owner for the newest of a line.
const REPLACES: &[(&str, &str)] = &[
    ("auto", "gemini-3.1-pro-preview"),
    ("pro", "gemini-3.1-pro-preview"),
    ("flash", "gemini-3.8-flash"),
    ("flash-lite", "gemini-3.5-flash-lite"),
    ("gemini-3-pro-preview", "gemini-3.1-pro-preview"),
    ("gemini-3-flash", "gemini-3.8-flash"),
    ("gemini-3.5-flash", "gemini-3.8-flash"),
    ("gemini-3.1-flash-lite", "gemini-3.5-flash-lite"),
];

fn call(errand: &Errand<'_>) -> Call {
    let mut settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
    });
    let said = said(errand);
    if !said.is_empty() {
        settings["modelConfigs"] = json!({"customOverrides": [
            {"match": {"model": errand.model}, "modelConfig": {"generateContentConfig": said}},
        ]});
    }
    let mut files = errand.skill_in(".agents/skills");
    files.push(File::home(".gemini/settings.json", settings.to_string()));
    Call {
        args: args(&[
            "--skip-trust",
            "-o",
            "stream-json",
            "-m",
            errand.model,
            "--approval-mode",
            "yolo",
        ]),
        env: env(&[
            ("GEMINI_API_KEY", errand.key),
            ("GOOGLE_GEMINI_BASE_URL", &errand.url("")),
        ]),
        stdin: with_skill(errand),
        files,
    }
}

/// Returns what is said of an answer beside what the program says of it.
fn said(errand: &Errand<'_>) -> Map<String, Value> {
    let mut said = Map::new();
    if errand.max_tokens > 0 {
        said.insert("maxOutputTokens".to_owned(), errand.max_tokens.into());
    }
    if let Some(thinking) = gemini_thinking(errand.model, errand.effort) {
        said.insert("thinkingConfig".to_owned(), thinking);
    }
    said
}

#[derive(Default)]
struct Gemini {
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
