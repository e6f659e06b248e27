//! Codex CLI (exec-CLIs spec 4). The sandbox is ours, so its own is off; retries are the relay's.
//!
//! It prints the events of `codex exec --json`.

use serde_json::Value;

use super::{
    Call, Cli, Errand, File, Needs, Never, Range, SKILL_NAME, Version, args, env, escaped,
};
use crate::account::{Account, Outcome, ToolUse, Usage};
use crate::relay::Wire;
use crate::streams::{Dialect, End, Reader, count_at, failure, said, text_at};

pub(super) const CODEX: Cli = Cli {
    backend: "codex_exec",
    program: "codex",
    package: "@openai/codex",
    native: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    tested: Range {
        first: Version(0, 171, 0),
        last: Version(0, 171, 0),
    },
    wire: Wire::Responses,
    vendor: None,
    dialect: Dialect {
        name: "codex",
        reader: || Box::<Codex>::default(),
    },
    needs: Needs {
        memory_mib: 160,
        disk_mib: 16,
    },
    replaces: &[],
    since: &[],
    never: NEVER,
    call,
};

/// Values that stand in a profile only if they are not the usual ones.
const NEVER: &[Never] = &[
    Never {
        key: "codex_exec_sandbox",
        value: "read-only",
        why: "the program's own sandbox does not run inside that of skillopt, which takes its place: a \
              task may write in its own folder and nowhere else, and what it writes there goes with \
              it; use `workspace-write`",
    },
    Never {
        key: "codex_exec_network_access",
        value: "true",
        why: "an agent reaches its model and nothing else; put what it needs into its folder",
    },
    Never {
        key: "codex_exec_web_search",
        value: "true",
        why: "an agent reaches its model and nothing else, and a search that the provider makes for it \
              would be a way around that; put what it needs into its folder",
    },
    Never {
        key: "codex_exec_profile",
        value: "",
        why: "an agent has a home of its own, in which there are no profiles; set what the profile \
              sets (`model.target`, `codex_exec_reasoning_effort`, …), or declare the agent with \
              `agent_cli`, which can bring files",
    },
];

fn call(errand: &Errand<'_>) -> Call {
    let words = args(&[
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--ephemeral",
        "--sandbox",
        "danger-full-access",
        "-m",
        errand.model,
        // The prompt comes from standard input. The last words stand in the events: a file of them
        // would lie where the agent can write.
        "-",
    ]);
    let mut files = errand.skill_in(".agents/skills");
    files.push(File::home(".codex/config.toml", config(errand)));
    Call {
        args: words,
        env: env(&[
            ("CODEX_HOME", &format!("{}/.codex", errand.home)),
            ("MODEL_API_KEY", errand.key),
        ]),
        // The skill's name after a dollar sign puts its whole text into the first request.
        stdin: format!("${SKILL_NAME}\n\n{}", escaped(errand.prompt)),
        files,
    }
}

fn config(errand: &Errand<'_>) -> String {
    // The sandbox is ours; what the program would ask of a person, nobody is there to answer.
    let approval = errand.setting("codex_exec_approval_policy");
    let mut text = format!(
        "model = {model}\n\
         model_provider = \"relay\"\n\
         approval_policy = {approval}\n\
         web_search = \"disabled\"\n",
        model = quoted(errand.model),
        approval = quoted(approval.unwrap_or("never")),
    );
    if !matches!(errand.effort, "" | "none") {
        text.push_str(&format!(
            "model_reasoning_effort = {}\n",
            quoted(errand.effort)
        ));
    }
    text.push_str(&format!(
        "\n[model_providers.relay]\n\
         name = \"relay\"\n\
         base_url = {url}\n\
         env_key = \"MODEL_API_KEY\"\n\
         wire_api = \"responses\"\n\
         request_max_retries = 0\n\
         stream_max_retries = 0\n\
         stream_idle_timeout_ms = 600000\n\
         \n[analytics]\n\
         enabled = false\n\
         \n[features]\n\
         unbounded_connection_retries = false\n\
         \n[skills.bundled]\n\
         enabled = false\n",
        url = quoted(&errand.url("/v1")),
    ));
    text
}

/// Quotes a TOML string: its basic strings take the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[derive(Default)]
struct Codex {
    last_words: Option<String>,
    tools: Vec<ToolUse>,
    turn: Option<Turn>,
}

enum Turn {
    Completed(Usage),
    Failed(String),
}

impl Reader for Codex {
    fn event(&mut self, event: &Value) {
        match text_at(event, &["type"]) {
            Some("item.completed") => self.item(event),
            Some("turn.completed") => {
                let usage = |key: &str| count_at(event, &["usage", key]);
                self.turn = Some(Turn::Completed(Usage {
                    input_tokens: usage("input_tokens"),
                    cached_input_tokens: usage("cached_input_tokens"),
                    cache_write_input_tokens: Some(usage("cache_write_input_tokens")),
                    output_tokens: usage("output_tokens"),
                    reasoning_output_tokens: Some(usage("reasoning_output_tokens")),
                }));
            }
            Some("turn.failed") => {
                let message = text_at(event, &["error", "message"]).unwrap_or_default();
                self.turn = Some(Turn::Failed(message.to_owned()));
            }
            // `error` is also how a retry is told: only a turn's end decides.
            _ => {}
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let this = *self;
        let mut account = Account {
            final_text: this.last_words,
            tool_calls: this.tools,
            ..Account::of(Outcome::Crashed)
        };
        match this.turn {
            Some(Turn::Completed(usage)) => {
                account.outcome = Outcome::Success;
                account.usage = Some(usage);
                account.terminal = Some("turn.completed".to_owned());
            }
            Some(Turn::Failed(message)) => {
                account.outcome = failure::of_words(&message);
                account.errors.push(message);
                account.terminal = Some("turn.failed".to_owned());
            }
            None if end.by_signal() => account.outcome = Outcome::Killed,
            None => {}
        }
        account
    }
}

impl Codex {
    fn item(&mut self, event: &Value) {
        let kind = text_at(event, &["item", "type"]);
        match kind {
            Some("agent_message") => {
                let text = text_at(event, &["item", "text"]).unwrap_or_default();
                self.last_words = said(text);
            }
            Some("command_execution" | "file_change" | "mcp_tool_call" | "web_search") => {
                self.tools.push(ToolUse {
                    name: kind.unwrap_or_default().to_owned(),
                    ok: text_at(event, &["item", "status"]) == Some("completed"),
                });
            }
            // An item `error` is a warning, e.g. of a model without metadata.
            _ => {}
        }
    }
}
