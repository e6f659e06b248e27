//! A CLI that a user declares in a file, without Rust.
//!
//! ```json
//! {
//!   "name": "my_agent",
//!   "command": ["my-agent", "--json", "--model", "{model}"],
//!   "prompt": "stdin",
//!   "skills": ".agents/skills",
//!   "wire": "chat",
//!   "environment": {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{key}"},
//!   "files": {"home:.my-agent/config.json": "{\"model\":\"{model}\"}"},
//!   "answer": {"event": "message", "text": "data.text"}
//! }
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Call, Errand, File, SKILL_NAME, escaped};
use crate::account::{Account, Outcome};
use crate::relay::Wire;
use crate::streams::End;

/// A declaration that cannot be used.
#[derive(Debug)]
pub struct DeclarationError(String);

impl std::fmt::Display for DeclarationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the declaration of the agent is wrong: {}", self.0)
    }
}

impl std::error::Error for DeclarationError {}

/// A declared CLI.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// Name of its backend.
    pub name: String,
    /// Program and arguments; `{model}`, `{url}`, `{key}`, `{home}`, `{work}`, `{effort}` and
    /// `{skill}` stand for what they name, `{prompt}` too if `prompt` is `argument`.
    pub command: Vec<String>,
    /// How it is told its task.
    #[serde(default)]
    pub prompt: PromptBy,
    /// Folder of skills below the working folder.
    pub skills: String,
    /// What it speaks to its model: `responses`, `chat`, `messages` or `gemini`.
    pub wire: String,
    /// Its environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files by path, `home:` or `work:` before it.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Where its answer is; without it, all that it prints.
    #[serde(default)]
    pub answer: Option<AnswerIn>,
}

/// How a CLI is told its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    /// Standard input.
    #[default]
    Stdin,
    /// The argument `{prompt}`; at most 128 KiB.
    Argument,
    /// The file `task.md` in the working folder; the prompt in `command` says so.
    File,
}

/// Which of the JSON lines that it prints holds its answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerIn {
    /// `type` of the line; the last one counts.
    pub event: String,
    /// Path of the text in it, with dots.
    pub text: String,
    /// `type` of a line that tells a failure.
    #[serde(default)]
    pub failure: Option<String>,
}

impl Declared {
    /// Reads a declaration.
    ///
    /// # Errors
    /// It is no JSON, says something unknown, or leaves something out.
    pub fn parse(text: &str) -> Result<Self, DeclarationError> {
        let declared: Self =
            serde_json::from_str(text).map_err(|e| DeclarationError(e.to_string()))?;
        if declared.command.is_empty() {
            return Err(DeclarationError("`command` names no program".to_owned()));
        }
        if declared.prompt == PromptBy::Argument
            && !declared
                .command
                .iter()
                .any(|word| word.contains("{prompt}"))
        {
            return Err(DeclarationError(
                "no word of `command` is `{prompt}`".to_owned(),
            ));
        }
        declared.wire()?;
        for path in declared.files.keys() {
            if !path.starts_with("home:") && !path.starts_with("work:") {
                let words = format!("`{path}` in `files` begins with neither `home:` nor `work:`");
                return Err(DeclarationError(words));
            }
        }
        Ok(declared)
    }

    /// Returns what it speaks.
    ///
    /// # Errors
    /// `wire` is no interface.
    pub fn wire(&self) -> Result<Wire, DeclarationError> {
        Ok(match self.wire.as_str() {
            "responses" => Wire::Responses,
            "chat" => Wire::Chat,
            "messages" => Wire::Messages,
            "gemini" => Wire::Gemini,
            other => {
                let words = format!("`{other}` is no `wire`: responses, chat, messages or gemini");
                return Err(DeclarationError(words));
            }
        })
    }

    /// Makes the call of one task.
    #[must_use]
    pub fn call(&self, errand: &Errand<'_>) -> Call {
        let prompt = escaped(errand.prompt);
        let fill = |text: &str| {
            text.replace("{model}", errand.model)
                .replace("{url}", &errand.url(""))
                .replace("{key}", errand.key)
                .replace("{home}", errand.home)
                .replace("{work}", errand.work)
                .replace("{effort}", errand.effort)
                .replace("{skill}", SKILL_NAME)
        };
        let words = self.command.iter().skip(1).map(|word| match self.prompt {
            PromptBy::Argument => fill(word).replace("{prompt}", &prompt),
            PromptBy::Stdin | PromptBy::File => fill(word),
        });
        let mut files = errand.skill_in(&self.skills);
        for (path, text) in &self.files {
            files.push(match path.split_once(':') {
                Some(("home", path)) => File::home(path, fill(text)),
                _ => File::work(path.trim_start_matches("work:"), &fill(text)),
            });
        }
        let mut stdin = String::new();
        match self.prompt {
            PromptBy::Stdin => stdin.clone_from(&prompt),
            PromptBy::File => files.push(File::work("task.md", &prompt)),
            PromptBy::Argument => {}
        }
        let variables = self.environment.iter();
        Call {
            args: words.collect(),
            env: variables
                .map(|(name, value)| (name.clone(), fill(value)))
                .collect(),
            stdin,
            files,
            last_words: None,
        }
    }

    /// Makes the account of what it printed.
    #[must_use]
    pub fn account(&self, stdout: &str, end: End) -> Account {
        let mut account = Account::of(match end.exit_code {
            _ if end.was_told_to_go => Outcome::Killed,
            Some(0) => Outcome::Success,
            None => Outcome::Killed,
            Some(_) => Outcome::Crashed,
        });
        let Some(answer) = &self.answer else {
            account.final_text = Some(stdout.trim().to_owned()).filter(|text| !text.is_empty());
            return account;
        };
        for line in stdout.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let kind = event.get("type").and_then(Value::as_str);
            if kind == Some(answer.event.as_str()) {
                let found = answer
                    .text
                    .split('.')
                    .try_fold(&event, |value, key| value.get(key));
                let text = found.and_then(Value::as_str);
                account.final_text = text.map(str::to_owned).or(account.final_text);
            }
            if kind.is_some() && kind == answer.failure.as_deref() {
                account
                    .errors
                    .push(event.to_string().chars().take(300).collect());
                account.outcome = Outcome::Crashed;
            }
        }
        account
    }
}
