//! What a step of a case's script means, and how the real CLI would say it.
//!
//! The reference reads a file of last words (Codex), plain text (Claude Code) or events (Copilot,
//! Cursor), and has an SDK ask Codex and Claude Code for JSON. We read the events of each CLI, so a
//! step is understood as the reference understands it and then said in these.

use serde_json::{Value, json};

use super::text;

/// What a CLI does in one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// It works and ends well. The text may be blank.
    Says {
        /// Commands that it ran, and whether each worked.
        tools: Vec<(String, bool)>,
        /// What it says on its way.
        before: Vec<String>,
        /// Its last words.
        words: String,
    },
    /// It tells an error and ends.
    Fails(String),
    /// It ends with a code and without a last event.
    Ends(i64),
    /// It prints something and goes on until it is ended.
    Stays,
}

/// One run of the fake.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) step: Step,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) exit_code: i64,
    /// A program of its folder that it runs.
    pub(super) tool: String,
}

impl Run {
    /// Reads a step of the script of a backend.
    pub(super) fn of(backend: &str, raw: &Value) -> Self {
        let step = meaning(backend, raw);
        let exit_code = match &step {
            Step::Fails(_) => raw["exit_code"].as_i64().unwrap_or(match backend {
                // It exits with 0 and says in its last event that it failed.
                "cursor_exec" => 0,
                _ => 1,
            }),
            _ => raw["exit_code"].as_i64().unwrap_or(0),
        };
        Self {
            stdout: said(backend, &step, raw),
            // Codex writes its log there only where it prints no events.
            stderr: match (&step, backend) {
                (Step::Says { .. }, "codex_exec") => String::new(),
                _ => text(&raw["stderr"]).to_owned(),
            },
            tool: text(&raw["run_tool"]).to_owned(),
            step,
            exit_code,
        }
    }
}

fn meaning(backend: &str, raw: &Value) -> Step {
    let code = raw["exit_code"].as_i64().unwrap_or(0);
    if raw["delay_s"].as_f64().is_some() {
        return Step::Stays;
    }
    if let Some(events) = raw["events"].as_array() {
        return sdk_of_claude(events);
    }
    let stdout = text(&raw["stdout"]);
    match backend {
        _ if code != 0 => Step::Ends(code),
        "codex_exec" => codex(raw, stdout),
        "claude_code_exec" => says(Vec::new(), Vec::new(), stdout.trim()),
        "copilot_exec" => {
            let mut words = copilot_words(stdout);
            let last = words.pop().unwrap_or_default();
            says(Vec::new(), words, &last)
        }
        _ => cursor(stdout),
    }
}

fn says(tools: Vec<(String, bool)>, before: Vec<String>, words: &str) -> Step {
    Step::Says {
        tools,
        before,
        words: words.to_owned(),
    }
}

fn events(stdout: &str) -> impl Iterator<Item = Value> + '_ {
    let lines = stdout.lines().map(serde_json::from_str::<Value>);
    lines.filter_map(Result::ok).filter(Value::is_object)
}

fn codex(raw: &Value, stdout: &str) -> Step {
    let is_event = |event: &Value| event["type"].is_string();
    if !events(stdout).any(|event| is_event(&event)) {
        let log = super::trace::steps(text(&raw["stderr"]));
        let tools = log.iter().filter_map(super::trace::LogStep::command);
        let tools = tools.map(|(command, ok, _)| (command.to_owned(), ok));
        let words = text(&raw["write_flag"]["--output-last-message"]);
        return says(tools.collect(), Vec::new(), words.trim());
    }
    let mut tools = Vec::new();
    let mut words = String::new();
    for event in events(stdout) {
        let item = &event["item"];
        match (text(&event["type"]), text(&item["type"])) {
            ("turn.failed", _) => return Step::Fails(text(&event["error"]["message"]).to_owned()),
            ("item.completed", "command_execution") => {
                tools.push((text(&item["command"]).to_owned(), item["exit_code"] == 0));
            }
            ("item.completed", "agent_message") => words = structured(text(&item["text"])),
            _ => {}
        }
    }
    says(tools, Vec::new(), &words)
}

/// Words that were asked for as JSON: none count that are none. We ask for no JSON.
fn structured(text: &str) -> String {
    serde_json::from_str(text).map_or_else(|_| String::new(), |value| answer_in(&value))
}

fn answer_in(value: &Value) -> String {
    let response = text(&value["final_response"]).trim();
    let answer = text(&value["final_answer"]).trim();
    match (response, answer) {
        ("", "") => String::new(),
        ("", answer) if answer.to_lowercase().contains("<answer>") => answer.to_owned(),
        ("", answer) => format!("<answer>{answer}</answer>"),
        (response, _) => response.to_owned(),
    }
}

fn sdk_of_claude(events: &[Value]) -> Step {
    let end = events.iter().rev().find(|event| event["type"] == "result");
    // A run that its CLI calls failed has no answer (exec-CLIs spec 5.5), whereas the reference
    // takes one that came before.
    match end {
        Some(end) if end["is_error"] == true => Step::Fails(text(&end["subtype"]).to_owned()),
        Some(end) => says(
            Vec::new(),
            Vec::new(),
            &answer_in(&end["structured_output"]),
        ),
        None => Step::Ends(0),
    }
}

fn copilot_words(stdout: &str) -> Vec<String> {
    let said = events(stdout).filter(|event| event["type"] == "assistant.message");
    let said = said.map(|event| text(&event["data"]["content"]).trim().to_owned());
    said.filter(|words| !words.is_empty()).collect()
}

fn cursor(stdout: &str) -> Step {
    let end = events(stdout)
        .filter(|event| event["type"] == "result")
        .last();
    match end {
        None => Step::Ends(0),
        Some(end) if end["is_error"] == true || end["subtype"] == "error" => {
            Step::Fails(text(&end["result"]).to_owned())
        }
        Some(end) => says(Vec::new(), Vec::new(), text(&end["result"]).trim()),
    }
}

/// Returns what the real CLI prints for a step.
fn said(backend: &str, step: &Step, raw: &Value) -> String {
    let lines = match backend {
        // These two were recorded with the events that we read, too.
        "cursor_exec" => return text(&raw["stdout"]).to_owned(),
        "copilot_exec" => {
            let mut out = text(&raw["stdout"]).to_owned();
            if matches!(step, Step::Says { .. }) {
                out.push_str("{\"type\":\"result\",\"exitCode\":0}\n");
            }
            return out;
        }
        "codex_exec" => codex_events(step),
        _ => claude_events(step),
    };
    let lines = lines.iter().map(|line| format!("{line}\n"));
    match step {
        // What is no event stays what it was.
        Step::Ends(_) | Step::Stays => text(&raw["stdout"]).to_owned(),
        _ => lines.collect(),
    }
}

fn codex_events(step: &Step) -> Vec<Value> {
    let mut lines = vec![
        json!({"type": "thread.started", "thread_id": "t-1"}),
        json!({"type": "turn.started"}),
    ];
    match step {
        Step::Says { tools, words, .. } => {
            for (command, ok) in tools {
                lines.push(json!({"type": "item.completed", "item": {
                    "type": "command_execution", "command": command, "aggregated_output": "",
                    "exit_code": i32::from(!ok), "status": if *ok { "completed" } else { "failed" },
                }}));
            }
            lines.push(
                json!({"type": "item.completed", "item": {"type": "agent_message", "text": words}}),
            );
            lines.push(json!({"type": "turn.completed", "usage": {"input_tokens": 42, "output_tokens": 18}}));
        }
        Step::Fails(why) => lines.push(json!({"type": "turn.failed", "error": {"message": why}})),
        Step::Ends(_) | Step::Stays => {}
    }
    lines
}

fn claude_events(step: &Step) -> Vec<Value> {
    let mut lines = vec![json!({"type": "system", "subtype": "init", "session_id": "s-1"})];
    let end = |is_error: bool, subtype: &str, words: &str| {
        json!({
            "type": "result", "subtype": subtype, "is_error": is_error, "num_turns": 2,
            "result": words, "modelUsage": {"m": {"inputTokens": 100, "outputTokens": 20}},
        })
    };
    match step {
        Step::Says { words, .. } => lines.push(end(false, "success", words)),
        Step::Fails(why) => lines.push(end(true, why, why)),
        Step::Ends(_) | Step::Stays => {}
    }
    lines
}
