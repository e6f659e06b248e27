//! Where output goes and how it looks: data on standard output, conversation on standard error.

pub(crate) mod diff;
pub(crate) mod doubts;
pub(crate) mod progress;
pub(crate) mod providers;
pub(crate) mod table;
pub(crate) mod words;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use skillopt_config::Warning;

use crate::args::{Global, When};
use crate::exit::Exit;
use crate::failure::Failure;

/// Version of the JSON lines. Names stay as they are within a version; new ones may come.
pub(crate) const JSON_VERSION: u32 = 1;

/// What a colour means; it never stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warn,
    Name,
    Strong,
    Faint,
}

/// Colours, on or off for one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// Colours a text.
    pub(crate) fn of(self, tone: Tone, text: &str) -> String {
        if !self.0 || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Name => "36",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// The program's output; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// Bars may be drawn on standard error.
    pub(crate) bars: bool,
    pub(crate) paint: Paint,
    pub(crate) paint_err: Paint,
    /// Why standard output takes no more.
    broken: Arc<OnceLock<io::Error>>,
}

impl Out {
    pub(crate) fn new(global: Global) -> Self {
        let env = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let dumb = env("TERM").is_some_and(|term| term == "dumb");
        let forced = env("CLICOLOR_FORCE").is_some_and(|v| v != "0");
        let colour = |is_terminal: bool| match global.color {
            When::Always => true,
            When::Never => false,
            When::Auto if env("NO_COLOR").is_some() => false,
            When::Auto => forced || (is_terminal && !dumb),
        };
        let err_terminal = std::io::stderr().is_terminal();
        Self {
            json: global.json,
            quiet: global.quiet,
            bars: err_terminal && !dumb && !global.json && !global.quiet,
            paint: Paint(colour(std::io::stdout().is_terminal())),
            paint_err: Paint(colour(err_terminal)),
            broken: Arc::default(),
        }
    }

    /// Writes a line of data. What becomes of it is known afterwards; see [`Self::is_broken`] and
    /// [`Self::fault`].
    pub(crate) fn line(&self, text: impl AsRef<str>) {
        if self.is_broken() {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        let line = format!("{}\n", text.as_ref());
        let written = stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.flush());
        if let Err(error) = written {
            // Only the first one says what happened.
            drop(self.broken.set(error));
        }
    }

    /// Returns whether standard output takes no more, for whatever reason.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Returns the failure of standard output. A reader that went away is none: it has seen what
    /// it wanted to see.
    pub(crate) fn fault(&self) -> Option<Failure> {
        self.broken.get().and_then(unwritten)
    }

    /// Writes one JSON object on a line, with its version and type first.
    pub(crate) fn object(&self, kind: &str, value: Value) {
        let mut object = Map::new();
        object.insert("v".to_owned(), JSON_VERSION.into());
        object.insert("type".to_owned(), kind.into());
        match value {
            Value::Object(fields) => object.extend(fields),
            Value::Null => {}
            other => {
                object.insert("value".to_owned(), other);
            }
        }
        self.line(Value::Object(object).to_string());
    }

    /// Writes a line of conversation; nobody may be listening.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        drop(writeln!(std::io::stderr().lock(), "{}", text.as_ref()));
    }

    /// Writes a line of conversation unless asked to be quiet.
    pub(crate) fn chat(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.note(text);
        }
    }

    /// Writes a warning that is about no key of the configuration.
    pub(crate) fn warn(&self, text: &str) {
        self.warned(text, serde_json::json!({"message": text}));
    }

    pub(crate) fn warnings(&self, warnings: &[Warning]) {
        for warning in warnings {
            self.warning(&warning.key, &warning.to_string());
        }
    }

    /// Warns of something that `key` decides.
    pub(crate) fn warning(&self, key: &str, words: &str) {
        self.warned(words, serde_json::json!({"message": words, "key": key}));
    }

    fn warned(&self, words: &str, row: serde_json::Value) {
        if self.json {
            self.object("warning", row);
        } else {
            let warning = self.paint_err.of(Tone::Warn, "warning");
            self.chat(format!("{warning}: {words}"));
        }
    }

    /// Shows a failure: with `--json` as an object, else on standard error.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            self.object("error", failure.to_json());
        } else {
            self.tell(failure);
        }
    }

    /// Shows a failure on standard error.
    pub(crate) fn tell(&self, failure: &Failure) {
        let paint = self.paint_err;
        for wrong in &failure.errors {
            self.note(format!(
                "{}: {}",
                paint.of(Tone::Bad, "error"),
                wrong.message
            ));
            if let Some(place) = &wrong.place {
                self.note(format!("  --> {place}"));
            }
        }
        if let Some(fix) = &failure.fix {
            self.note(format!("{}: {fix}", paint.of(Tone::Name, "fix")));
        }
        if let Some(hint) = &failure.hint {
            self.note(format!("{}: {hint}", paint.of(Tone::Name, "hint")));
        }
    }
}

/// Turns an error of standard output into a failure, unless its reader only went away.
pub(crate) fn unwritten(error: &io::Error) -> Option<Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return None;
    }
    let words = format!("standard output cannot be written: {error}");
    Some(Failure::new(Exit::Unexpected, words))
}
