//! One item: ask, score, write the row and the trajectory (benchmarks spec 2.2 and 2.4).

use serde_json::{Map, Value, json};
use skillopt_backends::{Message, Role};
use skillopt_core::job::{Ending, RolloutRecord, Usage};

use super::{NAME, VERSION, prompt, score};
use crate::agent::{self, Desk};
use crate::contract::{Target, Task};
use crate::cut;
use crate::error::RolloutError;

/// The fields of an item.
struct Question<'a> {
    id: &'a str,
    question: &'a str,
    context: &'a str,
    answers: Vec<&'a str>,
}

pub(super) async fn rollout(
    task: Task<'_>,
    target: &dyn Target,
) -> Result<RolloutRecord, RolloutError> {
    let item = read(task.item)?;
    let max_turns = setting(task.settings, "max_turns", 1).max(1);
    let max_tokens = setting(task.settings, "max_completion_tokens", 16_384);
    if target.is_agent() {
        return work(task, &item, target, max_turns, max_tokens).await;
    }
    let system = prompt::system(&task.skill_text());
    let user = prompt::user(item.question, item.context);

    let mut usage = Usage::default();
    let mut conversation = Vec::new();
    let mut reply = String::new();
    let mut cut = None;
    let mut turns = 0;
    while turns < max_turns {
        let text = if turns == 0 {
            user.clone()
        } else {
            prompt::review(&user, &reply)
        };
        let messages = vec![
            Message::text(Role::System, system.clone()),
            Message::text(Role::User, text),
        ];
        let answer = target.ask(messages, max_tokens).await?;
        usage += answer.usage;
        cut = cut::at(&answer, max_tokens);
        reply = answer.text;
        turns += 1;
        conversation.push(json!({
            "type": "message", "role": "assistant", "turn": turns, "content": reply,
        }));
        // A first answer is always reviewed when further turns are allowed.
        if turns > 1 && reply.contains("<answer>") {
            break;
        }
    }
    let score = score::evaluate(&reply, &item.answers);
    conversation.push(verification(&item, &score));
    let ending = if score::trim(&reply).is_empty() {
        Ending::AgentFailed
    } else {
        Ending::Scored
    };
    Ok(RolloutRecord {
        ending,
        row: row(&item, score, Said { reply, turns, cut }, ending),
        conversation,
        files: Map::new(),
        usage,
    })
}

/// The same with an agent: the task lies in its folder, the skill is installed there.
async fn work(
    task: Task<'_>,
    item: &Question<'_>,
    target: &dyn Target,
    max_turns: u32,
    max_tokens: u32,
) -> Result<RolloutRecord, RolloutError> {
    let user = prompt::user(item.question, item.context);
    let mut usage = Usage::default();
    let mut conversation = Vec::new();
    let mut reply = String::new();
    let mut turns = 0;
    let mut failed = None;
    let mut cut = None;
    while turns < max_turns {
        let text = if turns == 0 {
            user.clone()
        } else {
            prompt::review(&user, &reply)
        };
        let desk = Desk::new(task.skill, prompt::SKILL_ABOUT, task.skill_files);
        let workspace = desk.task(&text).into_workspace();
        let (answer, worked) = target.work(prompt::exec(), workspace, max_tokens).await?;
        usage += answer.usage;
        cut = cut::at(&answer, max_tokens);
        reply = answer.text;
        turns += 1;
        conversation.extend(agent::entries(turns, &reply, &worked));
        failed = worked.failed;
        if failed.is_some() || (turns > 1 && reply.contains("<answer>")) {
            break;
        }
    }
    // An answer that was never finished is none, whatever its beginning says.
    let judged = if failed.is_some() { "" } else { reply.as_str() };
    let score = score::evaluate(judged, &item.answers);
    conversation.push(verification(item, &score));
    let is_mute = score::trim(&reply).is_empty();
    let ending = if failed.is_some() || is_mute {
        Ending::AgentFailed
    } else {
        Ending::Scored
    };
    let mut row = row(item, score, Said { reply, turns, cut }, ending);
    if let Some(reason) = failed {
        for (key, value) in [
            ("agent_ok", Value::from(false)),
            ("fail_reason", Value::from(reason)),
        ] {
            row.insert(key.to_owned(), value);
        }
    }
    Ok(RolloutRecord {
        ending,
        row,
        conversation,
        files: Map::new(),
        usage,
    })
}

/// The prompts of the first turn.
pub(super) fn files(task: Task<'_>) -> Map<String, Value> {
    let text = |key: &str| {
        task.item
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let user = prompt::user(text("question"), text("context"));
    crate::contract::prompt_files(prompt::system(&task.skill_text()), user)
}

/// The last entry of the trajectory: what the analysts of training items may see.
fn verification(item: &Question<'_>, score: &score::Score) -> Value {
    let golds = item.answers.join(" | ");
    json!({
        "role": "system",
        "content": format!(
            "Question: {}\nPredicted answer: {}\nGold answers: {golds}\nEM: {:.4}\nF1: {:.4}",
            item.question, score.predicted, score.em, score.f1
        ),
    })
}

/// What the target said at last.
struct Said {
    reply: String,
    turns: u32,
    /// At how many tokens it was cut.
    cut: Option<u64>,
}

fn row(item: &Question<'_>, score: score::Score, said: Said, ending: Ending) -> Map<String, Value> {
    let fail_reason = match ending {
        Ending::AgentFailed => "empty answer".to_owned(),
        Ending::Scored if score.em < 1.0 => {
            format!(
                "answer_mismatch: answered `{}`, F1 {:.4}",
                score.predicted, score.f1
            )
        }
        Ending::Scored => String::new(),
    };
    let fail_reason = cut::told(fail_reason, said.cut);
    let outcome = match ending {
        Ending::Scored => "scored",
        Ending::AgentFailed => "agent_failed",
    };
    let mut row = Map::with_capacity(17);
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("id", item.id.into());
    put("question", item.question.into());
    put("em", score.em.into());
    put("f1", score.f1.into());
    put("sub_em", score.sub_em.into());
    put("hard", u8::from(score.em >= 1.0).into());
    put("soft", score.f1.into());
    put("predicted_answer", score.predicted.into());
    put("gold_answers", item.answers.iter().copied().collect());
    put("response", said.reply.into());
    put("fail_reason", fail_reason.into());
    put("agent_ok", true.into());
    put("n_turns", said.turns.into());
    put("task_type", "qa".into());
    put("task_description", item.question.into());
    put("scorer_version", VERSION.into());
    put("outcome", outcome.into());
    row
}

fn read(item: &Value) -> Result<Question<'_>, RolloutError> {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let id = text("id").unwrap_or_default();
    check(item).map_err(|problem| RolloutError::Data {
        benchmark: NAME.to_owned(),
        item: id.to_owned(),
        detail: problem,
    })?;
    let answers = item.get("answers").and_then(Value::as_array);
    Ok(Question {
        id,
        question: text("question").unwrap_or_default(),
        context: text("context").unwrap_or_default(),
        answers: answers
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect(),
    })
}

/// Says what is wrong with an item.
pub(super) fn check(item: &Value) -> Result<(), String> {
    for key in ["question", "context"] {
        match item.get(key) {
            Some(Value::String(_)) => {}
            Some(_) => return Err(format!("`{key}` must be a text")),
            None => return Err(format!("`{key}` is missing")),
        }
    }
    match item.get("answers") {
        Some(Value::Array(list)) if !list.is_empty() && list.iter().all(Value::is_string) => Ok(()),
        Some(_) => Err("`answers` must be a list with at least one text".to_owned()),
        None => Err("`answers` is missing".to_owned()),
    }
}

fn setting(settings: &Value, key: &str, default: u32) -> u32 {
    let value = settings.get(key).and_then(Value::as_u64);
    value
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or(default)
}
