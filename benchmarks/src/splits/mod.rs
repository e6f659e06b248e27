//! Items in three parts: reading, cutting, shuffling and batching them (training spec 1.15).

use serde_json::Value;

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Unique within its benchmark, never empty.
    pub id: String,
    /// The item's JSON object, `id` included.
    pub value: Value,
}

/// The three parts of a benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Splits {
    /// What rollouts of a training step draw from.
    pub train: Vec<Item>,
    /// What the gate looks at.
    pub val: Vec<Item>,
    /// Sealed until the end of the run.
    pub test: Vec<Item>,
}
