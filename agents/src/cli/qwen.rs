//! Qwen Code (exec-CLIs spec 6.4).
//!
//! It prints the events of `qwen -o stream-json`: those of Claude Code, but an error of the provider is told as a
//! success whose text begins with `[API Error:`, and the exit code is always 0.

use serde_json::{Value, json};

use super::claude::{Tools, denials};
use super::{Call, Cli, Errand, File, Needs, Range, Version, args, with_skill};
use crate::account::{Account, Outcome, Usage};
use crate::relay::Wire;
use crate::streams::{Dialect, End, Reader, count_at, failure, said, text_at};

pub(super) const QWEN: Cli = Cli {
    backend: "qwen_code_exec",
    program: "qwen",
    package: "@qwen-code/qwen-code",
    native: "",
    tested: Range {
        first: Version(0, 15, 10),
        last: Version(0, 15, 10),
    },
    wire: Wire::Chat,
    vendor: None,
    dialect: Dialect {
        name: "qwen",
        reader: || Box::<Qwen>::default(),
    },
    needs: Needs {
        memory_mib: 880,
        disk_mib: 16,
    },
    replaces: &[],
    since: &[],
    never: &[],
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let mut files = errand.skill_in(".agents/skills");
    if !errand.effort.is_empty() {
        // Its own setting of this kind is sent in a form that few servers know.
        let body = json!({"reasoning_effort": errand.effort});
        let settings = json!({"model": {"generationConfig": {"extra_body": body}}});
        files.push(File::home(".qwen/settings.json", settings.to_string()));
    }
    Call {
        args: args(&[
            "--auth-type",
            "openai",
            "-m",
            errand.model,
            "-o",
            "stream-json",
            "--yolo",
        ]),
        env: errand.env(
            &[
                ("OPENAI_API_KEY", errand.key),
                ("OPENAI_BASE_URL", &errand.url("/v1")),
                ("OPENAI_MODEL", errand.model),
            ],
            "QWEN_CODE_MAX_OUTPUT_TOKENS",
        ),
        stdin: with_skill(errand),
        files,
    }
}

#[derive(Default)]
struct Qwen {
    tools: Tools,
    result: Option<Value>,
}

impl Reader for Qwen {
    fn event(&mut self, event: &Value) {
        match text_at(event, &["type"]) {
            Some("assistant") => self.tools.assistant(event),
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
        let tokens = |key: &str| count_at(&result, &["usage", key]);
        let usage = Usage {
            input_tokens: tokens("input_tokens"),
            cached_input_tokens: tokens("cache_read_input_tokens"),
            cache_write_input_tokens: None,
            output_tokens: tokens("output_tokens"),
            reasoning_output_tokens: None,
        };
        let is_error = result.get("is_error").and_then(Value::as_bool) == Some(true);
        let turns = count_at(&result, &["num_turns"]);
        let text = text_at(&result, &["result"]).unwrap_or_default();
        account.final_text = said(text);
        account.terminal = text_at(&result, &["subtype"]).map(str::to_owned);
        account.is_error = Some(is_error);
        account.num_turns = Some(turns);
        account.permission_denials = Some(denials(&result));
        account.usage = Some(usage);
        // A partial answer may stand before the error.
        let api_error = text.find("[API Error:").map(|at| &text[at..]);
        account.outcome = match api_error {
            Some(error) if usage.is_zero() || is_error => {
                account.errors.push(error.to_owned());
                failure::of_words(error)
            }
            _ if is_error => {
                account.errors.push(text.to_owned());
                failure::of_words(text)
            }
            _ if turns == 0 => Outcome::NoModelCall,
            _ => Outcome::Success,
        };
        account
    }
}
