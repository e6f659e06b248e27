//! GitHub Copilot CLI with a provider of our own (exec-CLIs spec 6.2): no login is needed.
//!
//! It prints the events of `copilot --output-format json`. It prints no tokens.

use serde_json::Value;

use super::{Call, Cli, Errand, Needs, Range, Version, args, with_skill};
use crate::account::{Account, Outcome, ToolUse};
use crate::relay::Wire;
use crate::streams::{Dialect, End, Reader, at, count_at, failure, said, text_at};

pub(super) const COPILOT: Cli = Cli {
    backend: "copilot_exec",
    program: "copilot",
    package: "@github/copilot",
    native: "@github/copilot-linux-x64/copilot",
    tested: Range {
        first: Version(1, 0, 102),
        last: Version(1, 0, 102),
    },
    wire: Wire::Chat,
    vendor: None,
    dialect: Dialect {
        name: "copilot",
        reader: || Box::<Copilot>::default(),
    },
    needs: Needs {
        memory_mib: 360,
        disk_mib: 300,
    },
    replaces: &[],
    since: &[],
    never: &[],
    call,
};

fn call(errand: &Errand<'_>) -> Call {
    let mut words = args(&[
        "--output-format",
        "json",
        "--stream",
        "off",
        "--no-color",
        "--log-level",
        "none",
        "--disable-builtin-mcps",
        "--no-custom-instructions",
    ]);
    // Without it every tool is refused, for nobody is there to be asked.
    if errand.setting("copilot_exec_allow_all_tools") != Some("false") {
        words.push("--allow-all-tools".to_owned());
    }
    if !errand.effort.is_empty() {
        words.extend(args(&["--reasoning-effort", errand.effort]));
    }
    Call {
        args: words,
        env: errand.env(
            &[
                ("COPILOT_HOME", &format!("{}/.copilot", errand.home)),
                ("COPILOT_OFFLINE", "true"),
                ("COPILOT_AUTO_UPDATE", "false"),
                ("COPILOT_PROVIDER_BASE_URL", &errand.url("/v1")),
                ("COPILOT_PROVIDER_API_KEY", errand.key),
                ("COPILOT_MODEL", errand.model),
            ],
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS",
        ),
        stdin: with_skill(errand),
        files: errand.skill_in(".agents/skills"),
    }
}

#[derive(Default)]
struct Copilot {
    last_words: Option<String>,
    /// Tools that began, by the id of the call.
    begun: Vec<(String, String)>,
    tools: Vec<ToolUse>,
    error: Option<(u64, String)>,
    exit_code: Option<i64>,
}

impl Reader for Copilot {
    fn event(&mut self, event: &Value) {
        if event.get("ephemeral").and_then(Value::as_bool) == Some(true) {
            return;
        }
        let data = |key: &str| {
            text_at(event, &["data", key])
                .unwrap_or_default()
                .to_owned()
        };
        match text_at(event, &["type"]) {
            Some("assistant.message") => {
                if let Some(words) = said(&data("content")) {
                    self.last_words = Some(words);
                }
            }
            Some("tool.execution_start") => self.begun.push((data("toolCallId"), data("toolName"))),
            Some("tool.execution_complete") => self.done(event, &data("toolCallId")),
            Some("session.error") => {
                let status = count_at(event, &["data", "statusCode"]);
                self.error = Some((status, data("message")));
            }
            Some("result") => self.exit_code = event.get("exitCode").and_then(Value::as_i64),
            _ => {}
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let this = *self;
        let mut account = Account {
            final_text: this.last_words,
            tool_calls: this.tools,
            terminal: this.exit_code.map(|code| format!("exitCode {code}")),
            ..Account::of(Outcome::Crashed)
        };
        let failed = this.exit_code.is_none_or(|code| code != 0);
        account.outcome = match this.error {
            // An error that it got over is none.
            Some((status, words)) if failed => {
                let by_status = u16::try_from(status).ok().and_then(failure::of_status);
                let class = by_status.unwrap_or_else(|| failure::of_words(&words));
                account.errors.push(words);
                class
            }
            _ if this.exit_code == Some(0) => Outcome::Success,
            _ if end.by_signal() => Outcome::Killed,
            _ => Outcome::Crashed,
        };
        account
    }
}

impl Copilot {
    fn done(&mut self, event: &Value, id: &str) {
        let begun = self.begun.iter().position(|(known, _)| known == id);
        let name = begun.map(|at| self.begun.remove(at).1).unwrap_or_default();
        let success = at(event, &["data", "success"]).and_then(Value::as_bool);
        let exit = at(event, &["data", "shellExecution", "exitCode"]).and_then(Value::as_i64);
        self.tools.push(ToolUse {
            name,
            ok: success == Some(true) && exit.unwrap_or(0) == 0,
        });
    }
}
