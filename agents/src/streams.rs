//! What CLIs print while they work, read line by line (exec-CLIs spec 4.5, 5.4, 6).
//!
//! Unknown events are passed over, lines that are no JSON are counted: releases add events, and
//! programs that the agent runs print what they like.

mod claude;
mod codex;
mod copilot;
mod cursor;
mod declared;
mod failure;
mod gemini;
mod opencode;
mod qwen;

use serde_json::Value;
use skillopt_backends::agents::declared::Events;

use crate::account::{Account, Outcome};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its exit code; `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// Whether we sent it a signal: then it did not end by itself, whatever it printed.
    pub was_told_to_go: bool,
}

impl End {
    /// Returns whether a signal ended it, by the shell's way of saying so too.
    const fn by_signal(self) -> bool {
        self.was_told_to_go || matches!(self.exit_code, None | Some(130 | 137 | 143))
    }
}

/// Reads the events of one CLI.
trait Reader {
    /// Takes one event.
    fn event(&mut self, event: &Value);

    /// Makes the account of a program that was not told to go.
    fn account(self: Box<Self>, end: End) -> Account;
}

/// The CLIs whose events are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `codex exec --json`.
    Codex,
    /// `claude -p --output-format stream-json --verbose`.
    Claude,
    /// `opencode run --format json`.
    Opencode,
    /// `copilot --output-format json`.
    Copilot,
    /// `cursor-agent -p --output-format stream-json`.
    Cursor,
    /// `gemini -o stream-json`.
    Gemini,
    /// `qwen -o stream-json`.
    Qwen,
}

impl Dialect {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Codex,
        Self::Claude,
        Self::Opencode,
        Self::Copilot,
        Self::Cursor,
        Self::Gemini,
        Self::Qwen,
    ];

    /// Returns the CLI's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
        }
    }

    fn reader(self) -> Box<dyn Reader + Send> {
        match self {
            Self::Codex => Box::<codex::Codex>::default(),
            Self::Claude => Box::<claude::Claude>::default(),
            Self::Opencode => Box::<opencode::Opencode>::default(),
            Self::Copilot => Box::<copilot::Copilot>::default(),
            Self::Cursor => Box::<cursor::Cursor>::default(),
            Self::Gemini => Box::<gemini::Gemini>::default(),
            Self::Qwen => Box::<qwen::Qwen>::default(),
        }
    }
}

/// One program's output on its way to an [`Account`].
pub struct Stream {
    reader: Box<dyn Reader + Send>,
    unread: u64,
}

impl Stream {
    /// Begins to read.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            reader: dialect.reader(),
            unread: 0,
        }
    }

    /// Begins to read what a declared CLI prints.
    #[must_use]
    pub fn declared(events: &Events) -> Self {
        Self {
            reader: Box::new(declared::Declared::new(events)),
            unread: 0,
        }
    }

    /// Takes one line, without its end.
    pub fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(event) if event.is_object() => self.reader.event(&event),
            _ => self.unread += 1,
        }
    }

    /// Makes the account.
    #[must_use]
    pub fn end(self, end: End) -> Account {
        let mut account = self.reader.account(end);
        // A CLI that is told to go may still report a success that it made up from the command
        // that went with it.
        if end.was_told_to_go {
            account.outcome = Outcome::Killed;
        }
        account.unread_lines = self.unread;
        account
    }
}

/// Makes the account of a program that prints no events: all that it printed is its answer.
#[must_use]
pub fn plain(stdout: &str, end: End) -> Account {
    let mut account = Account::of(declared::ended(end));
    if account.outcome == Outcome::Success {
        account.final_text = said(stdout.trim());
    }
    account
}

/// Returns the text at a path of keys.
fn text_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// Returns the number at a path of keys, 0 if there is none.
fn count_at(value: &Value, path: &[&str]) -> u64 {
    at(value, path).and_then(Value::as_u64).unwrap_or(0)
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Keeps the last words unless they are blank.
fn said(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(dialect: Dialect, lines: &[&str], end: End) -> Account {
        let mut stream = Stream::new(dialect);
        for line in lines {
            stream.line(line.as_bytes());
        }
        stream.end(end)
    }

    const WELL: End = End {
        exit_code: Some(0),
        was_told_to_go: false,
    };

    #[test]
    fn what_is_no_event_is_counted_and_kept_out() {
        for dialect in Dialect::ALL {
            let lines = [
                "",
                "[]",
                "7",
                "not json",
                "{\"type\":\"of the future\"}",
                "{}",
            ];
            let account = read(*dialect, &lines, WELL);
            assert_eq!(account.unread_lines, 3, "{dialect:?}");
            assert_eq!(
                account.outcome,
                Outcome::Crashed,
                "{dialect:?}: it said nothing"
            );
        }
    }

    #[test]
    fn a_signal_of_ours_ends_it_whatever_it_printed() {
        let lines = [
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"done"}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#,
        ];
        let told = End {
            was_told_to_go: true,
            ..WELL
        };
        assert_eq!(read(Dialect::Codex, &lines, WELL).outcome, Outcome::Success);
        assert_eq!(read(Dialect::Codex, &lines, told).outcome, Outcome::Killed);
    }

    #[test]
    fn a_stray_value_in_an_event_does_no_harm() {
        for dialect in Dialect::ALL {
            for kind in [
                "item.completed",
                "turn.completed",
                "turn.failed",
                "assistant",
                "user",
                "result",
                "text",
                "tool_use",
                "tool_result",
                "step_finish",
                "error",
                "message",
                "assistant.message",
                "tool.execution_complete",
                "session.error",
                "tool_call",
            ] {
                for rest in [
                    "",
                    ",\"item\":7",
                    ",\"message\":[1]",
                    ",\"data\":null",
                    ",\"part\":\"x\"",
                ] {
                    let line = format!("{{\"type\":\"{kind}\"{rest}}}");
                    let account = read(*dialect, &[&line], WELL);
                    assert_eq!(account.unread_lines, 0, "{dialect:?} {line}");
                }
            }
        }
    }
}
