//! A sweep file: models × benchmarks × harnesses over one configuration.
//!
//! Everything of a sweep stands under the key `sweep`. The sections of a configuration may stand
//! beside it; they apply to every cell. [`load`] reads and checks the file, [`Sweep::expand`] makes
//! one configuration for each cell, in an order that depends on the file alone.

mod expand;
mod fields;
mod options;
mod pattern;
mod read;

use std::path::PathBuf;

use crate::load::LoadError;
use crate::node::{Mapping, Origin};
use crate::problem::Errors;

pub use expand::CellConfig;
pub use pattern::Pattern;
pub use read::load;

/// Most cells of a sweep.
pub const CELLS_MAX: usize = 1_000;

/// Why a sweep file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// It, or a configuration it names, cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What it says.
    #[error(transparent)]
    Wrong(#[from] Errors),
}

/// A sweep as its file tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The file as it was named.
    pub path: String,
    /// Shown to people.
    pub name: String,
    /// The configuration that cells start from, unless their benchmark names its own.
    pub base: Option<Named>,
    /// Sections for every cell.
    pub shared: Mapping,
    /// The target models.
    pub models: Vec<Axis>,
    /// The benchmarks.
    pub benchmarks: Vec<Axis>,
    /// The harnesses; `chat` alone if none is named.
    pub harnesses: Vec<Axis>,
    /// Cells are only those that match one of these; empty: all.
    pub include: Vec<Pattern>,
    /// Cells that match one of these are left out.
    pub exclude: Vec<Pattern>,
    /// Sections for some cells, later ones win.
    pub cells: Vec<Override>,
    /// Seeds; empty: the configuration's own.
    pub seeds: Vec<Seed>,
    /// How often each cell is run with answers of its own.
    pub repeats: u32,
    /// What best skills are compared with.
    pub arms: Vec<Arm>,
    /// Try each best skill in the other cells of its benchmark.
    pub transfer: bool,
    /// Most calls, tokens and millionths of a dollar of all cells together.
    pub caps: Caps,
    /// Share of the cluster against other runs.
    pub weight: u32,
    /// Correct the intervals for the number of comparisons.
    pub family: bool,
}

/// A file that the sweep names.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Relative ones are taken from the sweep file's folder.
    pub path: PathBuf,
    /// Where it is named.
    pub origin: Origin,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Part of the names of cells.
    pub name: String,
    /// Where it is named.
    pub origin: Origin,
    /// The configuration that its cells start from; benchmarks only.
    pub config: Option<Named>,
    /// Sections for its cells.
    pub sections: Mapping,
}

/// Sections for the cells that match.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// Which cells.
    pub pattern: Pattern,
    /// The sections.
    pub sections: Mapping,
}

/// A seed and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Seed {
    /// The seed.
    pub value: u64,
    /// Where it stands.
    pub origin: Origin,
}

/// What best skills are compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Arm {
    /// The blank skill.
    NoSkill,
    /// The skill that a cell starts from.
    StartingSkill,
    /// Another skill.
    Skill {
        /// What people call it.
        name: String,
        /// A file, or a folder with `SKILL.md`.
        skill: Named,
    },
}

impl Arm {
    /// Returns what people call it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::NoSkill => "no skill",
            Self::StartingSkill => "starting skill",
            Self::Skill { name, .. } => name,
        }
    }
}

/// Most that all cells together may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Calls.
    pub requests: Option<u64>,
    /// Tokens sent and received.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

#[cfg(test)]
mod tests;
