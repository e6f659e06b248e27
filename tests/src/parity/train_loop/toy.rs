//! The toy environment and the scripted optimizer, as the vectors' README describes them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use skillopt_coordinator::halt::Halt;
use skillopt_coordinator::jobs::{ChatAsk, Jobs, Rolled, RolloutAsk, Stage};
use skillopt_coordinator::sample::Sample;
use skillopt_core::job::{Answer, ChatRecord, Ending, Prompt, RolloutRecord, Usage};
use skillopt_core::stages::user::{META_SKILL_TAG, STEP_BUFFER_TAG};

/// Opens the section of the meta-skill call that holds the memory so far, or says there is none.
const PREVIOUS_MEMORY_TAG: &str = "<previous_memory>";

/// What the model says when nothing is scripted.
const NOTHING_LEFT: &str = "nothing is scripted for this call";

/// One optimizer call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) stage: String,
    pub(super) has_step_buffer: bool,
    pub(super) has_meta_skill: bool,
}

/// What was asked in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: Vec<Asked>,
    /// Evaluated items by split; the same item with the same skill counts once, as answers are
    /// stored.
    pub(super) evaluated: BTreeMap<&'static str, usize>,
}

/// Answers the loop at once, so that answers are used in the order in which the loop asks.
pub(super) struct Toy {
    /// Name of the split by item id.
    splits: HashMap<String, &'static str>,
    script: RefCell<HashMap<String, VecDeque<Value>>>,
    tally: RefCell<Tally>,
    stored: RefCell<BTreeSet<(String, String, u32)>>,
}

impl Toy {
    pub(super) fn new(splits: &Value, script: &Value) -> Self {
        let mut names = HashMap::new();
        for name in ["train", "val", "test"] {
            for item in splits[name].as_array().into_iter().flatten() {
                names.insert(item["id"].as_str().unwrap_or_default().to_owned(), name);
            }
        }
        let queues = script.as_object().into_iter().flatten();
        let script = queues
            .map(|(stage, answers)| {
                let answers = answers.as_array().into_iter().flatten().cloned();
                (stage.clone(), answers.collect())
            })
            .collect();
        Self {
            splits: names,
            script: RefCell::new(script),
            tally: RefCell::default(),
            stored: RefCell::default(),
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally.borrow().clone()
    }

    fn count(&self, id: &str, skill: &str, repeat: u32) {
        let key = (id.to_owned(), skill.to_owned(), repeat);
        if self.stored.borrow_mut().insert(key) {
            let split = self.splits.get(id).copied().unwrap_or("unknown");
            *self.tally.borrow_mut().evaluated.entry(split).or_default() += 1;
        }
    }

    fn note(&self, stage: &str, prompt: &Prompt) {
        let text = &prompt.user;
        self.tally.borrow_mut().calls.push(Asked {
            stage: stage.to_owned(),
            has_step_buffer: text.contains(STEP_BUFFER_TAG),
            has_meta_skill: text.contains(META_SKILL_TAG) || text.contains(PREVIOUS_MEMORY_TAG),
        });
    }
}

impl Jobs for Toy {
    async fn rollouts(&self, ask: RolloutAsk<'_>) -> Result<Stage, Halt> {
        let mut stage = Stage::default();
        for (index, sample) in ask.items.iter().enumerate() {
            let repeat = ask.repeats.get(index).copied().unwrap_or_default();
            self.count(&sample.item.id, &ask.skill.hash_short(), repeat);
            stage
                .rolled
                .push(roll(sample, &ask.skill.document, ask.keep_records));
        }
        Ok(stage)
    }

    async fn reveal(&self, _stage: &str) -> Result<(), Halt> {
        Ok(())
    }

    async fn annotate(&self, _stage: &str, _name: &str, _value: &Value) -> Result<(), Halt> {
        Ok(())
    }

    async fn chat(&self, ask: ChatAsk) -> Result<ChatRecord, Halt> {
        self.note(ask.stage, &ask.prompt);
        let mut script = self.script.borrow_mut();
        let scripted = script.get_mut(ask.stage).and_then(VecDeque::pop_front);
        let answer = match scripted {
            None => Answer::Text(NOTHING_LEFT.to_owned()),
            Some(Value::String(text)) => Answer::Text(text),
            Some(Value::Object(map)) if map.contains_key("raise") => {
                Answer::Refused(map["raise"].to_string())
            }
            Some(other) => Answer::Text(other.to_string()),
        };
        let usage = Usage {
            calls: 1,
            ..Usage::default()
        };
        Ok(ChatRecord { answer, usage })
    }
}

/// Scores an item by looking for its `needs` in the skill.
fn roll(sample: &Sample, skill: &str, keep_record: bool) -> Rolled {
    let fields = sample.fields();
    let needs: Vec<&str> = fields
        .get("needs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let found = needs.iter().filter(|need| skill.contains(**need)).count();
    #[expect(clippy::cast_precision_loss, reason = "a handful of needs")]
    let soft = if needs.is_empty() {
        1.0
    } else {
        found as f64 / needs.len() as f64
    };
    let hard = if found == needs.len() { 1.0 } else { 0.0 };
    let question = fields
        .get("question")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let row = json!({
        "id": sample.item.id,
        "hard": hard,
        "soft": soft,
        "n_turns": 1,
        "task_type": "mock",
        "task_description": question,
        "fail_reason": if hard > 0.0 { "" } else { "missing-rule: no rule" },
    });
    let record = keep_record.then(|| {
        Arc::new(RolloutRecord {
            ending: Ending::Scored,
            row: row.as_object().cloned().unwrap_or_default(),
            conversation: vec![
                json!({"role": "user", "content": question}),
                json!({"role": "assistant", "content": format!("found {found}")}),
            ],
            files: Map::new(),
            usage: Usage::default(),
        })
    });
    Rolled {
        hard,
        soft,
        task_type: "mock".to_owned(),
        no_answer: None,
        record,
    }
}
