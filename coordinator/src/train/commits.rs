//! The facts that a training commits to its log.

use serde_json::{Map, Value, json};
use skillopt_core::Hash;
use skillopt_core::score::Score;

use super::{Ending, Plan};
use crate::events::Event;

impl Event {
    pub(super) fn started(plan: &Plan) -> Self {
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

    pub(super) fn baseline(score: Score, gate_score: f64, n: usize) -> Self {
        Self::new(
            "baseline",
            json!({"hard": score.hard, "soft": score.soft, "score": gate_score, "n": n}),
        )
    }

    pub(super) fn step(record: &Map<String, Value>) -> Self {
        Self::new("step", record.clone().into())
    }

    pub(super) fn slow_update(epoch: u64, result: &Value) -> Self {
        Self::at_epoch("slow_update", epoch, result)
    }

    pub(super) fn meta_skill(epoch: u64, result: &Value) -> Self {
        Self::at_epoch("meta_skill", epoch, result)
    }

    fn at_epoch(kind: &str, epoch: u64, result: &Value) -> Self {
        let mut event = Self::new(kind, result.clone());
        event.facts.insert("epoch".to_owned(), epoch.into());
        event
    }

    pub(super) fn selected(hard: f64, soft: Option<f64>, promoted: bool) -> Self {
        Self::new(
            "selected",
            json!({"hard": hard, "soft": soft, "promoted": promoted}),
        )
    }

    pub(super) fn tested(which: &str, hard: f64, soft: f64, n: usize) -> Self {
        Self::new(
            "tested",
            json!({"which": which, "hard": hard, "soft": soft, "n": n}),
        )
    }

    /// `best_skill` is the address of the best skill's blob.
    pub(super) fn ended(ending: &Ending, best_skill: Hash, summary: &Map<String, Value>) -> Self {
        let mut event = Self::new("ended", json!(ending));
        event
            .facts
            .insert("best_skill".to_owned(), json!(best_skill));
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
