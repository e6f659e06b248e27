//! One item with an agent: its files in, its task done in a folder, its files back and judged.

use std::time::Duration;

use serde_json::{Map, Value, json};
use skillopt_backends::{Worked, Workspace};
use skillopt_core::job::{Ending, RolloutRecord};

use super::attached::{self, Files};
use super::definition::{Scorer, Settings};
use super::judge::{self, Verdict};
use super::{command, record, template};
use crate::agent::{self, tools};
use crate::contract::{Target, Task};
use crate::cut;
use crate::error::RolloutError;
use crate::searchqa::score;

/// What the agent's list of skills says about the trained one.
const SKILL_ABOUT: &str = "Rules for this kind of task, learned from earlier ones. Read them before \
                           you begin, and follow them.";

pub(super) async fn work(
    task: Task<'_>,
    settings: &Settings,
    id: String,
    target: &dyn Target,
) -> Result<RolloutRecord, RolloutError> {
    let data = |detail: String| RolloutError::Data {
        benchmark: settings.definition.name.clone(),
        item: id.clone(),
        detail,
    };
    let programs = &settings.definition.tools;
    let mut workspace = Workspace {
        skill: agent::skill_document(task.skill, SKILL_ABOUT),
        skill_files: task.skill_files.clone(),
        files: attached::of(task.item, "inputs").map_err(data)?,
        collect: settings.definition.outputs.clone(),
    };
    if !programs.is_empty() {
        let programs = programs.iter();
        let programs = programs.map(|(name, says)| (name.clone(), tools::program(name, says)));
        workspace.files.extend(programs);
        workspace.collect.push(tools::LOG.to_owned());
    }
    let prompt = prompt(settings, task.item);
    let limit = settings.max_completion_tokens;
    let (reply, mut worked) = target.work(prompt, workspace, limit).await?;
    let log = worked.files.remove(tools::LOG).unwrap_or_default();
    let called = tools::called(programs, &log);
    let (ending, mut verdict) = match failure(settings, &reply.text, &worked) {
        Some(reason) => (
            Ending::AgentFailed,
            Verdict::all_or_nothing(false, || reason),
        ),
        None => {
            let verdict = verdict(
                settings,
                &id,
                task.item,
                &reply.text,
                &worked.files,
                &called,
            );
            (Ending::Scored, verdict.await?)
        }
    };
    verdict.reason = cut::told(verdict.reason, cut::at(&reply, limit));
    let mut conversation = agent::entries(1, &reply.text, &worked);
    if !worked.files.is_empty() {
        let sizes = worked.files.iter();
        let sizes = sizes.map(|(name, bytes)| (name.clone(), Value::from(bytes.len())));
        let sizes: Map<String, Value> = sizes.collect();
        conversation.push(json!({"type": "files", "turn": 1, "bytes": sizes}));
    }
    conversation.push(record::verification(settings, task.item, &verdict));
    let mut row = record::row(settings, id, task.item, &reply.text, verdict, ending);
    row.insert("agent_ok".to_owned(), (ending == Ending::Scored).into());
    if !programs.is_empty() {
        row.insert("tools_called".to_owned(), called.into());
    }
    Ok(RolloutRecord {
        ending,
        row,
        conversation,
        files: Map::new(),
        usage: reply.usage,
    })
}

/// What the agent is told: the skill is installed, not told.
pub(super) fn prompt(settings: &Settings, item: &Value) -> String {
    let system = settings.system.trim();
    let user = template::render(&settings.prompt, item, "");
    let programs = &settings.definition.tools;
    let programs = (!programs.is_empty()).then(|| tools::told(programs));
    let parts = [system, &user, programs.as_deref().unwrap_or_default()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// Says why there is nothing to judge.
fn failure(settings: &Settings, reply: &str, worked: &Worked) -> Option<String> {
    if let Some(why) = &worked.failed {
        return Some(why.clone());
    }
    let wanted = &settings.definition.outputs;
    if wanted.is_empty() {
        return reply.trim().is_empty().then(|| "empty answer".to_owned());
    }
    worked
        .files
        .is_empty()
        .then(|| format!("no_output: it wrote no `{}`", wanted.join("`, `")))
}

async fn verdict(
    settings: &Settings,
    id: &str,
    item: &Value,
    reply: &str,
    outputs: &Files,
    called: &[String],
) -> Result<Verdict, RolloutError> {
    let data = |detail: String| RolloutError::Data {
        benchmark: settings.definition.name.clone(),
        item: id.to_owned(),
        detail,
    };
    match &settings.definition.scorer {
        Scorer::Files { text } => {
            let expected = attached::of(item, "expected").map_err(data)?;
            Ok(same(&expected, outputs, *text))
        }
        Scorer::Command {
            command: words,
            timeout_s,
        } => {
            let inputs = attached::of(item, "inputs").map_err(data)?;
            let expected = attached::of(item, "expected").map_err(data)?;
            let mut question = json!({
                "item": attached::without(item), "answer": score::extract_answer(reply),
                "response": reply,
            });
            if !settings.definition.tools.is_empty() {
                question["tools_called"] = called.into();
            }
            let folders = [
                ("inputs", &inputs),
                ("outputs", outputs),
                ("expected", &expected),
            ];
            let limit = Duration::from_secs((*timeout_s).max(1));
            let asked = command::ask(words, &settings.files, &folders, limit, &question).await;
            asked.map_err(|failure| record::no_verdict(settings, id, failure))
        }
        scorer => {
            let gold = scorer.gold().and_then(|field| item.get(field));
            judge::judge(scorer, gold.unwrap_or(&Value::Null), reply).map_err(data)
        }
    }
}

/// `hard` if all files are as expected, `soft` the part of them that is.
fn same(expected: &Files, outputs: &Files, is_text: bool) -> Verdict {
    let mut reasons = Vec::new();
    for (name, want) in expected {
        match outputs.get(name) {
            None => reasons.push(format!("no_output: it wrote no `{name}`")),
            Some(found) if is_same(found, want, is_text) => {}
            Some(_) => reasons.push(format!("output_mismatch: `{name}` is another")),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of files")]
    let soft = 1.0 - reasons.len() as f64 / expected.len().max(1) as f64;
    Verdict {
        hard: f64::from(u8::from(reasons.is_empty())),
        soft,
        reason: reasons.join("; "),
    }
}

fn is_same(found: &[u8], want: &[u8], is_text: bool) -> bool {
    if !is_text {
        return found == want;
    }
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let lines = text
            .trim_end()
            .lines()
            .map(|line| line.trim_end().to_owned());
        lines.collect::<Vec<_>>()
    };
    lines(found) == lines(want)
}
