//! An agent's program as a user declares it in a file, without Rust (`docs/new-agent-cli.md`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A declared CLI.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// What it is called in trajectories and messages.
    pub name: String,
    /// Its release, e.g. `1.4.0`; empty if any will do. It is compared with the package's, else with what
    /// the program says to `--version`.
    #[serde(default)]
    pub version: String,
    /// Program and arguments. `{model}`, `{url}`, `{key}`, `{home}`, `{work}`, `{effort}`,
    /// `{skill}` and `{skills}` stand for what they name, `{prompt}` too if `prompt` is `argument`.
    pub command: Vec<String>,
    /// How it is told its task.
    #[serde(default)]
    pub prompt: PromptBy,
    /// What it is told, around `{prompt}`.
    #[serde(default = "told")]
    pub told: String,
    /// Folder of skills below the working folder.
    pub skills: String,
    /// What it speaks to its model.
    pub wire: Interface,
    /// Its environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files by path, `home:` or `work:` before it.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// What its lines mean, if it prints JSON; without it, all that it prints is its answer.
    #[serde(default)]
    pub events: Option<Events>,
}

fn told() -> String {
    "First load the skill `{skill}` from the folder `{skills}` and follow it.\n\n{prompt}"
        .to_owned()
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
    /// The file `prompt.md` in the working folder, which a word of `command` names.
    File,
}

/// What a CLI speaks to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// OpenAI Responses.
    Responses,
    /// Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
    /// Gemini.
    Gemini,
}

/// What the JSON lines mean that a CLI prints.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// Which lines hold the answer: of several the last one counts.
    pub answer: TextIn,
    /// Which lines tell that a tool has ended.
    #[serde(default)]
    pub tool: Option<ToolIn>,
    /// Which lines tell a failure, and its words.
    #[serde(default)]
    pub failure: Option<TextIn>,
}

/// A text in lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextIn {
    /// `type` of the line.
    pub event: String,
    /// Where the text is in it: keys with dots between them.
    pub text: String,
}

/// A tool in lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolIn {
    /// `type` of the line.
    pub event: String,
    /// Where the tool's name is.
    pub name: String,
    /// Where a truth value says whether it worked; without it, it did.
    #[serde(default)]
    pub ok: Option<String>,
}

/// Longest declaration, in bytes of its JSON, files included: it is part of every job's model.
pub const BYTES_MAX: usize = 64 << 10;

impl Declared {
    /// Reads a declaration, wherever it stands.
    ///
    /// # Errors
    /// It says something unknown, leaves something out, or contradicts itself; in words.
    pub fn read(value: &Value) -> Result<Self, String> {
        let bytes = value.to_string().len();
        if bytes > BYTES_MAX {
            return Err(format!(
                "is too large: {bytes} bytes with all its texts and `files`, at most {BYTES_MAX} are \
                 allowed; put what is larger into the program's package"
            ));
        }
        let declared: Self = serde_json::from_value(value.clone())
            .map_err(|e| format!("declares no agent: {e}; docs/new-agent-cli.md has an example"))?;
        declared
            .check()
            .map_err(|why| format!("declares no agent: {why}"))?;
        Ok(declared)
    }

    fn check(&self) -> Result<(), String> {
        let Some(program) = self.command.first() else {
            return Err("`command` names no program".to_owned());
        };
        // What lies where is a machine's own business, not that of whoever submits a run.
        if program.is_empty() || program.contains('/') {
            return Err(format!(
                "`command` begins with `{program}`: write the name of a program on the PATH, and on \
                 machines where it lies elsewhere set `declared_exec_path`"
            ));
        }
        let names_prompt = self.command.iter().any(|word| word.contains("{prompt}"));
        match self.prompt {
            PromptBy::Argument if !names_prompt => {
                return Err(
                    "`prompt` is `argument`, but no word of `command` holds `{prompt}`".to_owned(),
                );
            }
            PromptBy::File if !self.command.iter().any(|word| word.contains("prompt.md")) => {
                return Err(
                    "`prompt` is `file`, but no word of `command` names `prompt.md`".to_owned(),
                );
            }
            PromptBy::Stdin | PromptBy::File if names_prompt => {
                return Err("`command` holds `{prompt}`, but `prompt` is not `argument`".to_owned());
            }
            _ => {}
        }
        if !self.told.contains("{prompt}") {
            return Err("`told` does not hold `{prompt}`".to_owned());
        }
        inside("skills", &self.skills)?;
        for path in self.files.keys() {
            let Some((_, below)) = path
                .split_once(':')
                .filter(|(place, _)| matches!(*place, "home" | "work"))
            else {
                return Err(format!(
                    "`{path}` in `files` begins with neither `home:` nor `work:`"
                ));
            };
            inside("files", below)?;
        }
        Ok(())
    }

    /// Returns the chat backend that its calls take without `agent_provider`.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        match self.wire {
            Interface::Responses => "openai_chat",
            Interface::Chat => "openai_compatible",
            Interface::Messages => "claude_chat",
            Interface::Gemini => "gemini_chat",
        }
    }
}

/// Refuses a path that leads out of the folder it is below.
fn inside(what: &str, path: &str) -> Result<(), String> {
    let leads_out =
        path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..");
    if leads_out {
        return Err(format!("`{path}` in `{what}` is no path below a folder"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared() -> Value {
        json!({
            "name": "my_agent", "command": ["my-agent", "--model", "{model}"],
            "skills": ".agents/skills", "wire": "chat",
            "files": {"home:.my-agent/config.json": "{}"},
            "events": {"answer": {"event": "message", "text": "data.text"}},
        })
    }

    #[test]
    fn a_declaration_is_read() {
        let read = Declared::read(&declared()).unwrap();
        assert_eq!(read.prompt, PromptBy::Stdin);
        assert_eq!(read.provider(), "openai_compatible");
        assert!(read.told.contains("{prompt}"));
    }

    #[test]
    fn a_wrong_one_says_what_is_wrong() {
        for (key, value, words) in [
            ("wire", json!("smoke"), "smoke"),
            ("nome", json!("x"), "nome"),
            ("command", json!([]), "names no program"),
            ("command", json!(["/bin/sh"]), "declared_exec_path"),
            (
                "command",
                json!(["a", "{prompt}"]),
                "`prompt` is not `argument`",
            ),
            ("prompt", json!("argument"), "no word of `command` holds"),
            ("prompt", json!("file"), "prompt.md"),
            ("told", json!("Go."), "{prompt}"),
            ("skills", json!("/etc"), "/etc"),
            ("files", json!({".my": ""}), "home:"),
            ("files", json!({"work:../x": ""}), "../x"),
            ("events", json!({"answer": {"event": "x"}}), "text"),
        ] {
            let mut wrong = declared();
            wrong[key] = value;
            let error = Declared::read(&wrong).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let mut large = declared();
        large["files"]["home:.my-agent/large"] = json!("x".repeat(BYTES_MAX));
        let error = Declared::read(&large).unwrap_err();
        assert!(
            error.contains("too large") && error.contains("65536"),
            "{error}"
        );
        let error = Declared::read(&json!("a text")).unwrap_err();
        assert!(error.contains("docs/new-agent-cli.md"), "{error}");
    }
}
