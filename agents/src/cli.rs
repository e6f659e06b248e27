//! How each CLI is called for one task: files, arguments, environment, prompt (exec-CLIs spec).
//!
//! A [`Cli`] is pure: it says what to run and never runs it. A new one is one file, with its call and with
//! what it prints, and one line in [`ALL`]; nothing else of this crate names it. Who writes no Rust declares
//! one ([`declared`]).

mod claude;
mod codex;
mod copilot;
mod cursor;
pub mod declared;
mod gemini;
mod opencode;
mod qwen;
mod version;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::relay::Wire;
use crate::streams::Dialect;

pub use self::version::{Range, Version};

/// The name under which the trained skill is installed.
pub const SKILL_NAME: &str = "skillopt-target";

/// All CLIs that are built in.
pub const ALL: &[Cli] = &[
    codex::CODEX,
    claude::CLAUDE,
    copilot::COPILOT,
    cursor::CURSOR,
    opencode::OPENCODE,
    gemini::GEMINI,
    qwen::QWEN,
];

/// Finds a CLI by the name of its backend, e.g. `codex_exec`.
#[must_use]
pub fn find(backend: &str) -> Option<&'static Cli> {
    ALL.iter().find(|cli| cli.backend == backend)
}

/// A CLI.
#[derive(Clone, Copy)]
pub struct Cli {
    /// Name of its backend.
    pub backend: &'static str,
    /// Name of its program.
    pub program: &'static str,
    /// Package from which its program comes; empty if there is none.
    pub package: &'static str,
    /// Where its native program lies in a folder of packages, beside the script that starts it; empty if
    /// the script is all there is.
    pub native: &'static str,
    /// Versions that it was tried with.
    pub tested: Range,
    /// What it speaks to its model.
    pub wire: Wire,
    /// How it asks servers of its vendor by itself instead, if it cannot be given an address.
    pub vendor: Option<Vendor>,
    /// What it prints.
    pub dialect: Dialect,
    /// What it takes for itself, whatever its task.
    pub needs: Needs,
    /// Names of models in place of which it asks for others, with those others.
    pub replaces: &'static [(&'static str, &'static str)],
    /// Flags that not every release that was tried knows.
    pub since: &'static [Since],
    /// What settings of its own ask for and cannot have.
    pub never: &'static [Never],
    /// Makes the call of one task.
    pub call: fn(&Errand<'_>) -> Call,
}

impl Cli {
    /// Returns whether it asks servers of its vendor by itself, so that there is no relay.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.vendor.is_some()
    }

    /// Makes the call of one task for a release; without one for the newest that was tried.
    #[must_use]
    pub fn call_of(&self, release: Option<Version>, errand: &Errand<'_>) -> Call {
        let mut call = (self.call)(errand);
        let is_unknown = |since: &&Since| release.is_some_and(|release| release < since.first);
        for since in self.since.iter().filter(is_unknown) {
            if let Some(at) = call.args.iter().position(|word| word == since.flag) {
                let end = (at + 1 + since.values).min(call.args.len());
                call.args.drain(at..end);
            }
        }
        call
    }

    /// Returns what is to be said of a release that is wanted although it was not tried; `None` if it
    /// was, or is so old that it is refused.
    #[must_use]
    pub fn doubt(&self, release: &str) -> Option<String> {
        let version = Version::find(release)?;
        (version > self.tested.last).then(|| {
            format!(
                "`model.agent_version: {version}` is newer than what this release of skillopt was tried \
                 with ({}): flags and events of `{}` may have changed",
                self.tested, self.program
            )
        })
    }

    /// Returns whether a release that is wanted is the one that was tried; empty asks for no other.
    pub(crate) fn is_tried(&self, release: &str) -> bool {
        release.is_empty() || release == self.tested.last.to_string()
    }
}

impl std::fmt::Debug for Cli {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cli").field(&self.backend).finish()
    }
}

/// How a program that asks its vendor by itself is let out, by settings of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vendor {
    /// The setting that names the hosts.
    pub hosts: &'static str,
    /// Such hosts.
    pub example: &'static str,
    /// The setting with its key, which is also the name of a variable.
    pub key: &'static str,
    /// A setting and the value of it with which its commands may use that key and that way, too.
    pub open: (&'static str, &'static str),
}

/// What a setting asks for and cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Never {
    /// The setting.
    pub key: &'static str,
    /// Its value; empty: any.
    pub value: &'static str,
    /// Why not, and what to do instead.
    pub why: &'static str,
}

/// A flag that older releases do not know: it is left out for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The flag.
    pub flag: &'static str,
    /// How many words after it belong to it.
    pub values: usize,
    /// The first release that knows it.
    pub first: Version,
}

/// What a program takes for itself: with less, no task could be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Memory of one command and one answer, in MiB (`cargo xtask bench agents`).
    pub memory_mib: u64,
    /// What it lays into its home, in MiB.
    pub disk_mib: u64,
}

/// One task for an agent.
#[derive(Clone, Copy, Debug)]
pub struct Errand<'a> {
    /// What it is told.
    pub prompt: &'a str,
    /// The trained skill: the text of its `SKILL.md`, front matter included.
    pub skill: &'a str,
    /// The skill's other files, by their path in its folder.
    pub skill_files: &'a BTreeMap<String, String>,
    /// The model, as the provider knows it.
    pub model: &'a str,
    /// Port of 127.0.0.1 where the relay answers.
    pub port: u16,
    /// A key: worth nothing outside where there is a relay.
    pub key: &'a str,
    /// How hard the model thinks; empty leaves it to the CLI. What a CLI has no setting for does not
    /// come here: `skillopt_backends::agents` takes it out, and it is told before anything is spent.
    pub effort: &'a str,
    /// Most tokens of one answer; 0 leaves it to the CLI.
    pub max_tokens: u32,
    /// Whether files are wanted back, so that it may change some.
    pub wants_files: bool,
    /// Folders inside the sandbox.
    pub home: &'a str,
    /// The folder that it works in.
    pub work: &'a str,
    /// Further settings of the backend, by their key.
    pub settings: &'a Map<String, Value>,
}

impl Errand<'_> {
    /// Returns the relay's address with a path.
    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns an environment, with the most tokens of one answer under the CLI's own name for that if
    /// there is such a limit.
    fn env(&self, pairs: &[(&str, &str)], limit: &str) -> BTreeMap<String, String> {
        let mut variables = env(pairs);
        if self.max_tokens > 0 {
            variables.insert(limit.to_owned(), self.max_tokens.to_string());
        }
        variables
    }

    /// Returns a setting that is a text.
    fn setting(&self, key: &str) -> Option<&str> {
        let text = self.settings.get(key)?.as_str()?.trim();
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the skill's files below a folder of skills, for CLIs that look there.
    fn skill_in(&self, folder: &str) -> Vec<File> {
        let base = format!("{folder}/{SKILL_NAME}");
        let others = self.skill_files.iter();
        let others = others.map(|(path, text)| File::work(&format!("{base}/{path}"), text));
        let main = File::work(&format!("{base}/SKILL.md"), self.skill);
        std::iter::once(main).chain(others).collect()
    }
}

/// Where a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The folder that the agent works in.
    Work,
    /// Its home.
    Home,
}

/// A file that the agent finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Below which folder.
    pub place: Place,
    /// Its path there.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl File {
    fn work(path: &str, text: &str) -> Self {
        Self {
            place: Place::Work,
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn home(path: &str, text: impl Into<String>) -> Self {
        Self {
            place: Place::Home,
            path: path.to_owned(),
            text: text.into(),
        }
    }
}

/// How a CLI is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, apart from what every program gets (`HOME`, `PATH`, `TMPDIR`, `LANG`,
    /// `TERM`).
    pub env: BTreeMap<String, String>,
    /// What it reads from standard input.
    pub stdin: String,
    /// Files that lie there.
    pub files: Vec<File>,
}

fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect()
}

/// Words a prompt so that no CLI takes its beginning for a command or a flag of its own.
fn escaped(prompt: &str) -> String {
    match prompt.trim_start().chars().next() {
        Some('/' | '-' | '$' | '!' | '#' | '@') => format!("Task:\n{prompt}"),
        _ => prompt.to_owned(),
    }
}

/// A CLI that offers skills through a tool uses them if the model wishes; the words say that it
/// should.
fn with_skill(errand: &Errand<'_>) -> String {
    format!(
        "First load the skill `{}` with your skill tool and follow it.\n\n{}",
        SKILL_NAME,
        escaped(errand.prompt)
    )
}

#[cfg(test)]
mod events;
#[cfg(test)]
mod tests;
