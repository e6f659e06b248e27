//! The run's log: ordered commit events, each a fact and its numbers, no text of skills or models.
//!
//! Everything people look at is a projection of this log. An event is written once; writing the
//! same event again (a run that is repeated after a crash) changes nothing, writing another one in
//! its place is an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skillopt_core::score::Score;
use skillopt_queue::{RunId, Store};

use crate::halt::Halt;
use crate::progress::{Progress, Watcher};
use crate::train::{Ending, Plan};

/// One commit event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened: `started`, `baseline`, `step`, `slow_update`, `meta_skill`, `selected`,
    /// `tested` or `ended`.
    pub kind: String,
    /// The numbers.
    pub facts: Map<String, Value>,
}

/// Fields of records that hold text of a model.
const TEXTS: &[&str] = &[
    "reasoning",
    "slow_update_content",
    "meta_skill_content",
    "lr_decision",
    "rewrite_change_summary",
];

impl Event {
    fn new(kind: &str, facts: Value) -> Self {
        let Value::Object(mut facts) = facts else {
            return Self {
                kind: kind.to_owned(),
                facts: Map::new(),
            };
        };
        for name in TEXTS {
            facts.shift_remove(*name);
        }
        Self {
            kind: kind.to_owned(),
            facts,
        }
    }

    pub(crate) fn started(plan: &Plan) -> Self {
        Self::new(
            "started",
            json!({
                "train_items": plan.samples.train.len(),
                "val_items": plan.samples.val.len(),
                "test_items": plan.samples.test.len(),
                "data": plan.samples.hash(),
                "initial_skill": plan.initial.hash_short(),
                "epochs": plan.epochs,
                "steps": plan.total_steps(),
                "gate": plan.gate,
            }),
        )
    }

    pub(crate) fn baseline(score: Score, gate_score: f64, n: usize) -> Self {
        Self::new(
            "baseline",
            json!({"hard": score.hard, "soft": score.soft, "score": gate_score, "n": n}),
        )
    }

    pub(crate) fn step(record: &Map<String, Value>) -> Self {
        Self::new("step", record.clone().into())
    }

    pub(crate) fn slow_update(epoch: u64, result: &Value) -> Self {
        Self::at_epoch("slow_update", epoch, result)
    }

    pub(crate) fn meta_skill(epoch: u64, result: &Value) -> Self {
        Self::at_epoch("meta_skill", epoch, result)
    }

    fn at_epoch(kind: &str, epoch: u64, result: &Value) -> Self {
        let mut event = Self::new(kind, result.clone());
        event.facts.insert("epoch".to_owned(), epoch.into());
        event
    }

    pub(crate) fn selected(hard: f64, soft: Option<f64>, promoted: bool) -> Self {
        Self::new(
            "selected",
            json!({"hard": hard, "soft": soft, "promoted": promoted}),
        )
    }

    pub(crate) fn tested(which: &str, hard: f64, soft: f64, n: usize) -> Self {
        Self::new(
            "tested",
            json!({"which": which, "hard": hard, "soft": soft, "n": n}),
        )
    }

    pub(crate) fn ended(ending: &Ending, summary: &Map<String, Value>) -> Self {
        let mut event = Self::new("ended", json!(ending));
        for name in [
            "total_accepts",
            "total_rejects",
            "total_skips",
            "token_summary",
        ] {
            if let Some(value) = summary.get(name) {
                event.facts.insert(name.to_owned(), value.clone());
            }
        }
        event
    }
}

/// The log of one run.
pub struct Log {
    store: Arc<dyn Store>,
    run: RunId,
    next: AtomicU64,
    watcher: Watcher,
}

impl Log {
    /// Opens the log at its beginning; events that are there are compared, not written twice.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, run: RunId, watcher: Watcher) -> Self {
        Self {
            store,
            run,
            next: AtomicU64::new(0),
            watcher,
        }
    }

    /// Writes the next event.
    pub(crate) async fn commit(&self, event: Event) -> Result<(), Halt> {
        let bytes = serde_json::to_vec(&event).map_err(Halt::infrastructure)?;
        let seq = self.next.fetch_add(1, Ordering::Relaxed);
        match self.store.append_event(&self.run, seq, bytes.into()).await {
            Ok(()) => {}
            Err(skillopt_queue::store::Error::Conflict { .. }) => {
                return Err(Halt::Failed(format!(
                    "this run went another way before: event {seq} (`{}`) of its log has other numbers. \
                     The program or its data changed since; start a new run with another --out",
                    event.kind
                )));
            }
            Err(e) => return Err(Halt::infrastructure(e)),
        }
        self.watcher.tell(Progress::Committed(&event));
        Ok(())
    }
}

/// Reads a run's log from its store.
///
/// # Errors
/// The store cannot be read, or an event is damaged.
pub async fn read(store: &dyn Store, run: &RunId) -> Result<Vec<Event>, Halt> {
    let mut events = Vec::new();
    loop {
        let page = store
            .events(run, events.len() as u64, 256)
            .await
            .map_err(Halt::infrastructure)?;
        if page.is_empty() {
            return Ok(events);
        }
        for bytes in page {
            events.push(decode(&bytes)?);
        }
    }
}

/// Reads one event as it is stored.
///
/// # Errors
/// It is damaged.
pub fn decode(bytes: &[u8]) -> Result<Event, Halt> {
    serde_json::from_slice(bytes)
        .map_err(|e| Halt::infrastructure(format!("an event is damaged: {e}")))
}
