//! One item of a custom benchmark: ask once, judge, write the row.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use skillopt_backends::{Message, Role};
use skillopt_core::job::{Ending, RolloutRecord};

use super::definition::{Scorer, Settings};
use super::judge::{self, Verdict};
use super::{VERSION, command, template};
use crate::contract::{Target, Task};
use crate::error::RolloutError;
use crate::searchqa::score;

/// How much of the task the row repeats, in characters.
const DESCRIPTION_CHARS_MAX: usize = 500;

pub(super) async fn rollout(
    task: Task<'_>,
    target: &dyn Target,
) -> Result<RolloutRecord, RolloutError> {
    let id = task.item.get("id").map_or_else(String::new, text);
    let settings: Settings =
        Settings::deserialize(task.settings).map_err(|e| RolloutError::Data {
            benchmark: "custom".to_owned(),
            item: id.clone(),
            detail: format!("its settings cannot be read: {e}"),
        })?;
    let system = system(&settings, &task.skill_text());
    let user = template::render(&settings.prompt, task.item, &task.skill_text());
    let mut messages = Vec::with_capacity(2);
    if !system.is_empty() {
        messages.push(Message::text(Role::System, &system));
    }
    messages.push(Message::text(Role::User, &user));
    let reply = target.ask(messages, settings.max_completion_tokens).await?;
    let (ending, verdict) = if reply.text.trim().is_empty() {
        let reason = "empty answer".to_owned();
        (
            Ending::AgentFailed,
            Verdict {
                hard: 0.0,
                soft: 0.0,
                reason,
            },
        )
    } else {
        (
            Ending::Scored,
            verdict(&settings, &id, task.item, &reply.text).await?,
        )
    };
    let conversation = vec![
        json!({ "type": "message", "role": "assistant", "turn": 1, "content": reply.text }),
        verification(&settings, task.item, &verdict),
    ];
    Ok(RolloutRecord {
        ending,
        row: row(&settings, id, task.item, &reply.text, verdict, ending),
        conversation,
        files: Map::new(),
        usage: reply.usage,
    })
}

/// The prompts of the rollout.
pub(super) fn files(task: Task<'_>) -> Map<String, Value> {
    let Ok(settings) = Settings::deserialize(task.settings) else {
        return Map::new();
    };
    let user = template::render(&settings.prompt, task.item, &task.skill_text());
    crate::contract::prompt_files(system(&settings, &task.skill_text()), user)
}

/// The system message: the benchmark's text, then the skill, unless the prompt has its own place
/// for it.
fn system(settings: &Settings, skill: &str) -> String {
    let mut text = settings.system.trim().to_owned();
    let skill = skill.trim();
    if !skill.is_empty() && !template::fields(&settings.prompt).contains(&"skill") {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str("## Skill\n");
        text.push_str(skill);
    }
    text
}

async fn verdict(
    settings: &Settings,
    id: &str,
    item: &Value,
    reply: &str,
) -> Result<Verdict, RolloutError> {
    let scorer = &settings.definition.scorer;
    let benchmark = || settings.definition.name.clone();
    if let Scorer::Command { command, timeout_s } = scorer {
        let limit = Duration::from_secs((*timeout_s).max(1));
        let answer = score::extract_answer(reply);
        let question = json!({ "item": item, "answer": answer, "response": reply });
        let asked = command::ask(command, &settings.files, limit, &question).await;
        return asked.map_err(|failure| RolloutError::Judge {
            benchmark: benchmark(),
            item: id.to_owned(),
            detail: failure.detail,
            retry: failure.retry,
        });
    }
    let gold = scorer
        .gold()
        .and_then(|field| item.get(field))
        .unwrap_or(&Value::Null);
    judge::judge(scorer, gold, reply).map_err(|detail| RolloutError::Data {
        benchmark: benchmark(),
        item: id.to_owned(),
        detail,
    })
}

/// The last entry of the trajectory: what the analysts of training items may see.
fn verification(settings: &Settings, item: &Value, verdict: &Verdict) -> Value {
    let gold = settings
        .definition
        .scorer
        .gold()
        .and_then(|field| item.get(field));
    let gold = gold.map_or_else(String::new, |gold| format!("\nGold answer: {}", text(gold)));
    let reason = if verdict.reason.is_empty() {
        "right"
    } else {
        &verdict.reason
    };
    let content = format!(
        "Judge: {reason}{gold}\nhard: {:.4}\nsoft: {:.4}",
        verdict.hard, verdict.soft
    );
    json!({ "role": "system", "content": content })
}

fn row(
    settings: &Settings,
    id: String,
    item: &Value,
    reply: &str,
    verdict: Verdict,
    ending: Ending,
) -> Map<String, Value> {
    let description = template::render(&settings.prompt, item, "");
    let description: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let outcome = match ending {
        Ending::Scored => "scored",
        Ending::AgentFailed => "agent_failed",
    };
    let mut row = Map::new();
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("id", id.into());
    put("hard", verdict.hard.into());
    put("soft", verdict.soft.into());
    put("predicted_answer", score::extract_answer(reply).into());
    put("response", reply.into());
    put("fail_reason", verdict.reason.into());
    put("agent_ok", true.into());
    put("n_turns", 1.into());
    put("task_type", task_type(settings, item).into());
    put("task_description", description.into());
    put("scorer_version", VERSION.into());
    put("outcome", outcome.into());
    row
}

/// The item's type; a benchmark without types is one type.
pub(super) fn task_type(settings: &Settings, item: &Value) -> String {
    let field = settings
        .definition
        .task_type
        .as_deref()
        .and_then(|field| item.get(field));
    field.map_or_else(|| settings.definition.name.clone(), text)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
