//! Codex CLI (exec-CLIs spec 4). The sandbox is ours, so its own is off; retries are the relay's.

use super::{Call, Cli, Errand, File, Range, SKILL_NAME, Version, args, env, escaped};
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
    dialect: Dialect::Codex,
    call,
};

const LAST_WORDS: &str = ".skillopt/last_words.txt";

fn call(errand: &Errand<'_>) -> Call {
    let mut words = args(&[
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--ephemeral",
        "--sandbox",
        "danger-full-access",
        "-m",
        errand.model,
        "-o",
    ]);
    words.push(format!("{}/{LAST_WORDS}", errand.work));
    words.push("-".to_owned());
    let mut files = errand.skill_in(".agents/skills");
    files.push(File::home(".codex/config.toml", config(errand)));
    // The folder of the answer must exist.
    files.push(File::work(".skillopt/.keep", ""));
    Call {
        args: words,
        env: env(&[
            ("CODEX_HOME", &format!("{}/.codex", errand.home)),
            ("MODEL_API_KEY", errand.key),
        ]),
        // The skill's name after a dollar sign puts its whole text into the first request.
        stdin: format!("${SKILL_NAME}\n\n{}", escaped(errand.prompt)),
        files,
        last_words: Some(LAST_WORDS.to_owned()),
    }
}

fn config(errand: &Errand<'_>) -> String {
    let search = match errand.setting("codex_exec_web_search") {
        Some("true") => "live",
        _ => "disabled",
    };
    let mut text = format!(
        "model = {model}\n\
         model_provider = \"relay\"\n\
         web_search = \"{search}\"\n",
        model = quoted(errand.model),
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
