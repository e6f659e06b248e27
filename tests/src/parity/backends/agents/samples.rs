//! Outputs of real CLIs, and which flags they took.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use skillopt_agents::cli::{self, Errand};
use skillopt_agents::streams::{End, Stream};
use skillopt_agents::{Account, Outcome};

use super::text;

/// Runs one sample, or one check of a flag.
pub(super) fn run(case: &Value) -> Result<(), String> {
    if case["flag"].is_string() {
        flag(case)
    } else {
        sample(case)
    }
}

fn sample(case: &Value) -> Result<(), String> {
    let id = text(&case["id"]);
    let backend = match id.split('/').next() {
        Some("codex") => "codex_exec",
        Some("claude") => "claude_code_exec",
        _ => "copilot_exec",
    };
    let cli = cli::find(backend).ok_or_else(|| format!("`{backend}` is not built in"))?;
    let exit_code = case["exit_code"].as_i64().unwrap_or(0);
    let mut stream = Stream::new(cli.dialect);
    let stdout = text(&case["stdout"]);
    stdout.lines().for_each(|line| stream.line(line.as_bytes()));
    let account = stream.end(End {
        exit_code: i32::try_from(exit_code).ok(),
        was_told_to_go: false,
    });
    let has_events = stdout.starts_with('{');
    let want = match id.rsplit('/').next().unwrap_or_default() {
        // A log is no account: whatever it says, it is not believed.
        _ if !has_events => Outcome::Crashed,
        name if name.ends_with("401") || name.ends_with("not_logged_in") => Outcome::AuthError,
        name if name.ends_with("429") => Outcome::RateLimited,
        name if name.ends_with("500") => Outcome::ServerError,
        _ if exit_code == 0 => Outcome::Success,
        _ => Outcome::Crashed,
    };
    if account.outcome != want {
        return Err(format!("{account:?}, wanted {want:?}"));
    }
    if want == Outcome::Success {
        answered(&account, stdout)?;
    }
    Ok(())
}

/// An answer has words or a structure, and tokens; both stand in what was printed.
fn answered(account: &Account, stdout: &str) -> Result<(), String> {
    let words = account.final_text.as_deref().unwrap_or_default();
    let quoted = Value::from(words).to_string();
    let is_said = stdout.contains(quoted.trim_matches('"')) && !words.is_empty();
    let is_structured = account.structured_output.is_some();
    let usage = account.usage.unwrap_or_default();
    if (is_said || is_structured) && !usage.is_zero() && account.errors.is_empty() {
        Ok(())
    } else {
        Err(format!("{account:?}"))
    }
}

/// A flag that a CLI does not take is never given to it, whatever the settings.
fn flag(case: &Value) -> Result<(), String> {
    let backend = match text(&case["cli"]).split(' ').next() {
        Some("codex") => "codex_exec",
        Some("claude") => "claude_code_exec",
        Some("copilot") => "copilot_exec",
        other => return Err(format!("no such CLI: {other:?}")),
    };
    let cli = cli::find(backend).ok_or("no such CLI")?;
    let files = BTreeMap::new();
    let settings = [
        ("claude_code_exec_profile", "p"),
        ("codex_exec_approval_policy", "on-request"),
    ];
    let settings: Map<String, Value> = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    let call = (cli.call)(&Errand {
        prompt: "x",
        skill: "x",
        skill_files: &files,
        model: "m",
        port: 1,
        key: "k",
        effort: "high",
        max_tokens: 1,
        wants_files: true,
        home: "/h",
        work: "/h/w",
        settings: &settings,
    });
    let words: Vec<&str> = text(&case["flag"]).split(' ').collect();
    let first = words.first().copied().unwrap_or_default();
    // With `-c` and the like, the setting after it is the flag.
    let wanted = match words.get(1) {
        Some(setting) if matches!(first, "-c" | "--config") => setting,
        _ => first,
    };
    let is_given = call.args.iter().any(|arg| arg == wanted);
    match &case["accepted"] {
        Value::Bool(false) if is_given => Err(format!("{:?} holds `{wanted}`", call.args)),
        // Our prompt never stands among the arguments, and standard input is closed.
        Value::String(_) if first == "prompt" && call.args.iter().any(|arg| arg == "x") => {
            Err(format!("{:?} holds the prompt", call.args))
        }
        _ => Ok(()),
    }
}
