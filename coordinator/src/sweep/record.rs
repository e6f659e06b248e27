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
/// Most evaluations that the results of a sweep may need.
pub const CHECKS_MAX: usize = 3_000;

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
    /// Blob of its first skill, once it is finished.
    #[serde(default)]
    pub initial: Option<Hash>,
    /// Blob of its best skill, once it is finished.
    #[serde(default)]
    pub best: Option<Hash>,
    /// It ended, well or not; nothing more comes of its run.
    #[serde(default)]
    pub over: bool,
}

/// A skill that best skills are compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// What people call it, e.g. `no skill`.
    pub name: String,
    /// Blob of the skill folder; `None` is each cell's own first skill.
    pub skill: Option<Hash>,
}

/// An evaluation that the results need: an arm of a cell, or a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Place of the cell whose test items are used.
    pub cell: usize,
    /// Blob of the skill folder.
    pub skill: Hash,
    /// Shown to people, e.g. `no skill`.
    pub name: String,
    /// Its run, once there is one.
    #[serde(default)]
    pub run: Option<String>,
    /// Why there can be no score.
    #[serde(default)]
    pub refused: Option<String>,
    /// It ended, well or not.
    #[serde(default)]
    pub over: bool,
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
    /// The wish is not told to all runs yet.
    #[serde(default)]
    pub untold: bool,
    /// How often lost cells were run again.
    #[serde(default)]
    pub round: u32,
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

impl Sweep {
    /// Returns the path of sweep `id`, which is also the name of the right to bring it on.
    #[must_use]
    pub fn path(id: &str) -> String {
        format!("{SWEEPS}{id}")
    }

    /// Returns the path of the mark that sweep `id` has not ended.
    #[must_use]
    pub fn mark(id: &str) -> String {
        format!("{OPEN}{id}")
    }

    /// Returns the pairs of cells of which one may try the skill of the other: those with the same
    /// benchmark, seed and repeat.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let cells = if self.transfer {
            self.cells.as_slice()
        } else {
            &[]
        };
        cells.iter().enumerate().flat_map(move |(i, from)| {
            let others = cells.iter().enumerate();
            others.filter_map(move |(j, to)| {
                let is_kin = from.benchmark == to.benchmark
                    && from.seed == to.seed
                    && from.repeat == to.repeat;
                (i != j && is_kin).then_some((i, j))
            })
        })
    }

    /// Returns the evaluations that finished cells need and that are not noted yet.
    #[must_use]
    pub fn new_checks(&self) -> Vec<Check> {
        let mut known: std::collections::BTreeSet<(usize, Hash)> = self
            .checks
            .iter()
            .map(|check| (check.cell, check.skill))
            .collect();
        // What a finished training has scored itself.
        for (i, cell) in self.cells.iter().enumerate() {
            known.extend(
                [cell.initial, cell.best]
                    .into_iter()
                    .flatten()
                    .map(|skill| (i, skill)),
            );
        }
        let arms = self
            .cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| cell.best.is_some());
        let arms = arms.flat_map(|(i, _)| {
            let others = self
                .arms
                .iter()
                .filter_map(|arm| Some((arm.name.clone(), arm.skill?)));
            others.map(move |(name, skill)| (i, skill, name))
        });
        let pairs = self.pairs().filter_map(|(from, to)| {
            let from = self.cells.get(from)?;
            // A cell that did not come to its end has nothing to compare with.
            self.cells.get(to)?.best?;
            Some((to, from.best?, format!("skill of {}", from.name)))
        });
        let mut new = Vec::new();
        for (cell, skill, name) in arms.chain(pairs) {
            if known.insert((cell, skill)) {
                new.push(Check {
                    cell,
                    skill,
                    name,
                    run: None,
                    refused: None,
                    over: false,
                });
            }
        }
        new
    }

    /// Returns whether nothing more comes.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.cells.iter().all(|cell| cell.over) && self.checks.iter().all(|check| check.over)
    }
}
