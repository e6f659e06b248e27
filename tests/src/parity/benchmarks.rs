//! Counterparts of the reference's functions of single benchmarks; see the parent module.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillopt_backends::{CallError, ChatReply, Message};
use skillopt_benchmarks::searchqa::{self, SearchQa, prompt, score};
use skillopt_benchmarks::{Benchmark, RolloutError, Target, Task};
use skillopt_core::job::Usage;

use super::Outcome;

pub(super) fn call(stem: &str, function: &str, case: &Value) -> Outcome {
    match stem {
        "searchqa" => searchqa_call(function, &case["input"]),
        _ => Err(format!("no counterpart for `{function}`")),
    }
}

fn searchqa_call(function: &str, input: &Value) -> Outcome {
    let text = |key: &str| input[key].as_str().unwrap_or_default();
    let golds: Vec<&str> = input["gold_answers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    Ok(match function {
        "normalize_answer" => json!(score::normalize(text("s"))),
        "extract_answer" => json!(score::extract_answer(text("text"))),
        "exact_match" => json!(score::exact_match(text("prediction"), &golds)),
        "f1_score" => json!(score::f1_score(text("prediction"), &golds)),
        "sub_em" => json!(score::sub_em(text("prediction"), &golds)),
        "evaluate" => {
            let found = score::evaluate(text("prediction_text"), &golds);
            json!({
                "em": found.em, "f1": found.f1, "sub_em": found.sub_em,
                "predicted_answer": found.predicted, "gold_answers": golds,
            })
        }
        "truncate_context" => {
            let max = input["max_chars"].as_u64().unwrap_or_default() as usize;
            json!(prompt::truncate_context(text("context"), max))
        }
        "build_user" => json!(prompt::user(text("question"), text("context"))),
        "systemic_failure" => {
            let rows = input["results"].as_array().cloned().unwrap_or_default();
            match searchqa::systemic_failure(&rows) {
                Some(error) => return Err(error),
                None => json!({ "aborts": false }),
            }
        }
        "process_one" => return process_one(input),
        _ => return Err(format!("no counterpart for `{function}`")),
    })
}

/// A target that says what the case wrote down; `null` fails the call.
struct Script {
    replies: Mutex<VecDeque<Value>>,
    calls: Mutex<u32>,
}

#[async_trait]
impl Target for Script {
    async fn ask(&self, _: Vec<Message>, _: u32) -> Result<ChatReply, CallError> {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        match replies.pop_front() {
            Some(Value::String(text)) => {
                let usage = Usage {
                    calls: 1,
                    ..Usage::default()
                };
                Ok(ChatReply::text(text, usage))
            }
            _ => Err(CallError::Timeout {
                endpoint: "script".to_owned(),
                limit: Duration::from_secs(1),
            }),
        }
    }
}

fn process_one(input: &Value) -> Outcome {
    let target = Script {
        replies: Mutex::new(
            input["responses"]
                .as_array()
                .cloned()
                .unwrap_or_default()
                .into(),
        ),
        calls: Mutex::new(0),
    };
    let settings = json!({ "max_turns": input["max_turns"], "max_completion_tokens": 100 });
    let task = Task {
        item: &input["item"],
        skill: "",
        skill_files: &BTreeMap::new(),
        settings: &settings,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let done = runtime.block_on(SearchQa.rollout(task, &target));
    let calls = *target.calls.lock().unwrap_or_else(PoisonError::into_inner);
    match done {
        Ok(record) => {
            let row = &record.row;
            let mut seen: serde_json::Map<String, Value> = [
                "hard",
                "soft",
                "em",
                "f1",
                "sub_em",
                "predicted_answer",
                "agent_ok",
                "n_turns",
            ]
            .iter()
            .map(|key| {
                (
                    (*key).to_owned(),
                    row.get(*key).cloned().unwrap_or_default(),
                )
            })
            .collect();
            seen.insert("model_calls".to_owned(), json!(calls));
            seen.insert(
                "conversation_entries".to_owned(),
                json!(record.conversation.len()),
            );
            seen.insert("failed".to_owned(), json!(row["fail_reason"] != ""));
            Ok(Value::Object(seen))
        }
        // The reference scores a failed call with 0. Ours gives no record at all, so that what it
        // writes about one is spelled out here.
        Err(RolloutError::Call(_)) => Ok(json!({
            "hard": 0, "soft": 0, "em": 0, "f1": 0, "sub_em": 0, "predicted_answer": "",
            "agent_ok": false, "n_turns": 0, "model_calls": calls,
            "conversation_entries": 0, "failed": true,
        })),
        Err(other) => Err(other.to_string()),
    }
}
