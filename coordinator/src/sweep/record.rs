//! A sweep as it is kept on the board.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillopt_core::Hash;
use skillopt_queue::ledger::Caps;

use super::runs::Wish;

/// Paths of sweeps begin with this.
pub const SWEEPS: &str = "sweep/";
/// Paths of marks of sweeps that have not ended begin with this.
pub const OPEN: &str = "sweep-open/";
/// Most cells of a sweep.
pub const CELLS_MAX: usize = 1_000;

/// One cell: a training.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique in the sweep: `MODEL/BENCHMARK/HARNESS`, with `#SEED` or `@REPEAT`.
    pub name: String,
    /// The target model.
    pub model: String,
    /// The benchmark.
    pub benchmark: String,
    /// The harness.
    pub harness: String,
    /// The seed.
    pub seed: u64,
    /// From 0.
    pub repeat: u32,
    /// Its inputs.
    pub bundle: Hash,
    /// How often it was begun anew.
    #[serde(default)]
    pub attempt: u32,
    /// Its run, once there is one.
    #[serde(default)]
    pub run: Option<String>,
    /// Why there can be no run.
    #[serde(default)]
    pub refused: Option<String>,
}

/// A skill that best skills are compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// What people call it, e.g. `no skill`.
    pub name: String,
    /// Blob of the skill folder; `None` is each cell's own first skill.
    pub skill: Option<Hash>,
}

/// An evaluation that the results need: a further arm of a cell, or a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The cell whose test items are used.
    pub cell: String,
    /// The cell that trained the skill, or nothing for an arm.
    #[serde(default)]
    pub from: Option<String>,
    /// The arm's name, or nothing for a transfer.
    #[serde(default)]
    pub arm: Option<String>,
    /// Blob of the skill folder.
    pub skill: Hash,
    /// Its run, once there is one.
    #[serde(default)]
    pub run: Option<String>,
    /// Why there can be no run.
    #[serde(default)]
    pub refused: Option<String>,
}

/// The sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// A hash of tenant and client key.
    pub id: String,
    /// Shown to people.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// Who submitted it.
    pub owner: String,
    /// The sweep file's settings, for people and for the results.
    pub spec: Value,
    /// What best skills are compared with.
    pub arms: Vec<Arm>,
    /// Try each best skill in the other cells of its benchmark.
    pub transfer: bool,
    /// Correct the intervals for the number of comparisons.
    pub family: bool,
    /// Share against other runs of the tenant.
    pub weight: u32,
    /// Most that all runs together may use.
    pub caps: Caps,
    /// What is wanted of it.
    #[serde(default)]
    pub wish: Wish,
    /// Milliseconds since 1970 by the board's clock.
    pub submitted_ms: u64,
    /// 0 while it goes on.
    #[serde(default)]
    pub ended_ms: u64,
    /// The cells, in the order of the file.
    pub cells: Vec<Cell>,
    /// The evaluations so far.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Blob of the results, once it has ended.
    #[serde(default)]
    pub results: Option<Hash>,
}
