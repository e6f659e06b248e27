//! Tasks that the reference's nightly tool replays with named programs as tools, as items of a custom
//! benchmark with `tools`: an agent does them in its sandbox, and what it ran is told.
//!
//! Where we differ on purpose:
//! - what is remembered, the task and its surroundings are the prompt, and the skill is installed: the
//!   agents' cases compare the flags, which do not depend on the task;
//! - a program that ends with an error has no row: who pays is told, and nobody is scored;
//! - a program that only talks is refused by the benchmark, as opencode is there without its opt-in.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skillopt_backends::{CallError, ChatReply, Message};
use skillopt_benchmarks::{RolloutError, Target, Task, registry};

use super::benchmark::{self, Slot};
use super::fake::{Fake, Seen};
use super::rig::{self, Rig};
use super::{text, texts};

/// The agents that do what the tool has its programs do.
const AGENTS: &[(&str, &str)] = &[
    ("claude", "claude_code_exec"),
    ("codex", "codex_exec"),
    ("copilot", "copilot_exec"),
];

/// Runs one case.
///
/// # Errors
/// What differs, in words.
pub(in super::super) fn run(case: &Value) -> Result<(), String> {
    let class = text(&case["input"]["backend_class"]);
    match AGENTS.iter().find(|(name, _)| *name == class) {
        Some((_, backend)) => rig::block_on(replay(case, backend)),
        None => rig::block_on(refused(case)),
    }
}

async fn replay(case: &Value, backend: &str) -> Result<(), String> {
    let rig = Rig::start().await?;
    let fake = Fake::new().map_err(|e| e.to_string())?;
    let (setup, agent) = benchmark::agent(&rig, &fake, backend)?;
    let invocations = case["expected_request"]["invocations"].as_array();
    let invocation = invocations.and_then(|all| all.first()).ok_or("no run")?;
    let script = case["response"]["script"].as_array().into_iter().flatten();
    let script: Vec<Value> = script.map(said).collect();
    let slot = Slot {
        agent,
        backend,
        fake: &fake,
        script: &script,
        seconds: invocation["timeout_s"].as_f64().unwrap_or(120.0),
        done: Mutex::new(Vec::new()),
    };
    drop(setup);
    let record = rollout(case, &slot).await;
    let seen = slot.lock();
    match seen.as_slice() {
        [Some(seen)] => found(case, invocation, seen)?,
        other => return Err(format!("{} runs, wanted 1", other.len())),
    }
    let wanted = &case["expected_result"]["ok"];
    match (wanted["has_error"] == true, record) {
        (true, Err(_)) => Ok(()),
        (false, Ok(row)) => {
            for key in ["response", "tools_called"] {
                if row[key] != wanted[key] {
                    return Err(format!("`{key}` is {}, wanted {}", row[key], wanted[key]));
                }
            }
            Ok(())
        }
        (_, other) => Err(format!("got {other:?}, wanted {wanted}")),
    }
}

/// The file of last words has its long name here.
fn said(step: &Value) -> Value {
    let mut step = step.clone();
    if let Some(words) = step["write_flag"].get("-o").cloned() {
        step["write_flag"] = json!({"--output-last-message": words});
    }
    step
}

/// Has a target do the task of a case, and returns the row.
async fn rollout(case: &Value, target: &dyn Target) -> Result<Map<String, Value>, RolloutError> {
    let input = &case["input"];
    let tools: Map<String, Value> = texts(&input["tools"])
        .into_iter()
        .map(|name| (name.to_owned(), "done".into()))
        .collect();
    let settings = json!({
        "definition": {
            "name": "replay", "items": "items.json", "tools": tools,
            "scorer": {"kind": "regex", "pattern": "."},
        },
        "prompt": "{{memory}}\n\n{{intent}}\n\n{{context}}",
        "max_completion_tokens": 1_024,
    });
    let item = json!({
        "id": "i1", "memory": input["memory"], "intent": input["intent"],
        "context": input["context"],
    });
    let task = Task {
        item: &item,
        skill: text(&input["skill"]),
        skill_files: &BTreeMap::new(),
        settings: &settings,
    };
    let custom = registry::find("custom").expect("it is there");
    custom.rollout(task, target).await.map(|record| record.row)
}

/// What was put before the agent: its task, the skill, and programs that it can run.
fn found(case: &Value, invocation: &Value, seen: &Seen) -> Result<(), String> {
    let told = |part: &str| {
        let skill = seen
            .work
            .iter()
            .filter(|(path, _)| path.ends_with("SKILL.md"));
        let mut skill = skill.map(|(_, bytes)| String::from_utf8_lossy(bytes));
        seen.stdin.contains(part)
            || seen.argv.iter().any(|arg| arg.contains(part))
            || seen.file("task.md").is_some_and(|task| task.contains(part))
            || skill.any(|skill| skill.contains(part))
    };
    let slots = invocation["argv"].as_array().into_iter().flatten();
    let slots = slots.chain([&invocation["stdin"]]);
    let parts: Vec<&str> = slots
        .flat_map(|slot| texts(&slot["must_contain"]))
        .collect();
    if parts.is_empty() {
        return Err("the case says nothing of the prompt".to_owned());
    }
    if let Some(part) = parts.into_iter().find(|part| !told(part)) {
        return Err(format!("it is not told `{part}`"));
    }
    for name in texts(&case["input"]["tools"]) {
        let program = seen
            .work
            .iter()
            .find(|(path, _)| path.trim_start_matches("./") == name);
        let is_program = program.is_some_and(|(_, bytes)| bytes.starts_with(b"#!"));
        if !is_program {
            return Err(format!("no program `{name}` in {:?}", seen.work.keys()));
        }
    }
    Ok(())
}

/// A target that only talks.
struct Talks(Mutex<u32>);

#[async_trait]
impl Target for Talks {
    async fn ask(&self, _: Vec<Message>, _: u32) -> Result<ChatReply, CallError> {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
        Ok(ChatReply::text(
            "it is asked",
            skillopt_core::job::Usage::default(),
        ))
    }
}

/// Nothing is asked, and there is no row.
async fn refused(case: &Value) -> Result<(), String> {
    let talks = Talks(Mutex::new(0));
    let row = rollout(case, &talks).await;
    let asked = *talks
        .0
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match row {
        Err(RolloutError::Call(CallError::Misconfigured { .. })) if asked == 0 => Ok(()),
        other => Err(format!("asked {asked} times: {other:?}")),
    }
}
