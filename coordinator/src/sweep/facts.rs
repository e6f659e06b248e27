//! What is known of a sweep, as its results are worked out from it.

use crate::read_model::TokenRow;

/// What is known of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellFacts {
    /// Its name.
    pub cell: String,
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
    /// State in words; `waiting` before there is a run.
    pub state: String,
    /// Why it is paused or failed.
    pub cause: String,
    /// Exact scores of the starting skill on the test items, or why there are none.
    pub start: Scores,
    /// Exact scores of the best skill.
    pub best: Scores,
    /// Scores of what the best skill is compared with, in the order of the sweep.
    pub arms: Vec<(String, Scores)>,
    /// Tokens of the target's and of the optimizer's answers, once the run is over.
    pub tokens: Option<[TokenRow; 2]>,
    /// What these tokens cost, in millionths of a dollar, or why nobody knows.
    pub cost: Cost,
}

/// Scores item by item, or why there are none.
pub type Scores = Result<std::sync::Arc<[f64]>, Missing>;

/// Millionths of a dollar, or why nobody knows.
pub type Cost = Result<u64, Missing>;

/// Why something is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl Missing {
    /// Gives the reason.
    #[must_use]
    pub fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl CellFacts {
    /// Returns whether the training came to its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        is_finished(&self.state)
    }
}

/// Returns whether a training of this state came to its end.
#[must_use]
pub fn is_finished(state: &str) -> bool {
    matches!(
        state,
        "improved" | "no improvement" | "worse at the end" | "cannot judge"
    )
}

/// One skill in a foreign cell.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferFacts {
    /// Place of the cell that trained it.
    pub from: usize,
    /// Place of the cell it was tried in.
    pub to: usize,
    /// Its scores there.
    pub scores: Scores,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Name of the sweep.
    pub name: String,
    /// Its state in words.
    pub state: String,
    /// Names of the arms.
    pub arms: Vec<String>,
    /// Correct the intervals for the number of comparisons.
    pub family: bool,
    /// The cells in the order of the file.
    pub cells: Vec<CellFacts>,
    /// Whether skills are tried in other cells.
    pub transfer: bool,
    /// Those tried, in the order of their cells.
    pub transfers: Vec<TransferFacts>,
}
