//! The run's log: ordered commit events, each a fact and its numbers, no text of skills or models.
//!
//! Everything people look at is a projection of this log. An event is written once; writing the
//! same event again (a run that is repeated after a crash) changes nothing, writing another one in
//! its place is an error.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skillopt_core::job::Usage;

use crate::halt::Halt;

/// One commit event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened: `started`, `baseline`, `step`, `slow_update`, `meta_skill`, `selected`,
    /// `tested` or `ended`; for an evaluation `evaluated`.
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
    pub(crate) fn new(kind: &str, facts: Value) -> Self {
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
}

impl Event {
    /// Tells of a whole evaluation: the exact and the partial score of `n` items of a split.
    #[must_use]
    pub fn evaluated(split: &str, (hard, soft): (f64, f64), n: usize, usage: Usage) -> Self {
        Self::new(
            "evaluated",
            json!({"split": split, "hard": hard, "soft": soft, "n": n, "usage": usage}),
        )
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
