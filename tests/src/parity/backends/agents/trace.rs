//! Trajectories and what is taken from them.
//!
//! The reference takes a human-readable log apart. We read events, and the trajectory is what went
//! through the relay. So a log of a case is read here, step by step, said anew in events and in
//! exchanges with a model, and what we make of those must hold what the reference makes of the log.
//! What a log tells of settings (sandbox, effort, session) is no news to us: we set them.

use std::sync::Arc;

use serde_json::{Value, json};
use skillopt_agents::cli;
use skillopt_agents::relay::{Exchange, Record, Said, Tokens};
use skillopt_agents::streams::{Dialect, End, Stream};
use skillopt_agents::{Account, Outcome};
use skillopt_config::{Context, Flat, Origin, RunConfig};
use skillopt_core::role::Role;
use skillopt_runtime::redact::{REDACTED, likely};

use super::text;

/// One step of a log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogStep {
    kind: String,
    content: String,
}

impl LogStep {
    /// Returns a command, whether it worked, and what it gave back.
    pub(super) fn command(&self) -> Option<(&str, bool, String)> {
        if self.kind != "exec" {
            return None;
        }
        let mut lines = self.content.lines();
        let command = lines.next().unwrap_or_default();
        let outcome = lines.next().unwrap_or_default();
        let output: Vec<&str> = lines.collect();
        // Every end but success is a failure.
        Some((command, outcome.contains("succeeded"), output.join("\n")))
    }
}

/// Takes a log apart at the words that begin a step.
pub(super) fn steps(log: &str) -> Vec<LogStep> {
    let mut steps: Vec<LogStep> = Vec::new();
    for line in log.lines() {
        if matches!(line, "user" | "codex" | "exec") {
            steps.push(LogStep {
                kind: line.to_owned(),
                content: String::new(),
            });
        } else if let Some(step) = steps.last_mut() {
            step.content.push_str(line);
            step.content.push('\n');
        }
    }
    for step in &mut steps {
        step.content = step.content.trim().to_owned();
    }
    steps
}

/// Runs one case.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let wanted = &case["expected_result"]["ok"];
    let is_bug = case["reference_bug"] == true;
    match text(&input["op"]) {
        "parse_codex_raw" => rows(wanted, |row| log(text(&row["args"][0]), is_bug)),
        // A beginning of a trajectory is the beginning of its entries, which stand in order.
        "extract_codex_trace_prefix" => log(text(&input["raw"]), is_bug),
        "build_codex_trace_summary" => codex_summary(input, wanted, is_bug),
        "build_claude_trace_summary" => claude_summary(input, wanted),
        "build_cursor_trace_summary" => cursor_summary(input, wanted),
        "redact_cursor_error" => rows(wanted, |row| redacted(row, is_bug)),
        "sanitize_cursor_trace" => sanitized(input, text(wanted)),
        "parse_copilot_jsonl" => rows(wanted, copilot),
        "sdk_modes" => rows(wanted, |row| list(&row["result"], sdk_mode)),
        "efforts" => rows(wanted, |row| list(&row["result"], effort)),
        "structured" => rows(wanted, |row| list(&row["result"], structured)),
        other => Err(format!("no counterpart for `{other}`")),
    }
}

fn rows(wanted: &Value, row: impl Fn(&Value) -> Result<(), String>) -> Result<(), String> {
    list(wanted, row)
}

fn list(values: &Value, one: impl Fn(&Value) -> Result<(), String>) -> Result<(), String> {
    let values = values.as_array().filter(|list| !list.is_empty());
    values.ok_or("no rows")?.iter().try_for_each(one)
}

fn check(is: bool, why: impl std::fmt::Display) -> Result<(), String> {
    if is { Ok(()) } else { Err(why.to_string()) }
}

fn end(exit_code: i32) -> End {
    End {
        exit_code: Some(exit_code),
        was_told_to_go: false,
    }
}

fn dialect(backend: &str) -> Dialect {
    // Whatever is asked for here is built in.
    cli::find(backend).map_or(cli::ALL[0].dialect, |cli| cli.dialect)
}

fn read(dialect: Dialect, lines: &str, exit_code: i32) -> Account {
    let mut stream = Stream::new(dialect);
    lines.lines().for_each(|line| stream.line(line.as_bytes()));
    stream.end(end(exit_code))
}

/// A log as a trajectory: what the model said and called, and what came back.
fn log(raw: &str, is_bug: bool) -> Result<(), String> {
    let mut steps = steps(raw);
    if is_bug {
        steps = with_their_output(steps);
    }
    let entries = skillopt_agents::trace::entries(&record(&steps));
    // What the agent was told is known, and its last words stand by themselves.
    let has_last_words = steps.last().is_some_and(|step| step.kind == "codex");
    let told = steps.len() - usize::from(has_last_words);
    let wanted = steps[..told].iter().filter(|step| step.kind != "user");
    let wanted: Vec<&LogStep> = wanted.collect();
    check(
        wanted.len() == entries.len(),
        format!("{entries:?}, wanted {wanted:?}"),
    )?;
    for (wanted, entry) in wanted.iter().zip(&entries) {
        let is_same = match wanted.command() {
            Some((command, _, output)) => {
                entry["type"] == "tool_call"
                    && text(&entry["cmd"]).contains(command)
                    && text(&entry["obs"]) == output
            }
            None => text(&entry["content"]) == wanted.content,
        };
        check(is_same, format!("{entry}, wanted {wanted:?}"))?;
    }
    Ok(())
}

/// A line of output that is a word of the log begins no step: in events it is part of the output.
fn with_their_output(steps: Vec<LogStep>) -> Vec<LogStep> {
    let last = steps.len().saturating_sub(1);
    let mut whole: Vec<LogStep> = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        match whole.last_mut() {
            Some(before) if before.kind == "exec" && at < last => {
                before
                    .content
                    .push_str(&format!("\n{}\n{}", step.kind, step.content));
            }
            _ => whole.push(step),
        }
    }
    whole
}

fn record(steps: &[LogStep]) -> Record {
    let mut exchanges = Vec::new();
    let mut conversation = Vec::new();
    for (at, step) in steps.iter().filter(|step| step.kind != "user").enumerate() {
        let request = Arc::new(json!({"input": conversation}));
        let said = match step.command() {
            Some((command, _, output)) => {
                let arguments = json!({"cmd": command}).to_string();
                conversation.push(json!({
                    "type": "function_call", "call_id": at.to_string(), "name": "exec_command",
                    "arguments": arguments,
                }));
                conversation.push(json!({
                    "type": "function_call_output", "call_id": at.to_string(), "output": output,
                }));
                Said {
                    calls: vec![("exec_command".to_owned(), arguments)],
                    ..Said::default()
                }
            }
            None => Said {
                text: step.content.clone(),
                ..Said::default()
            },
        };
        exchanges.push(exchange(request, said));
    }
    // A log that ends with a command leaves its output to be sent.
    let is_open = steps.last().is_some_and(|step| step.kind == "exec");
    if is_open {
        let request = Arc::new(json!({"input": conversation}));
        exchanges.push(exchange(request, Said::default()));
    }
    Record {
        exchanges,
        ..Record::default()
    }
}

fn exchange(request: Arc<Value>, said: Said) -> Exchange {
    Exchange {
        request,
        status: 200,
        tries: 1,
        said,
        tokens: Tokens::default(),
    }
}

fn codex_summary(input: &Value, wanted: &Value, is_bug: bool) -> Result<(), String> {
    let steps = steps(text(&input["raw"]));
    let commands: Vec<(&str, bool, String)> = steps.iter().filter_map(LogStep::command).collect();
    let mut lines = String::new();
    for (command, ok, output) in &commands {
        let item = json!({"type": "item.completed", "item": {
            "type": "command_execution", "command": command, "aggregated_output": output,
            "exit_code": i32::from(!ok), "status": if *ok { "completed" } else { "failed" },
        }});
        lines.push_str(&format!("{item}\n"));
    }
    let words = text(&input["response"]);
    let said = json!({"type": "item.completed", "item": {"type": "agent_message", "text": words}});
    lines.push_str(&format!(
        "{said}\n{{\"type\":\"turn.completed\",\"usage\":{{}}}}\n"
    ));
    let account = read(dialect("codex_exec"), &lines, 0);
    for (field, file) in [("read_task_md", "task.md"), ("read_skill_md", "SKILL.md")] {
        let at = commands
            .iter()
            .position(|(command, _, _)| command.contains(file));
        let seen = match at.and_then(|at| account.tool_calls.get(at)) {
            Some(tool) if tool.ok => "success",
            Some(_) => "failed",
            None => "unknown",
        };
        // An end that is no success is a failure.
        let right = if is_bug && at.is_some() {
            "failed"
        } else {
            text(&wanted[field])
        };
        check(
            seen == right,
            format!("`{field}` is {seen}, wanted {right}"),
        )?;
    }
    let errors = text(&wanted["shell_tool_errors"]);
    let outputs: Vec<&str> = commands
        .iter()
        .map(|(_, _, output)| output.as_str())
        .collect();
    for error in errors.split(" | ").filter(|error| *error != "none") {
        let is_there = outputs.iter().any(|output| output.contains(error));
        check(is_there, format!("`{error}` is in no output"))?;
    }
    let is_missing = wanted["final_answer_format"] == "missing";
    let seen = account.final_text.as_deref().unwrap_or_default();
    check(
        seen == words && is_missing == seen.is_empty(),
        format!("the last words are {seen:?}"),
    )
}

fn claude_summary(input: &Value, wanted: &Value) -> Result<(), String> {
    let (raw, words) = (text(&input["raw"]), text(&input["response"]));
    let call = json!({"type": "assistant", "message": {"content": [
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {}},
    ]}});
    let back = json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "content": raw, "is_error": true},
    ]}});
    let end = json!({
        "type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "result": words,
        "modelUsage": {"m": {"inputTokens": 1, "outputTokens": 1}},
    });
    let account = read(
        dialect("claude_code_exec"),
        &format!("{call}\n{back}\n{end}\n"),
        0,
    );
    let seen = account.final_text.unwrap_or_default();
    let chars = text(&wanted["final_response_chars"]);
    check(
        seen == words && seen.chars().count().to_string() == chars,
        format!("the last words are {seen:?}"),
    )?;
    // The lines that tell of errors stand in the trajectory, with all that the tool gave back.
    let record = Record {
        exchanges: vec![
            exchange(
                Arc::default(),
                Said {
                    calls: vec![("Bash".to_owned(), "{}".to_owned())],
                    ..Said::default()
                },
            ),
            exchange(
                Arc::new(json!({"messages": [call["message"], back["message"]]})),
                Said::default(),
            ),
        ],
        ..Record::default()
    };
    let entries = skillopt_agents::trace::entries(&record);
    let output = entries.first().map_or("", |entry| text(&entry["obs"]));
    let mut errors = text(&wanted["errors"]).split(" | ");
    check(
        errors.all(|error| error == "none" || output.contains(error)),
        format!("the trajectory is {entries:?}"),
    )
}

fn cursor_summary(input: &Value, wanted: &Value) -> Result<(), String> {
    let account = read(dialect("cursor_exec"), text(&input["raw"]), 0);
    let tools = account.tool_calls.len().to_string();
    check(
        tools == text(&wanted["tool_calls"]),
        format!("{tools} tools, wanted {}", wanted["tool_calls"]),
    )?;
    let is_error = account.outcome != Outcome::Success && account.is_error == Some(true);
    let wants_error = wanted["terminal_error"] == "yes";
    check(is_error == wants_error, format!("it came to {account:?}"))
}

/// Credentials are masked by what stands before them and by their form; the word for it is ours.
fn redacted(row: &Value, is_bug: bool) -> Result<(), String> {
    let given = text(&row["args"][0]);
    let seen = likely(given);
    if is_bug {
        // Each value that the reference leaves must go.
        let mut values = given.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
        let left = values.find(|value| value.len() >= 12 && seen.contains(*value));
        return check(left.is_none(), format!("{left:?} is left in {seen:?}"));
    }
    let wanted = text(&row["result"]).replace("[REDACTED]", REDACTED);
    check(seen == wanted, format!("{seen:?}, wanted {wanted:?}"))
}

/// What a program prints that is no event is kept nowhere, and what it says of a failure goes without
/// credentials.
fn sanitized(input: &Value, wanted: &str) -> Result<(), String> {
    let raw = text(&input["raw"]);
    let account = read(dialect("cursor_exec"), raw, 0);
    let lines = raw.lines().filter(|line| !line.trim().is_empty()).count();
    check(
        account.unread_lines == u64::try_from(lines).unwrap_or(0) && account.trace.is_empty(),
        format!("{account:?}"),
    )?;
    let kept = wanted.lines().filter(|line| line.contains("[REDACTED]"));
    for line in kept {
        let wanted = line.replace("[REDACTED]", REDACTED);
        let seen = likely(raw);
        check(
            seen.contains(&wanted),
            format!("{seen:?}, wanted {wanted:?}"),
        )?;
    }
    Ok(())
}

/// The last message is the answer (exec-CLIs spec 6.2), not all of them together.
fn copilot(row: &Value) -> Result<(), String> {
    let lines = format!(
        "{}{{\"type\":\"result\",\"exitCode\":0}}\n",
        text(&row["args"][0])
    );
    let seen = read(dialect("copilot_exec"), &lines, 0)
        .final_text
        .unwrap_or_default();
    let wanted = text(&row["result"]);
    check(
        wanted.trim().ends_with(seen.trim()) && seen.is_empty() == wanted.is_empty(),
        format!("{seen:?}, wanted the end of {wanted:?}"),
    )
}

/// A word that the reference does not know is an error; it takes it for `auto`. A truth value in a
/// file is the word for it.
fn sdk_mode(row: &Value) -> Result<(), String> {
    let (word, wanted) = (&row[0], text(&row[1]));
    let mut keys = json!({"target_backend": "codex_exec"});
    if !word.is_null() {
        keys["codex_exec_use_sdk"] = word.clone();
    }
    let seen = match resolve(&keys) {
        Err(_) => "refused".to_owned(),
        Ok(config) => match config.backends.get(Role::Target, "codex_exec_use_sdk") {
            Some(Value::String(word)) => word.clone(),
            _ => "auto".to_owned(),
        },
    };
    let right = match (word, wanted) {
        (Value::Bool(false), _) | (_, "cli") => "false",
        (_, "sdk") => "true",
        (Value::String(word), "auto") if !matches!(word.to_lowercase().as_str(), "" | "auto") => {
            "refused"
        }
        _ => "auto",
    };
    check(seen == right, format!("{word} is {seen}, wanted {right}"))
}

fn resolve(keys: &Value) -> Result<RunConfig, String> {
    let origin = Origin::File {
        path: "case.yaml".into(),
        line: 1,
        column: 1,
    };
    let none = serde_json::Map::new();
    let flat = Flat::from_json(keys.as_object().unwrap_or(&none), &origin);
    let context = Context {
        benchmarks: None,
        env: &|_| None,
    };
    RunConfig::resolve(&flat, &context)
        .map(|(config, _)| config)
        .map_err(|e| e.to_string())
}

fn effort(row: &Value) -> Result<(), String> {
    let (word, wanted) = (text(&row[0]), text(&row[1]));
    let cli = skillopt_agents::cli::find("claude_code_exec").ok_or("no such CLI")?;
    let (files, settings) = Default::default();
    let call = (cli.call)(&skillopt_agents::cli::Errand {
        prompt: "x",
        skill: "x",
        skill_files: &files,
        model: "m",
        port: 1,
        key: "k",
        effort: word,
        max_tokens: 0,
        wants_files: false,
        home: "/h",
        work: "/h/w",
        settings: &settings,
    });
    let at = call.args.iter().position(|arg| arg == "--effort");
    let seen = at
        .and_then(|at| call.args.get(at + 1))
        .map_or("", String::as_str);
    check(
        seen == wanted,
        format!("`{word}` is `{seen}`, wanted `{wanted}`"),
    )
}

/// No JSON is asked for, so that an answer is what was said: trimmed, and none if it is blank.
fn structured(row: &Value) -> Result<(), String> {
    let wanted = text(&row["response"]);
    let said = format!(" {wanted} ");
    let end = json!({
        "type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "result": said,
        "modelUsage": {"m": {"inputTokens": 1, "outputTokens": 1}},
    });
    let account = read(dialect("claude_code_exec"), &format!("{end}\n"), 0);
    let seen = account.final_text.unwrap_or_default();
    let is_error = row["has_error"] == true;
    check(
        seen.trim() == wanted && is_error == seen.trim().is_empty(),
        format!("{seen:?}, wanted {wanted:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_taken_apart() {
        let log = "banner\nuser\nDO IT\nexec\ncat a\n exited 1 in 2ms:\nno\n\ncodex\ndone\n";
        let steps = steps(log);
        assert_eq!(steps.len(), 3);
        let (command, ok, output) = steps[1].command().unwrap();
        assert_eq!((command, ok, output.as_str()), ("cat a", false, "no"));
    }
}
