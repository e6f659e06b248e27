//! Codex CLI (exec-CLIs spec 4). The sandbox is ours, so its own is off; retries are the relay's.

use super::{Call, Cli, Errand, File, Needs, Range, SKILL_NAME, Version, args, env, escaped};
use crate::relay::Wire;
use crate::streams::Dialect;

pub(super) const CODEX: Cli = Cli {
    backend: "codex_exec",
    program: "codex",
    package: "@openai/codex",
    tested: Range {
        first: Version(0, 171, 0),
        last: Version(0, 171, 0),
    },
    wire: Wire::Responses,
    is_direct: false,
    dialect: Dialect::Codex,
    needs: Needs {
        memory_mib: 160,
        disk_mib: 16,
    },
    replaces: &[],
    call,
};

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
