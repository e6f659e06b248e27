//! A world for tests of the loop: items that need strings in the skill, and a model that is a
//! function of the call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use skillopt_benchmarks::Item;
use skillopt_config::{Context, Flat, Origin, RunConfig};
use skillopt_core::job::{Answer, ChatRecord, Ending, RolloutRecord, Usage};
use skillopt_core::skill::Folder;
use skillopt_core::stages::prompts;
use skillopt_queue::{MemoryStore, RunId};

use crate::folder::RunFolder;
use crate::halt::Halt;
use crate::jobs::{ChatAsk, Jobs, Rolled, RolloutAsk, Stage};
use crate::log::Log;
use crate::progress::Watcher;
use crate::sample::{Sample, Samples};
use crate::timings::Timings;
use crate::train::{Ending as RunEnding, Plan, train};

/// One item of a rollout stage.
#[derive(Clone, Debug)]
pub(super) struct Roll {
    pub(super) stage: String,
    pub(super) item: String,
    pub(super) repeat: u32,
    pub(super) skill: Arc<Folder>,
}

/// One optimizer call.
#[derive(Clone, Debug)]
pub(super) struct Chat {
    pub(super) stage: &'static str,
    pub(super) system: String,
    pub(super) user: String,
    pub(super) max_tokens: u32,
}

/// What the model says to the `n`-th call (from 0) of a stage.
type Model = dyn Fn(&str, usize) -> Value;

/// A run about to be made.
pub(super) struct World {
    /// Flat configuration keys.
    pub(super) config: Value,
    /// Strings each train item needs.
    pub(super) train: Vec<Vec<&'static str>>,
    /// Strings each val item needs.
    pub(super) val: Vec<Vec<&'static str>>,
    pub(super) skill: Folder,
    pub(super) model: Box<Model>,
}

/// What a run did.
pub(super) struct Told {
    pub(super) dir: tempfile::TempDir,
    pub(super) ending: RunEnding,
    pub(super) rolls: Vec<Roll>,
    pub(super) chats: Vec<Chat>,
}

impl World {
    pub(super) fn new(config: Value, model: impl Fn(&str, usize) -> Value + 'static) -> Self {
        Self {
            config,
            train: vec![vec!["NEVER"]; 4],
            val: vec![
                vec!["RULE-A"],
                vec!["RULE-B"],
                vec!["RULE-A"],
                vec!["RULE-B"],
            ],
            skill: Folder::of_document("# Skill\n\n- base rule\n"),
            model: Box::new(model),
        }
    }

    /// Runs to the end.
    pub(super) fn run(&self) -> Told {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        let log = Log::new(
            Arc::new(MemoryStore::new()),
            RunId::new("run"),
            Watcher::silent(),
        );
        let asked = Asked {
            model: &*self.model,
            counts: RefCell::default(),
            rolls: RefCell::default(),
            chats: RefCell::default(),
        };
        let (plan, timings) = (self.plan(), Timings::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let config = Map::new();
        let run = train(&plan, &config, &asked, &folder, &log, &timings);
        let ending = runtime.block_on(run).unwrap();
        let (rolls, chats) = (asked.rolls.into_inner(), asked.chats.into_inner());
        Told {
            dir,
            ending,
            rolls,
            chats,
        }
    }

    fn plan(&self) -> Plan {
        let mut keys = json!({"reask_unusable": false, "eval_test": true});
        let object = keys.as_object_mut().unwrap();
        object.extend(self.config.as_object().unwrap().clone());
        let flat = Flat::from_json(object, &Origin::Default);
        let (config, _) = RunConfig::resolve(&flat, &Context::BARE).unwrap();
        let part = |name: &str, needs: &[Vec<&str>]| -> Vec<Sample> {
            let item = |(i, needs): (usize, &Vec<&str>)| {
                let id = format!("{name}{i}");
                let value = json!({"id": id, "question": format!("question {id}"), "needs": needs});
                Sample::new(Item { id, value })
            };
            needs.iter().enumerate().map(item).collect()
        };
        let samples = Samples {
            train: part("t", &self.train),
            val: part("v", &self.val),
            test: part("x", &[vec!["RULE-A"], vec!["RULE-B"]]),
        };
        Plan::new(
            &config,
            samples,
            self.skill.clone(),
            prompts::Set::default(),
        )
        .unwrap()
    }
}

impl Told {
    pub(super) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(path))
            .unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    pub(super) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).unwrap()
    }

    /// Returns a field of every step record, null where it is missing.
    pub(super) fn steps(&self, field: &str) -> Vec<Value> {
        let history = self.json("history.json");
        let steps = history.as_array().unwrap();
        steps.iter().map(|step| step[field].clone()).collect()
    }

    /// Returns the rollouts of the stages for which `wanted` says so.
    pub(super) fn rolls_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<&Roll> {
        self.rolls.iter().filter(|r| wanted(&r.stage)).collect()
    }
}

/// An analyst answer with one edit.
pub(super) fn edit(op: &str, target: &str, content: &str) -> Value {
    json!({"batch_size": 1, "patch": {"reasoning": "r", "edits": [
        {"op": op, "target": target, "content": content},
    ]}})
}

/// An analyst answer that appends a line.
pub(super) fn append(content: &str) -> Value {
    edit("append", "", content)
}

struct Asked<'a> {
    model: &'a Model,
    counts: RefCell<HashMap<String, usize>>,
    rolls: RefCell<Vec<Roll>>,
    chats: RefCell<Vec<Chat>>,
}

impl Jobs for Asked<'_> {
    async fn rollouts(&self, ask: RolloutAsk<'_>) -> Result<Stage, Halt> {
        let mut stage = Stage::default();
        for (i, sample) in ask.items.iter().enumerate() {
            self.rolls.borrow_mut().push(Roll {
                stage: ask.stage.to_owned(),
                item: sample.item.id.clone(),
                repeat: ask.repeats.get(i).copied().unwrap_or_default(),
                skill: Arc::clone(ask.skill),
            });
            stage.rolled.push(roll(sample, &ask.skill.document));
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
        let n = {
            let mut counts = self.counts.borrow_mut();
            let count = counts.entry(ask.stage.to_owned()).or_default();
            *count += 1;
            *count - 1
        };
        self.chats.borrow_mut().push(Chat {
            stage: ask.stage,
            system: ask.prompt.system,
            user: ask.prompt.user,
            max_tokens: ask.max_tokens,
        });
        let answer = match (self.model)(ask.stage, n) {
            Value::Null => Answer::Text("I have nothing to say.".to_owned()),
            value => Answer::Text(value.to_string()),
        };
        let usage = Usage::default();
        Ok(ChatRecord { answer, usage })
    }
}

fn roll(sample: &Sample, skill: &str) -> Rolled {
    let needs = sample.item.value["needs"].as_array().unwrap();
    let hit = needs.iter().all(|n| skill.contains(n.as_str().unwrap()));
    let hard = f64::from(u8::from(hit));
    let row = json!({"id": sample.item.id, "hard": hard, "soft": hard, "fail_reason": "missing"});
    let record = RolloutRecord {
        ending: Ending::Scored,
        row: row.as_object().unwrap().clone(),
        conversation: vec![
            json!({"role": "user", "content": "go"}),
            json!({"type": "tool_call", "tool": "bash", "cmd": "make", "obs": "made"}),
        ],
        files: Map::new(),
        usage: Usage::default(),
    };
    Rolled {
        hard,
        soft: hard,
        task_type: String::new(),
        no_answer: None,
        record: Some(Arc::new(record)),
    }
}
