//! Benchmarks with agents: what is put before them, and what becomes of their answers.
//!
//! A benchmark that this release does not have is another page's (`declared`).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillopt_agents::Agent;
use skillopt_agents::run::Finished;
use skillopt_backends::{
    CallError, ChatReply, ChatRequest, Message, Role as Speaker, Worked, Workspace,
};
use skillopt_benchmarks::{RolloutError, Target, Task, registry};
use skillopt_core::job::{Ending, RolloutRecord};
use skillopt_core::role::Role;

use super::fake::{Fake, Seen};
use super::rig::{self, Rig};
use super::script::{Run, Step};
use super::text;
use crate::parity::backends::setup::Setup;
use crate::parity::backends::sign_in::FakeAz;

pub(super) const MODEL: &str = "m1";

/// Runs one case.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let name = text(&case["input"]["benchmark"]);
    rig::block_on(judge(name, case))
}

/// An agent as a worker gives it to a benchmark.
pub(super) struct Slot<'a> {
    pub(super) agent: Agent,
    pub(super) backend: &'a str,
    pub(super) fake: &'a Fake,
    pub(super) script: &'a [Value],
    pub(super) seconds: f64,
    pub(super) done: Mutex<Vec<Option<Seen>>>,
}

#[async_trait]
impl Target for Slot<'_> {
    async fn ask(&self, _: Vec<Message>, _: u32) -> Result<ChatReply, CallError> {
        unreachable!("an agent is not asked")
    }

    fn is_agent(&self) -> bool {
        true
    }

    async fn work(
        &self,
        prompt: String,
        workspace: Workspace,
        max_tokens: u32,
    ) -> Result<(ChatReply, Worked), CallError> {
        let first = self.once(&prompt, &workspace, max_tokens).await?;
        if !first.0.text.trim().is_empty() || first.1.failed.is_some() {
            return Ok(first);
        }
        let mut second = self.once(&prompt, &workspace, max_tokens).await?;
        second.0.usage += first.0.usage;
        Ok(second)
    }
}

impl Slot<'_> {
    async fn once(
        &self,
        prompt: &str,
        workspace: &Workspace,
        max_tokens: u32,
    ) -> Result<(ChatReply, Worked), CallError> {
        let at = self.lock().len();
        let raw = self.script.get(at).or(self.script.last());
        let step = Run::of(self.backend, raw.unwrap_or(&Value::Null));
        let question = rig::question(self.backend, MODEL);
        let question = question.as_ref().map(|(path, body)| (*path, body.as_str()));
        let written = self.fake.prepare(&step, &[], question);
        written.map_err(|e| CallError::Malformed {
            endpoint: "fake".to_owned(),
            detail: e.to_string(),
        })?;
        let messages = vec![Message::text(Speaker::User, prompt)];
        let timeout = Duration::from_secs_f64(self.seconds);
        let request = ChatRequest::new(MODEL, messages, max_tokens, timeout);
        let finished: Finished = self.agent.finish(&request, workspace).await?;
        self.lock().push(Seen::read(&finished.stderr));
        self.agent.told(finished)
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Seen>>> {
        self.done
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

async fn judge(name: &str, case: &Value) -> Result<(), String> {
    let rig = Rig::start().await?;
    let fake = Fake::new().map_err(|e| e.to_string())?;
    let backend = text(&case["input"]["target_backend"]);
    let (setup, agent) = agent(&rig, &fake, backend)?;
    let input = &case["input"];
    let invocations = case["expected_request"]["invocations"].as_array();
    let invocations = invocations.map_or(&[][..], Vec::as_slice);
    let slot = Slot {
        agent,
        backend,
        fake: &fake,
        script: case["response"]["script"]
            .as_array()
            .map_or(&[][..], Vec::as_slice),
        seconds: invocations
            .first()
            .and_then(|one| one["timeout_s"].as_f64())
            .unwrap_or(120.0),
        done: Mutex::new(Vec::new()),
    };
    drop(setup);
    let benchmark = registry::find(name).map_err(|e| e.to_string())?;
    let task = Task {
        item: &input["item"],
        skill: text(&input["skill"]),
        skill_files: &BTreeMap::new(),
        settings: &input["options"],
    };
    let record = benchmark.rollout(task, &slot).await;
    let seen = slot.lock();
    if seen.len() != invocations.len() {
        return Err(format!("{} runs, wanted {}", seen.len(), invocations.len()));
    }
    for (at, (seen, wanted)) in seen.iter().zip(invocations).enumerate() {
        let Some(seen) = seen else {
            return Err(format!("run {at} told nothing"));
        };
        folder(wanted, seen, text(&input["skill"])).map_err(|why| format!("run {at}: {why}"))?;
    }
    drop(seen);
    compare(case, backend, &record)?;
    let asked = u64::try_from(rig.asked()).unwrap_or(0);
    match &record {
        Ok(record) if record.usage.prompt_tokens != rig::TOKENS.0 * asked => {
            Err(format!("{:?} of {asked} questions", record.usage))
        }
        _ => Ok(()),
    }
}

/// Makes an agent that asks the rig's model.
pub(super) fn agent(rig: &Rig, fake: &Fake, backend: &str) -> Result<(Setup, Agent), String> {
    fake.prepare(&Run::of(backend, &Value::Null), &[], None)
        .map_err(|e| e.to_string())?;
    let mut config = rig.settings(backend);
    config.insert("target_backend".to_owned(), backend.into());
    config.insert("target_model".to_owned(), MODEL.into());
    let case = json!({"id": "", "input": {"config": config, "env": {}}});
    let az = FakeAz::new(&case);
    let setup = Setup::new(&case, &az)?;
    let profile = setup.profile(Role::Target);
    let agent = rig::agent(&setup, &profile, fake.bin()).map_err(|e| e.to_string())?;
    Ok((setup, agent))
}

/// The task and the skill lie there; from the second turn on the task tells of the first.
pub(super) fn folder(wanted: &Value, seen: &Seen, skill: &str) -> Result<(), String> {
    let task = seen.file("task.md").unwrap_or_default();
    let wanted = &wanted["workspace_tree"]["task.md"];
    for part in super::texts(&wanted["must_contain"]) {
        if !task.contains(part) {
            return Err(format!("the task does not say `{part}`: {task:?}"));
        }
    }
    // The answer of the turn before stands in it.
    let mentions = task.contains("<answer>Lyon</answer>");
    if wanted["mentions_previous_attempt"] == true && !mentions {
        return Err(format!("the task says nothing of the first turn: {task:?}"));
    }
    let document = seen
        .work
        .iter()
        .find(|(path, _)| path.ends_with("skillopt-target/SKILL.md"));
    let document = document.map_or_else(String::new, |(_, bytes)| {
        String::from_utf8_lossy(bytes).into_owned()
    });
    if document.trim_end().ends_with(skill) {
        Ok(())
    } else {
        Err(format!("the skill is {document:?}"))
    }
}

/// An answer is scored; a run that cannot be judged has no row (spec 8, point 5).
fn compare(
    case: &Value,
    backend: &str,
    seen: &Result<RolloutRecord, RolloutError>,
) -> Result<(), String> {
    let wanted = &case["expected_result"]["ok"];
    let script = case["response"]["script"].as_array();
    let first = script.and_then(|steps| steps.first());
    let first = Run::of(backend, first.unwrap_or(&Value::Null)).step;
    let record = match (&first, seen) {
        // Who is out of time without having asked its model is not judged either.
        (Step::Ends(_) | Step::Fails(_) | Step::Stays, Err(_)) => return Ok(()),
        (_, Ok(record)) => record,
        (_, Err(error)) => return Err(error.to_string()),
    };
    if matches!(&first, Step::Says { words, .. } if words.is_empty()) {
        // An empty message is an empty answer, and no log takes its place.
        let is_failed = record.ending == Ending::AgentFailed && record.row["response"] == "";
        return if is_failed {
            Ok(())
        } else {
            Err(format!("{:?}", record.row))
        };
    }
    for key in [
        "hard",
        "soft",
        "predicted_answer",
        "response",
        "agent_ok",
        "n_turns",
    ] {
        if !crate::parity::same(&wanted[key], &record.row[key], false) {
            return Err(format!(
                "`{key}` is {}, wanted {}",
                record.row[key], wanted[key]
            ));
        }
    }
    Ok(())
}
