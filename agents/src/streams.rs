//! What CLIs print while they work, read line by line (exec-CLIs spec 4.5, 5.4, 6).
//!
//! Unknown events are passed over, lines that are no JSON are counted: releases add events, and
//! programs that the agent runs print what they like.

mod declared;
pub(crate) mod failure;

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
    pub(crate) const fn by_signal(self) -> bool {
        self.was_told_to_go || matches!(self.exit_code, None | Some(130 | 137 | 143))
    }
}

/// Reads the events of one CLI.
pub(crate) trait Reader {
    /// Takes one event.
    fn event(&mut self, event: &Value);

    /// Makes the account of a program that was not told to go.
    fn account(self: Box<Self>, end: End) -> Account;
}

/// What a CLI prints. Each stands with its CLI (`crate::cli`).
#[derive(Clone, Copy)]
pub struct Dialect {
    /// The CLI's name.
    pub name: &'static str,
    /// Begins to read.
    pub(crate) reader: fn() -> Box<dyn Reader + Send>,
}

impl std::fmt::Debug for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Dialect").field(&self.name).finish()
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
            reader: (dialect.reader)(),
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
pub(crate) fn text_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// Returns the number at a path of keys, 0 if there is none.
pub(crate) fn count_at(value: &Value, path: &[&str]) -> u64 {
    at(value, path).and_then(Value::as_u64).unwrap_or(0)
}

pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Keeps the last words unless they are blank.
pub(crate) fn said(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.trim().is_empty())
}
