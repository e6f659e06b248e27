//! What is written of an item that was judged.

use serde_json::{Map, Value, json};
use skillopt_core::job::Ending;

use super::VERSION;
use super::command::Failure;
use super::definition::Settings;
use super::judge::Verdict;
use super::template;
use crate::error::RolloutError;
use crate::searchqa::score;

/// How much of the task the row repeats, in characters.
const DESCRIPTION_CHARS_MAX: usize = 500;

pub(super) fn no_verdict(settings: &Settings, id: &str, failure: Failure) -> RolloutError {
    RolloutError::Judge {
        benchmark: settings.definition.name.clone(),
        item: id.to_owned(),
        detail: failure.detail,
        retry: failure.retry,
    }
}

/// The last entry of the trajectory: what the analysts of training items may see.
pub(super) fn verification(settings: &Settings, item: &Value, verdict: &Verdict) -> Value {
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

pub(super) fn row(
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

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
