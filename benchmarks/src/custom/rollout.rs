//! One item of a custom benchmark: ask once, judge, write the row.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use skillopt_backends::{Message, Role};
use skillopt_core::job::{Ending, RolloutRecord};

use super::definition::{Scorer, Settings};
use super::judge::{self, Verdict};
use super::record::{no_verdict, row, text, verification};
use super::{command, template, work};
use crate::contract::{Target, Task};
use crate::cut;
use crate::error::RolloutError;
use crate::searchqa::score;

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
    if target.is_agent() || settings.definition.is_for_agents() {
        return work::work(task, &settings, id, target).await;
    }
    let system = system(&settings, &task.skill_text());
    let user = template::render(&settings.prompt, task.item, &task.skill_text());
    let mut messages = Vec::with_capacity(2);
    if !system.is_empty() {
        messages.push(Message::text(Role::System, &system));
    }
    messages.push(Message::text(Role::User, &user));
    let reply = target.ask(messages, settings.max_completion_tokens).await?;
    let (ending, mut verdict) = if reply.text.trim().is_empty() {
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
    let cut = cut::at(&reply, settings.max_completion_tokens);
    verdict.reason = cut::told(verdict.reason, cut);
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
    if settings.definition.is_for_agents() {
        return crate::contract::prompt_files(String::new(), work::prompt(&settings, task.item));
    }
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
    if let Scorer::Command { command, timeout_s } = scorer {
        let limit = Duration::from_secs((*timeout_s).max(1));
        let answer = score::extract_answer(reply);
        let question = json!({ "item": item, "answer": answer, "response": reply });
        let asked = command::ask(command, &settings.files, &[], limit, &question).await;
        return asked.map_err(|failure| no_verdict(settings, id, failure));
    }
    let gold = scorer
        .gold()
        .and_then(|field| item.get(field))
        .unwrap_or(&Value::Null);
    judge::judge(scorer, gold, reply).map_err(|detail| RolloutError::Data {
        benchmark: settings.definition.name.clone(),
        item: id.to_owned(),
        detail,
    })
}
