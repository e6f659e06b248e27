//! Cursor CLI, from its documented interface: `-p --output-format stream-json`, the prompt on
//! standard input, `cli-config.json` and the proxy variables of its network settings.
//!
//! It asks servers of its vendor through an interface of its own, so that no relay can stand
//! between: it is let out through a tunnel to named hosts.
//!
//! It prints the events of `cursor-agent -p --output-format stream-json`. A run that failed may end without a
//! `result`, with words on standard error alone.

use serde_json::{Value, json};

use super::{Call, Cli, Errand, File, Needs, Range, Vendor, Version, args, env, with_skill};
use crate::account::{Account, Outcome, ToolUse, Usage};
use crate::relay::Wire;
use crate::streams::{Dialect, End, Reader, at, count_at, failure, said, text_at};
use crate::trace::{self, Entry};

pub(super) const CURSOR: Cli = Cli {
    backend: "cursor_exec",
    program: "cursor-agent",
    package: "",
    native: "",
    tested: Range {
        first: Version(2026, 1, 28),
        last: Version(2026, 1, 28),
    },
    // Nothing looks at it: there is no relay.
    wire: Wire::Chat,
    vendor: Some(VENDOR),
    dialect: Dialect {
        name: "cursor",
        reader: || Box::<Cursor>::default(),
    },
    needs: Needs {
        memory_mib: 64,
        disk_mib: 16,
    },
    replaces: &[],
    since: &[],
    never: &[],
    call,
};

/// How it is let out to its vendor, and with which key.
const VENDOR: Vendor = Vendor {
    hosts: "cursor_exec_egress",
    example: "*.cursor.sh:443",
    key: "cursor_api_key",
    open: ("cursor_exec_sandbox", "disabled"),
};

fn call(errand: &Errand<'_>) -> Call {
    let mut words = args(&[
        "-p",
        "--output-format",
        "stream-json",
        "--trust",
        "--workspace",
        errand.work,
        "--sandbox",
        errand.setting("cursor_exec_sandbox").unwrap_or("enabled"),
    ]);
    // Where no file is wanted, none is to be changed.
    words.extend(match errand.wants_files {
        true => args(&["--force"]),
        false => args(&["--mode", "ask"]),
    });
    if !errand.model.is_empty() {
        words.extend(args(&["--model", errand.model]));
    }
    let tunnel = errand.url("");
    // Its streams go over HTTP/1.1: a tunnel is for one connection.
    let config = json!({
        "version": 1,
        "editor": {"vimMode": false},
        "permissions": {"allow": [], "deny": []},
        "network": {"useHttp1ForAgent": true},
    });
    let mut files = errand.skill_in(".cursor/skills");
    files.push(File::home(".cursor/cli-config.json", config.to_string()));
    Call {
        args: words,
        env: env(&[
            ("CURSOR_CONFIG_DIR", &format!("{}/.cursor", errand.home)),
            ("CURSOR_API_KEY", errand.key),
            ("HTTPS_PROXY", &tunnel),
            ("HTTP_PROXY", &tunnel),
            ("NODE_USE_ENV_PROXY", "1"),
            ("NO_OPEN_BROWSER", "1"),
        ]),
        stdin: with_skill(errand),
        files,
    }
}

#[derive(Default)]
struct Cursor {
    /// Tools that began, by the id of the call.
    begun: Vec<(String, String)>,
    tools: Vec<ToolUse>,
    trace: Vec<Entry>,
    result: Option<Value>,
}

impl Reader for Cursor {
    fn event(&mut self, event: &Value) {
        let subtype = text_at(event, &["subtype"]);
        match (text_at(event, &["type"]), subtype) {
            // Words before a tool name the call of the model; the last ones stand in `result`.
            (Some("assistant"), _) if event.get("model_call_id").is_some() => {
                let parts = at(event, &["message", "content"]).and_then(Value::as_array);
                let parts = parts.into_iter().flatten();
                let text: String = parts.filter_map(|part| text_at(part, &["text"])).collect();
                if let Some(text) = said(text.trim()) {
                    self.trace.push(Entry::message(&text));
                }
            }
            (Some("tool_call"), Some("started")) => {
                let id = text_at(event, &["call_id"]).unwrap_or_default();
                let name = tool(event).map_or_else(String::new, |(name, _)| name);
                self.begun.push((id.to_owned(), name));
            }
            (Some("tool_call"), Some("completed")) => self.done(event),
            (Some("result"), _) => self.result = Some(event.clone()),
            _ => {}
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let mut account = Account::of(Outcome::Crashed);
        account.tool_calls = self.tools;
        // What began and never came back did not work.
        let unfinished = self.begun.into_iter();
        let unfinished = unfinished.map(|(_, name)| ToolUse { name, ok: false });
        account.tool_calls.extend(unfinished);
        account.trace = trace::bounded(self.trace);
        let Some(result) = self.result else {
            if end.by_signal() {
                account.outcome = Outcome::Killed;
            }
            return account;
        };
        let text = text_at(&result, &["result"]).unwrap_or_default();
        let subtype = text_at(&result, &["subtype"]);
        let is_error = result.get("is_error").and_then(Value::as_bool) == Some(true)
            || subtype.is_some_and(|word| word != "success");
        account.terminal = subtype.map(str::to_owned);
        account.is_error = Some(is_error);
        account.usage = result.get("usage").map(|_| usage(&result));
        if is_error {
            account.errors.push(text.to_owned());
            account.outcome = failure::of_words(text);
        } else if end.exit_code != Some(0) {
            account.outcome = if end.by_signal() {
                Outcome::Killed
            } else {
                Outcome::Crashed
            };
        } else {
            account.final_text = said(text.trim());
            account.outcome = Outcome::Success;
        }
        account
    }
}

impl Cursor {
    fn done(&mut self, event: &Value) {
        let id = text_at(event, &["call_id"]).unwrap_or_default();
        let begun = self.begun.iter().position(|(known, _)| known == id);
        let begun = begun.map(|at| self.begun.remove(at).1);
        let Some((name, call)) = tool(event) else {
            // A call of which nothing is told came back all the same, but nobody knows how.
            let name = begun.unwrap_or_default();
            self.tools.push(ToolUse { name, ok: false });
            return;
        };
        let ok = at(call, &["result", "success"]).is_some();
        let text = |key: &str| {
            let value = call.get(key).filter(|value| !value.is_null());
            value.map_or_else(String::new, Value::to_string)
        };
        self.trace
            .push(Entry::call(&name, &text("args"), &text("result"), !ok));
        self.tools.push(ToolUse {
            name: begun.unwrap_or(name),
            ok,
        });
    }
}

/// A call stands under a key that names its tool: `readToolCall`, `shellToolCall`, …
fn tool(event: &Value) -> Option<(String, &Value)> {
    let calls = event.get("tool_call")?.as_object()?;
    let (key, call) = calls
        .iter()
        .find(|(key, value)| key.ends_with("ToolCall") && value.is_object())
        .or_else(|| calls.iter().find(|(_, value)| value.is_object()))?;
    let name = key.strip_suffix("ToolCall").unwrap_or(key);
    Some((name.to_owned(), call))
}

/// Newer releases tell tokens; those that were in the cache stand apart.
fn usage(result: &Value) -> Usage {
    let tokens = |key: &str| count_at(result, &["usage", key]);
    let cached = tokens("cacheReadTokens");
    Usage {
        input_tokens: tokens("inputTokens") + cached,
        cached_input_tokens: cached,
        cache_write_input_tokens: Some(tokens("cacheWriteTokens")),
        output_tokens: tokens("outputTokens"),
        reasoning_output_tokens: None,
    }
}

#[cfg(test)]
mod tests {
    use crate::streams::Stream;

    use super::*;

    fn read(lines: &[&str], exit_code: i32) -> Account {
        let mut stream = Stream::new(CURSOR.dialect);
        lines.iter().for_each(|line| stream.line(line.as_bytes()));
        stream.end(End {
            exit_code: Some(exit_code),
            was_told_to_go: false,
        })
    }

    const TOOL: [&str; 3] = [
        r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look"}]},"model_call_id":"m"}"#,
        r#"{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"readToolCall":{"args":{"path":"task.md"}}}}"#,
        r#"{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{"readToolCall":{"args":{"path":"task.md"},"result":{"success":{"content":"Q?"}}}}}"#,
    ];
    const WELL: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":" B ","usage":{"inputTokens":7,"outputTokens":2,"cacheReadTokens":3}}"#;

    #[test]
    fn words_tools_and_tokens_are_read() {
        let account = read(&[TOOL[0], TOOL[1], TOOL[2], WELL], 0);
        assert_eq!(account.outcome, Outcome::Success);
        assert_eq!(account.final_text.as_deref(), Some("B"));
        let read = ToolUse {
            name: "read".to_owned(),
            ok: true,
        };
        assert_eq!(account.tool_calls, [read]);
        let usage = account.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (10, 2));
        assert_eq!(account.trace[0]["content"], "I look");
        assert_eq!(account.trace[1]["tool"], "read");
        let output = account.trace[1]["obs"].as_str().unwrap();
        assert!(output.contains("Q?"), "{output}");
    }

    #[test]
    fn an_end_without_a_whole_result_is_no_answer() {
        let failed =
            r#"{"type":"result","subtype":"error","is_error":true,"result":"invalid api key"}"#;
        for (lines, exit_code, want) in [
            (&[TOOL[0]][..], 0, Outcome::Crashed),
            (&[TOOL[0]][..], 137, Outcome::Killed),
            (&[failed][..], 0, Outcome::AuthError),
            (&[WELL][..], 1, Outcome::Crashed),
        ] {
            let account = read(lines, exit_code);
            assert_eq!(account.outcome, want, "{lines:?}");
            assert_eq!(account.final_text, None, "{lines:?}");
        }
        // A tool that never came back did not work.
        assert!(!read(&[TOOL[1], WELL], 0).tool_calls[0].ok);
    }
}
