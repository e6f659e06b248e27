//! From stored rollouts to the rows of a stage, decoded only as far as the stage needs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skillopt_benchmarks::splits::safe_folder_name;
use skillopt_benchmarks::{Task, registry};
use skillopt_core::job::{Key, RolloutRecord, Usage, no_answer};
use skillopt_core::skill::Folder;

use crate::folder::StageWriter;
use crate::halt::Halt;
use crate::jobs::Rolled;
use crate::sample::Sample;

/// What came out of some answers.
pub(super) struct Read {
    pub(super) rows: Vec<Row>,
    /// Folders of items, by their safe names.
    pub(super) to_write: Vec<(String, Arc<RolloutRecord>)>,
}

/// What it takes to read the answers of one chunk.
pub(super) struct Chunk {
    /// Where in the stage the answer of a job belongs.
    pub(super) places: HashMap<Key, Vec<usize>>,
    /// Place of the first sample.
    pub(super) first: usize,
    pub(super) samples: Vec<Sample>,
    pub(super) skill: Arc<Folder>,
    pub(super) skill_files: BTreeMap<String, String>,
    pub(super) benchmark: String,
    pub(super) settings: Arc<Value>,
    pub(super) keep_records: bool,
    pub(super) writer: Arc<StageWriter>,
}

/// A finished rollout on its way into its stage.
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) index: usize,
    pub(super) rolled: Rolled,
    pub(super) usage: Usage,
    /// What is written of it, if anything is, and of one without a word, which may be asked for.
    pub(super) line: Option<Box<RawValue>>,
    /// The agent gave nothing at all.
    pub(super) is_mute: bool,
    /// Whether the skill stood in a request of an agent; `None` if nobody saw its requests.
    pub(super) is_skill_read: Option<bool>,
}

impl Row {
    /// Returns what is written of it.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.line.as_ref().map(|line| line.get().as_bytes())
    }
}

/// A stored rollout, read only as far as a stage without trajectories needs it.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow)]
    row: &'a RawValue,
    #[serde(borrow, default)]
    conversation: Option<&'a RawValue>,
    usage: Usage,
}

impl Outline<'_> {
    /// Looks for the fact of every turn; within a text its quotation marks would be escaped.
    fn is_skill_read(&self) -> Option<bool> {
        let said = self.conversation?.get();
        let mut turns = said.split(SKILL_READ).skip(1).peekable();
        turns.peek()?;
        Some(turns.all(|after| after.trim_start().starts_with("true")))
    }
}

/// The fact of an agent's trajectory.
const SKILL_READ: &str = "\"skill_reached_the_model\":";

#[derive(Deserialize)]
struct RowOutline<'a> {
    hard: f64,
    soft: f64,
    #[serde(borrow, default)]
    task_type: Cow<'a, str>,
    #[serde(default)]
    agent_ok: Option<bool>,
    #[serde(borrow, default)]
    fail_reason: Cow<'a, str>,
}

impl Chunk {
    /// Decodes rollouts and makes what is written of them; much of it belongs off the async threads.
    pub(super) fn read(&self, answers: &[(Key, Bytes)]) -> Result<Read, Halt> {
        let mut to_write = Vec::new();
        let mut rows = Vec::with_capacity(answers.len());
        for (key, bytes) in answers {
            let damaged = |e: serde_json::Error| {
                Halt::infrastructure(format!("result `{key}` is damaged: {e}"))
            };
            let outline: Outline<'_> = serde_json::from_slice(bytes).map_err(damaged)?;
            let row: RowOutline<'_> = serde_json::from_str(outline.row.get()).map_err(damaged)?;
            let places = self.places.get(key).map(Vec::as_slice).unwrap_or_default();
            let record = if self.keep_records || self.writer.wants_predictions() {
                let first = places.first().copied().unwrap_or(self.first);
                let record = serde_json::from_slice(bytes).map_err(damaged)?;
                let (name, record) = self.complete(first, record)?;
                if self.writer.wants_predictions() {
                    to_write.push((name, Arc::clone(&record)));
                }
                Some(record).filter(|_| self.keep_records)
            } else {
                None
            };
            let is_skill_read = outline.is_skill_read();
            for index in places {
                let rolled = Rolled {
                    hard: row.hard,
                    soft: row.soft,
                    task_type: row.task_type.clone().into_owned(),
                    no_answer: no_answer(row.agent_ok, &row.fail_reason).map(str::to_owned),
                    record: record.clone(),
                };
                let is_mute = row.agent_ok == Some(false);
                let has_line = is_mute || self.writer.wants_rows() || self.writer.is_done();
                let line = has_line.then(|| outline.row.to_owned());
                rows.push(Row {
                    key: *key,
                    index: *index,
                    rolled,
                    usage: outline.usage,
                    line,
                    is_mute,
                    is_skill_read,
                });
            }
        }
        Ok(Read { rows, to_write })
    }

    /// Completes a record with the files that follow from its task; returns it with the safe name
    /// of its folder.
    fn complete(
        &self,
        index: usize,
        mut record: RolloutRecord,
    ) -> Result<(String, Arc<RolloutRecord>), Halt> {
        let place = index.checked_sub(self.first);
        let sample = place.and_then(|i| self.samples.get(i));
        let sample = sample.ok_or_else(|| Halt::infrastructure("an answer belongs to no item"))?;
        let benchmark = registry::find(&self.benchmark).map_err(Halt::infrastructure)?;
        let files = benchmark.files(Task {
            item: &sample.item.value,
            skill: &self.skill.document,
            skill_files: &self.skill_files,
            settings: &self.settings,
        });
        for (name, text) in files {
            record.files.entry(name).or_insert(text);
        }
        Ok((safe_folder_name(&sample.item.id), Arc::new(record)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_fact_itself_tells_whether_a_skill_was_read() {
        let fact =
            |is_read: bool| json!({"type": "agent", "facts": {"skill_reached_the_model": is_read}});
        let words = json!({"role": "assistant", "content": fact(false).to_string()});
        for (conversation, want) in [
            (json!([words, fact(true)]), Some(true)),
            (json!([fact(true), words, fact(false)]), Some(false)),
            (json!([fact(true), fact(true)]), Some(true)),
            (
                json!([words, {"type": "agent", "facts": {"ending": "success"}}]),
                None,
            ),
            (json!([]), None),
        ] {
            let usage = json!(Usage::default());
            let stored = json!({"row": {}, "conversation": conversation, "usage": usage});
            let stored = stored.to_string();
            let outline: Outline<'_> = serde_json::from_str(&stored).unwrap();
            assert_eq!(outline.is_skill_read(), want, "{stored}");
        }
    }
}
