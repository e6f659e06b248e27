//! What a run knows between two steps.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};
use skillopt_core::budget::Scheduler;
use skillopt_core::gate::Standing;
use skillopt_core::score::Score;
use skillopt_core::skill::Folder;
use skillopt_core::step_buffer::Entry;

use super::plan::Plan;
use super::tokens::Tokens;

/// Run state (training spec 1.4).
pub(super) struct State {
    /// The skill being trained; its score belongs to [`Self::standing`] once there is one.
    pub(super) current: Arc<Folder>,
    pub(super) current_origin: String,
    pub(super) best_origin: String,
    /// Absent until the baseline is measured (D37). Its `current` is the text its score was
    /// measured on, which [`Self::current`] may have moved on from (D40).
    pub(super) standing: Option<Standing<Arc<Folder>>>,
    pub(super) baseline: Option<Score>,
    pub(super) scheduler: Scheduler,
    /// Validation scores by the hash of the exact text that was measured (D3).
    pub(super) measured: BTreeMap<String, Score>,
    /// Steps of this epoch that reached the gate.
    pub(super) buffer: Vec<Entry>,
    pub(super) meta_skill: String,
    pub(super) history: Vec<Map<String, Value>>,
    /// The skill at the end of each epoch, slow update included.
    pub(super) epoch_ends: Vec<Arc<Folder>>,
    /// How often an item was rolled out for training with a skill, by (item, skill).
    seen: HashMap<(usize, String), u32>,
    pub(super) rate_decisions: Vec<Value>,
    pub(super) tokens: Tokens,
}

impl State {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            current: Arc::clone(&plan.initial),
            current_origin: "initial_skill".to_owned(),
            best_origin: "initial_skill".to_owned(),
            standing: None,
            baseline: None,
            scheduler: Scheduler::new(plan.budget),
            measured: BTreeMap::new(),
            buffer: Vec::new(),
            meta_skill: String::new(),
            history: Vec::new(),
            epoch_ends: Vec::new(),
            seen: HashMap::new(),
            rate_decisions: Vec::new(),
            tokens: Tokens::default(),
        }
    }

    /// Returns for each item how often it was rolled out for training with the current skill
    /// before, and counts this time.
    pub(super) fn repeats(&mut self, items: &[usize]) -> Vec<u32> {
        let skill = self.current.hash_short();
        items
            .iter()
            .map(|item| {
                let seen = self.seen.entry((*item, skill.clone())).or_default();
                *seen += 1;
                *seen - 1
            })
            .collect()
    }

    /// Returns whether the current text is another one than its score was measured on (D40).
    pub(super) fn is_stale(&self) -> bool {
        self.standing
            .as_ref()
            .is_some_and(|s| s.current != self.current)
    }

    pub(super) fn best(&self) -> Arc<Folder> {
        self.standing
            .as_ref()
            .map_or_else(|| Arc::clone(&self.current), |s| Arc::clone(&s.best))
    }
}
