//! The nightly tool's calls of programs, as calls of our text models.
//!
//! What it tells a program is put into our words, and each rule says why:
//! - a prompt is a conversation of one message, written down as ours are: Claude's and Codex' programs
//!   are told that it is one;
//! - what variables of its own say of a model is our key `optimizer_model` (`copilot_chat_optimizer_model`
//!   for Copilot), and so is the model that it takes where nobody says;
//! - Claude and Codex print events, since plain text hides failures and counts: what a case has them
//!   print is put into such;
//! - a folder of a project, tools that a variable allows and a whole environment are not passed on: a
//!   text model runs alone (backends spec 8, points 1 and 7);
//! - the marker line before Cursor's prompt tells the tool's own calls from its user's in a history that
//!   both are in; our programs leave no history;
//! - there is one policy of tries: a failure whose words name no cause may pass, so Cursor is asked
//!   again where the tool gives up ([`ASKED_AGAIN`]), with the waits that all calls have.

use serde_json::{Value, json};

use super::super::exec;

/// What the reference's words for a class of programs are here.
struct Program {
    class: &'static str,
    /// Our backend, as its own cases name it, and as a run does.
    case: &'static str,
    backend: &'static str,
    /// Where the tool looks for a model, and the key that takes it here.
    model: (&'static str, &'static str),
    /// The model where nobody says.
    usual: &'static str,
    /// Tries of one call of the tool.
    tries: u64,
}

const PROGRAMS: &[Program] = &[
    Program {
        class: "claude",
        case: "claude_chat",
        backend: "claude_chat",
        model: ("SKILLOPT_SLEEP_CLAUDE_MODEL", "optimizer_model"),
        usual: "sonnet",
        tries: 1,
    },
    Program {
        class: "codex",
        case: "codex_optimizer",
        backend: "codex_exec",
        model: ("SKILLOPT_SLEEP_CODEX_MODEL", "optimizer_model"),
        usual: "",
        tries: 3,
    },
    Program {
        class: "copilot",
        case: "copilot_chat",
        backend: "copilot_chat",
        model: (
            "SKILLOPT_SLEEP_COPILOT_MODEL",
            "copilot_chat_optimizer_model",
        ),
        usual: "",
        tries: 1,
    },
    Program {
        class: "cursor",
        case: "cursor_chat",
        backend: "cursor_chat",
        model: ("SKILLOPT_SLEEP_CURSOR_MODEL", "optimizer_model"),
        usual: "",
        tries: 2,
    },
    Program {
        class: "pi",
        case: "pi_chat",
        backend: "pi_chat",
        model: ("SKILLOPT_SLEEP_PI_MODEL", "optimizer_model"),
        usual: "",
        tries: 1,
    },
    Program {
        class: "opencode",
        case: "opencode_chat",
        backend: "opencode_chat",
        model: ("SKILLOPT_SLEEP_OPENCODE_MODEL", "optimizer_model"),
        usual: "",
        tries: 1,
    },
];

/// What is told of each failure: its kind and its words.
const FAILURES: &[(&str, &str, &str)] = &[
    ("codex_nonzero_retried_3", "cli_error_text", "boom"),
    (
        "cursor_config_error_not_retried",
        "refused_by_itself",
        "Unknown option --x",
    ),
    ("cursor_error_result", "cli_error_text", "quota"),
    ("cursor_nonzero", "cli_error_text", "boom"),
    ("pi_nonzero_never_an_answer", "cli_error_text", "oops"),
    ("pi_empty", "no_result_event", ""),
    (
        "opencode_mcp_still_enabled_refuses",
        "refused_by_itself",
        "`gh`",
    ),
    (
        "opencode_snapshot_on_refuses",
        "refused_by_itself",
        "snapshots",
    ),
    (
        "opencode_malformed_stream",
        "cli_error_text",
        "a line is no event",
    ),
    ("opencode_mixed_session", "cli_error_text", "two sessions"),
    ("opencode_incomplete", "cli_error_text", "no end"),
];

/// Failures after which the tool gives up and we ask again.
const ASKED_AGAIN: &[&str] = &["cursor_error_result", "cursor_nonzero"];

/// Options of the tool without a counterpart, with how many words of a value: what they switch off is
/// never on here, or they allow what a text model is not allowed.
const WITHOUT: &[(&str, usize)] = &[
    ("--bare", 0),
    ("--disallowedTools", 1),
    ("--exclude-dynamic-system-prompt-sections", 0),
    ("--color", 1),
    ("--allow-all-tools", 0),
    ("-C", 1),
];

/// Options that have another name or value here.
const RENAMED: &[(&str, &str)] = &[
    ("-o", "--output-last-message"),
    ("-m", "--model"),
    // After `--output-format`.
    ("text", "json"),
];

/// Runs a case.
pub(super) fn run(case: &Value) -> Result<(), String> {
    exec::run(&ours(case)?)?;
    match case["id"].as_str() {
        Some("sleep/codex_stdout_fallback") => plain_words_are_no_answer(case),
        Some("sleep/cursor_call") => every_tool_is_denied(case),
        _ => Ok(()),
    }
}

/// Puts a case into our words.
fn ours(case: &Value) -> Result<Value, String> {
    let class = case["input"]["backend_class"].as_str().unwrap_or_default();
    let program = PROGRAMS.iter().find(|program| program.class == class);
    let program = program.ok_or("no counterpart")?;
    let input = &case["input"];
    let mut env = input["env"].clone();
    for role in ["OPTIMIZER_BACKEND", "TARGET_BACKEND"] {
        env[role] = program.backend.into();
    }
    let (variable, key) = program.model;
    let model = env[variable].as_str().unwrap_or(program.usual).to_owned();
    let listed = case["expected_request"]["invocations"].as_array();
    let mut invocations = listed.cloned().unwrap_or_default();
    for invocation in &mut invocations {
        told(program, invocation);
    }
    let id = name(case);
    if ASKED_AGAIN.contains(&id) {
        invocations[0]["identical_repeats"] = (program.tries - 1).into();
    }
    let script = case["response"]["script"].as_array().into_iter().flatten();
    let script: Vec<Value> = script.map(|step| said(program, step)).collect();
    Ok(json!({
        "id": case["id"], "backend": program.case,
        "input": {
            "env": env,
            "config": {key: model},
            "call": {
                "op": "chat_messages", "role": "optimizer", "retries": program.tries,
                "timeout": invocations[0]["timeout_s"],
                "messages": [{"role": "user", "content": input["prompt"]}],
            },
        },
        "expected_request": {"kind": "exec", "invocations": invocations},
        "response": {"kind": "exec", "script": script},
        "expected_result": result(case)?,
    }))
}

fn name(case: &Value) -> &str {
    let id = case["id"].as_str().unwrap_or_default();
    id.trim_start_matches("sleep/")
}

/// What the program is told.
fn told(program: &Program, invocation: &mut Value) {
    let mut argv = Vec::new();
    let words = invocation["argv"].as_array().cloned().unwrap_or_default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let is = |known: &&str| word == **known;
        if let Some((_, values)) = WITHOUT.iter().find(|(option, _)| is(option)) {
            let _ = words.by_ref().take(*values).count();
            continue;
        }
        let renamed = RENAMED.iter().find(|(option, _)| is(option));
        argv.push(renamed.map_or(word, |(_, ours)| (*ours).into()));
    }
    invocation["argv"] = argv.into();
    if let Some(text) = invocation["stdin"].as_str() {
        let lines = text.replace('\n', "\n  ");
        let text = match program.class {
            "claude" | "codex" => {
                format!("{{{{slot:header}}}}\n- User: {lines}\n\n{{{{slot:answer}}}}")
            }
            "cursor" => text
                .split_once("\n\n")
                .map_or(text, |(_, text)| text)
                .to_owned(),
            _ => text.to_owned(),
        };
        invocation["stdin"] = text.into();
    }
    // Ours is made by the program.
    invocation["argv_files"] = Value::Null;
    match program.class {
        // A home of its own is there always, and a switch that allows everything never.
        "copilot" => {
            invocation["env_values"] = Value::Null;
            invocation["env_removed"] = json!(["COPILOT_ALLOW_ALL", "COPILOT_AVAILABLE_TOOLS"]);
            invocation["env_shown"] = json!(["COPILOT_HOME"]);
        }
        // The folders are of one exchange.
        "cursor" => {
            let names = invocation["env_names"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            // Those of the test's own machine.
            let shown = names.into_iter().filter(|name| {
                let name = name.as_str().unwrap_or_default();
                name.starts_with("CURSOR_") || name == "HTTPS_PROXY"
            });
            invocation["env_shown"] = shown.collect();
            invocation["env_removed"] = json!(["AZURE_OPENAI_API_KEY"]);
            invocation["env_values"] = Value::Null;
        }
        "pi" => {
            let values = json!({
                "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0",
            });
            invocation["env_values"] = values;
        }
        "claude" | "codex" => {
            let names = invocation["env_names"].as_array().into_iter().flatten();
            let plain = ["AWS_SECRET_ACCESS_KEY", "CANARY_PLAIN", "GITHUB_TOKEN"];
            let removed = names.filter(|name| plain.iter().any(|plain| **name == **plain));
            invocation["env_removed"] = removed.cloned().collect();
        }
        _ => {}
    }
}

/// What the program says.
fn said(program: &Program, step: &Value) -> Value {
    let mut step = step.clone();
    let text = step["stdout"]
        .as_str()
        .unwrap_or_default()
        .trim()
        .to_owned();
    let ended = json!({"type": "turn.completed", "usage": {}});
    match program.class {
        "claude" => {
            let result = json!({
                "type": "result", "subtype": "success", "is_error": false, "result": text,
            });
            step["stdout"] = format!("{result}\n").into();
        }
        "codex" if step["write_flag"].is_object() => {
            step["write_flag"] = json!({"--output-last-message": step["write_flag"]["-o"]});
            step["stdout"] = format!("{ended}\n").into();
        }
        "codex" if !text.is_empty() => {
            let item = json!({"type": "agent_message", "text": text});
            let event = json!({"type": "item.completed", "item": item});
            step["stdout"] = format!("{event}\n{ended}\n").into();
        }
        _ => {}
    }
    step
}

/// What comes of it. Tokens are those that a program tells of; the tool guesses them by length.
fn result(case: &Value) -> Result<Value, String> {
    let wanted = &case["expected_result"]["ok"];
    let used = |calls: u64| json!({"calls": calls, "prompt_tokens": 0, "completion_tokens": 0});
    let is_failure = wanted["has_error"] == true || wanted["raised"].is_string();
    if !is_failure {
        return Ok(json!({
            "ok": {"text": wanted["response"], "usage": used(1)},
            "token_summary": {"_total": used(1)},
        }));
    }
    let mut known = FAILURES.iter();
    let failure = known.find(|(id, ..)| *id == name(case));
    let (_, kind, words) = failure.ok_or("nothing is said of its failure")?;
    Ok(json!({
        "error": {"kind": kind, "detail": words},
        "token_summary": {"_total": used(0)},
    }))
}

/// Beside its events a program speaks for itself and not for its model.
fn plain_words_are_no_answer(case: &Value) -> Result<(), String> {
    let mut ours = ours(case)?;
    ours["response"] = case["response"].clone();
    let seen = exec::seen(&ours)?;
    let mut answers = seen.calls.iter().map(|call| &call.outcome);
    match answers.find(|answer| !matches!(answer, Some(Err(_)))) {
        None => Ok(()),
        Some(answer) => Err(format!("plain words were taken for an answer: {answer:?}")),
    }
}

/// Cursor's settings deny what its mode should not even offer.
fn every_tool_is_denied(case: &Value) -> Result<(), String> {
    for started in exec::started(&ours(case)?)? {
        let settings = started.file("cli-config.json").unwrap_or_default();
        let settings: Value = serde_json::from_slice(settings).map_err(|e| e.to_string())?;
        let denied = &settings["permissions"]["deny"];
        for tool in ["Read(**)", "Write(**)", "Mcp(*:*)", "Shell(*)"] {
            if !denied
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == tool))
            {
                return Err(format!("`{tool}` is not denied: {settings}"));
            }
        }
    }
    Ok(())
}
