//! What the training loop asks for: rollouts and chat answers, whoever makes them.
//!
//! The loop is deterministic given the answers of [`Jobs`]. The real implementation is
//! [`crate::session::Session`]; the golden vectors bring a scripted one.

use std::future::Future;
use std::sync::Arc;

use crate::sample::Sample;
use serde_json::{Map, Value};
use skillopt_core::job::{ChatRecord, Prompt, RolloutRecord, Usage};
use skillopt_core::score;
use skillopt_core::skill::Folder;

use crate::halt::Halt;

/// How soon a stage is wanted: the way to the next decision first, the sealed tests last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nobody waits for it yet, and nobody may look at it: its folder is not shown before
    /// [`Jobs::reveal`].
    Background,
    /// A later decision needs it: it fills slots that the next one leaves idle.
    Soon,
    /// The next decision needs it.
    Next,
}

/// A rollout stage: one skill on some items.
#[derive(Clone, Debug)]
pub struct RolloutAsk<'a> {
    /// Folder of the stage below the run folder, e.g. `steps/step_0001/rollout`.
    pub stage: &'a str,
    /// The skill.
    pub skill: &'a Arc<Folder>,
    /// The items, in the order of the answer.
    pub items: &'a [&'a Sample],
    /// For each item: 0 for a first sample, 1 for a second one, …; empty means all 0.
    pub repeats: &'a [u32],
    /// Keep the trajectories, not only rows.
    pub keep_records: bool,
    /// How soon.
    pub urgency: Urgency,
}

/// One finished rollout.
#[derive(Clone, Debug)]
pub struct Rolled {
    /// Exact success, 0 to 1.
    pub hard: f64,
    /// Partial credit, 0 to 1.
    pub soft: f64,
    /// The row's `task_type`, empty if it has none.
    pub task_type: String,
    /// Why the model gave no answer at all, if it did not.
    pub no_answer: Option<String>,
    /// The whole record, if asked for.
    pub record: Option<Arc<RolloutRecord>>,
}

/// All rollouts of a stage, in item order.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// The results.
    pub rolled: Vec<Rolled>,
    /// Tokens of answers that this run had not used before.
    pub usage: Usage,
}

impl Stage {
    /// Returns the mean of `hard` and of `soft`; an empty stage scores (0, 0).
    #[must_use]
    pub fn score(&self) -> (f64, f64) {
        let mean = score::mean_of(self.rolled.iter().map(|r| (r.hard, r.soft)));
        (mean.hard, mean.soft)
    }

    /// Returns how many rollouts got no answer from the model, and why the first of them did not.
    #[must_use]
    pub fn unanswered(&self) -> Option<(usize, &str)> {
        let mut causes = self.rolled.iter().filter_map(|r| r.no_answer.as_deref());
        let first = causes.next()?;
        Some((1 + causes.count(), first))
    }

    /// Returns the rows of the kept records.
    #[must_use]
    pub fn rows(&self) -> Vec<&Map<String, Value>> {
        self.records().map(|record| &record.row).collect()
    }

    /// Returns the kept records.
    pub fn records(&self) -> impl Iterator<Item = &Arc<RolloutRecord>> {
        self.rolled.iter().filter_map(|r| r.record.as_ref())
    }
}

/// One call of an optimizer stage.
#[derive(Clone, Debug)]
pub struct ChatAsk {
    /// Stage label (training spec 6.1).
    pub stage: &'static str,
    /// What to say.
    pub prompt: Prompt,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Reasoning effort of this call, if it differs from the run's.
    pub reasoning_effort: Option<String>,
}

/// Answers what the training loop asks.
///
/// # Errors
/// Both report only what pauses or ends the run; a refusal of one prompt is an answer.
pub trait Jobs {
    /// Rolls out a stage and projects it into the run folder.
    fn rollouts(&self, ask: RolloutAsk<'_>) -> impl Future<Output = Result<Stage, Halt>>;

    /// Shows the folder of a stage that was rolled out in the background.
    fn reveal(&self, stage: &str) -> impl Future<Output = Result<(), Halt>>;

    /// Adds a JSON file to the folder of a stage that was rolled out before.
    fn annotate(
        &self,
        stage: &str,
        name: &str,
        value: &Value,
    ) -> impl Future<Output = Result<(), Halt>>;

    /// Makes one optimizer call.
    fn chat(&self, ask: ChatAsk) -> impl Future<Output = Result<ChatRecord, Halt>>;
}
