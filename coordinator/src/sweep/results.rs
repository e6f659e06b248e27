//! What a sweep came to. Everything here depends on the facts alone, not on the order in which
//! cells ended or on who paid for what; times and payments are elsewhere ([`super::observed`]).

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::facts::{CellFacts, Cost, Facts, Missing, Scores, TransferFacts};
use super::normal;
use super::summary::{chance, second};
use crate::read_model::{LiftRow, TokenRow};
use crate::train::{Z_95, paired};

/// Version of the form. Names stay as they are within a version; new ones may come.
pub const VERSION: u32 = 1;
/// How often an interval may leave out the true value.
const ALPHA: f64 = 0.05;

/// The results (`sweep.json`; `docs/sweeps.md`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`VERSION`].
    pub version: u32,
    /// Name of the sweep.
    pub name: String,
    /// State in words.
    pub state: String,
    /// The answer.
    pub headline: String,
    /// How it is made up.
    pub second: String,
    /// How many labels may be wrong by chance.
    pub chance: String,
    /// What best skills are compared with.
    pub compared_with: Vec<String>,
    /// Whether the intervals are corrected: `none` or `family`.
    pub correct: String,
    /// Half width of an interval, in standard errors.
    pub half_width: f64,
    /// Cells by how they stand.
    pub counts: Counts,
    /// The cells, in the order of the file.
    pub cells: Vec<CellResult>,
    /// Mean lifts of models, by harness.
    pub rows: Vec<Mean>,
    /// Mean lifts of benchmarks.
    pub columns: Vec<Mean>,
    /// Mean lift of all.
    pub overall: Mean,
    /// Skills in other cells; absent if the sweep does not ask for it.
    pub transfer: Option<Vec<Transfer>>,
    /// Tokens of all finished cells.
    pub tokens: TokenRow,
    /// What they cost, if every price is known.
    pub cost_usd: Option<f64>,
    /// Why there is no cost.
    pub cost_usd_missing_reason: Option<String>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
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
    /// From 1, as in the cell's name.
    pub repeat: u32,
    /// State in words.
    pub state: String,
    /// Why it is paused or failed.
    pub cause: Option<String>,
    /// `best`, `tied` or `worse`.
    pub label: Option<String>,
    /// Why there is no label.
    pub label_missing_reason: Option<String>,
    /// Test score of the starting skill, 0 to 1.
    pub baseline: Option<f64>,
    /// Test score of the best skill.
    pub best: Option<f64>,
    /// Best against starting skill.
    pub lift: Option<LiftRow>,
    /// Why scores or lift are missing.
    pub lift_missing_reason: Option<String>,
    /// Best against each arm.
    pub arms: Vec<Arm>,
    /// Tokens of the answers it used, whoever paid for them.
    pub tokens: Option<TokenRow>,
    /// What these cost, if the prices are known.
    pub cost_usd: Option<f64>,
    /// Why there is no cost.
    pub cost_usd_missing_reason: Option<String>,
}

/// The best skill against one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Name of the arm.
    pub arm: String,
    /// Test score of the arm.
    pub score: Option<f64>,
    /// Best skill against it.
    pub lift: Option<LiftRow>,
    /// Why score or lift is missing.
    pub missing_reason: Option<String>,
}

/// A mean of lifts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// Of what: a benchmark, or a model with its harness.
    pub of: String,
    /// The mean, 0 to 1; absent if no cell has a lift.
    pub lift: Option<f64>,
    /// Cells with a lift.
    pub n: u64,
    /// Cells in all.
    pub cells: u64,
}

/// A skill in a foreign cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The cell that trained it.
    pub from: String,
    /// The cell it was tried in.
    pub to: String,
    /// Test score there of that cell's starting skill.
    pub baseline: Option<f64>,
    /// Test score there.
    pub score: Option<f64>,
    /// Against that cell's starting skill.
    pub lift: Option<LiftRow>,
    /// Why score or lift is missing.
    pub missing_reason: Option<String>,
}

impl Results {
    /// Works the results out.
    #[must_use]
    pub fn of(facts: &Facts) -> Self {
        let z = half_width(facts);
        let cells: Vec<CellResult> = facts
            .cells
            .iter()
            .map(|cell| cell_result(cell, z))
            .collect();
        let counts = counts(&cells);
        let mut tokens = TokenRow::default();
        for row in cells.iter().filter_map(|cell| cell.tokens) {
            tokens += row;
        }
        let cost = total_cost(&facts.cells);
        let (cost_usd, cost_usd_missing_reason) = dollars(&cost);
        let keyed = |key: &dyn Fn(&CellResult) -> String| means(&cells, key);
        Self {
            version: VERSION,
            name: facts.name.clone(),
            state: facts.state.clone(),
            headline: format!(
                "Best or tied in {} of {} finished cells.",
                counts.best + counts.tied,
                counts.labelled
            ),
            second: second(&counts, &facts.arms),
            chance: chance(counts.labelled, facts.family),
            compared_with: facts.arms.clone(),
            correct: if facts.family { "family" } else { "none" }.to_owned(),
            half_width: z,
            rows: keyed(&|cell| row_name(&cell.model, &cell.harness)),
            columns: keyed(&|cell| cell.benchmark.clone()),
            overall: keyed(&|_| "all cells".to_owned()).pop().unwrap_or(Mean {
                of: "all cells".to_owned(),
                lift: None,
                n: 0,
                cells: 0,
            }),
            transfer: facts.transfer.then(|| {
                let all = facts.transfers.iter();
                all.filter_map(|t| transfer(facts, t, z)).collect()
            }),
            counts,
            cells,
            tokens,
            cost_usd,
            cost_usd_missing_reason,
        }
    }
}

/// Names a row of the matrix: the model, with its harness unless that is the plain chat.
pub(super) fn row_name(model: &str, harness: &str) -> String {
    if harness == "chat" {
        model.to_owned()
    } else {
        format!("{model} · {harness}")
    }
}

/// With a correction, all planned comparisons share one chance of error, so that labels do not
/// change as cells come in.
fn half_width(facts: &Facts) -> f64 {
    let comparisons = facts.cells.len() * facts.arms.len();
    if facts.family && comparisons > 1 {
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        return normal::half_width(ALPHA / comparisons as f64);
    }
    Z_95
}

fn cell_result(facts: &CellFacts, z: f64) -> CellResult {
    let arms: Vec<Arm> = facts
        .arms
        .iter()
        .map(|(name, scores)| {
            let (score, lift, missing_reason) = against(scores, &facts.best, z);
            Arm {
                arm: name.clone(),
                score,
                lift,
                missing_reason,
            }
        })
        .collect();
    let (baseline, lift, lift_missing_reason) = against(&facts.start, &facts.best, z);
    let (label, label_missing_reason) = match label(facts, &arms) {
        Ok(label) => (Some(label.to_owned()), None),
        Err(Missing(reason)) => (None, Some(reason)),
    };
    let (cost_usd, cost_usd_missing_reason) = dollars(&facts.cost);
    CellResult {
        cell: facts.cell.clone(),
        model: facts.model.clone(),
        benchmark: facts.benchmark.clone(),
        harness: facts.harness.clone(),
        seed: facts.seed,
        repeat: facts.repeat + 1,
        state: facts.state.clone(),
        cause: Some(facts.cause.clone()).filter(|cause| !cause.is_empty()),
        label,
        label_missing_reason,
        baseline,
        best: facts.best.as_ref().ok().and_then(|scores| mean(scores)),
        lift,
        lift_missing_reason,
        arms,
        tokens: facts.tokens.map(|[mut sum, optimizer]| {
            sum += optimizer;
            sum
        }),
        cost_usd,
        cost_usd_missing_reason,
    }
}

/// A cell is best if its best skill beats every arm for sure, worse if it loses to one for sure.
fn label(facts: &CellFacts, arms: &[Arm]) -> Result<&'static str, Missing> {
    if !facts.is_finished() {
        return Err(Missing::because(format!("the cell is {}", facts.state)));
    }
    let mut label = "best";
    for arm in arms {
        let Some(lift) = arm.lift else {
            let reason = arm.missing_reason.clone().unwrap_or_default();
            return Err(Missing::because(format!("{}: {reason}", arm.arm)));
        };
        if lift.high < 0.0 {
            label = "worse";
        } else if lift.low <= 0.0 && label == "best" {
            label = "tied";
        }
    }
    Ok(label)
}

/// Score of `before`, lift from there to `after`, and why one of them is missing.
fn against(
    before: &Scores,
    after: &Scores,
    z: f64,
) -> (Option<f64>, Option<LiftRow>, Option<String>) {
    let score = before.as_ref().ok().and_then(|scores| mean(scores));
    match (before, after) {
        (Ok(before), Ok(after)) if before.len() == after.len() => match paired(before, after, z) {
            Some(lift) => {
                let row = LiftRow {
                    mean: lift.mean,
                    low: lift.low,
                    high: lift.high,
                    n: lift.n as u64,
                };
                (score, Some(row), None)
            }
            None => {
                let reason = "an interval needs two test items or more".to_owned();
                (score, None, Some(reason))
            }
        },
        (Ok(_), Ok(_)) => (score, None, Some("scored on other items".to_owned())),
        (Err(Missing(reason)), _) | (_, Err(Missing(reason))) => {
            (score, None, Some(reason.clone()))
        }
    }
}

fn mean(scores: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "counts of items are small")]
    let n = scores.len() as f64;
    (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / n)
}

fn counts(cells: &[CellResult]) -> Counts {
    let mut counts = Counts::default();
    for cell in cells {
        counts.cells += 1;
        let group = match cell.state.as_str() {
            state if super::facts::is_finished(state) => &mut counts.finished,
            "waiting" | "queued" => &mut counts.waiting,
            state if state.starts_with("paused") => &mut counts.paused,
            "failed" => &mut counts.failed,
            "cancelled" => &mut counts.cancelled,
            _ => &mut counts.running,
        };
        *group += 1;
        match cell.label.as_deref() {
            Some("best") => counts.best += 1,
            Some("tied") => counts.tied += 1,
            Some("worse") => counts.worse += 1,
            _ => continue,
        }
        counts.labelled += 1;
    }
    counts
}

/// Mean lifts of groups of cells, in the order in which the groups first appear.
fn means(cells: &[CellResult], key: &dyn Fn(&CellResult) -> String) -> Vec<Mean> {
    let mut groups: Vec<(String, Vec<&CellResult>)> = Vec::new();
    for cell in cells {
        let of = key(cell);
        match groups.iter_mut().find(|(known, _)| *known == of) {
            Some((_, group)) => group.push(cell),
            None => groups.push((of, vec![cell])),
        }
    }
    groups
        .into_iter()
        .map(|(of, group)| {
            let finished = group
                .iter()
                .filter(|cell| super::facts::is_finished(&cell.state));
            let lifts: Vec<f64> = finished.filter_map(|cell| Some(cell.lift?.mean)).collect();
            Mean {
                of,
                lift: mean(&lifts),
                n: lifts.len() as u64,
                cells: group.len() as u64,
            }
        })
        .collect()
}

fn transfer(facts: &Facts, of: &TransferFacts, z: f64) -> Option<Transfer> {
    let (from, to) = (facts.cells.get(of.from)?, facts.cells.get(of.to)?);
    let (baseline, lift, missing_reason) = against(&to.start, &of.scores, z);
    Some(Transfer {
        from: from.cell.clone(),
        to: to.cell.clone(),
        baseline,
        score: of.scores.as_ref().ok().and_then(|scores| mean(scores)),
        lift,
        missing_reason,
    })
}

/// Adds up what finished cells cost.
fn total_cost(cells: &[CellFacts]) -> Cost {
    let mut sum = Err(Missing::because("no cell is finished"));
    for cell in cells.iter().filter(|cell| cell.tokens.is_some()) {
        let cost = cell.cost.clone()?;
        sum = Ok(sum.unwrap_or(0) + cost);
    }
    sum
}

fn dollars(cost: &Cost) -> (Option<f64>, Option<String>) {
    match cost {
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact below nine billion dollars"
        )]
        Ok(micro) => (Some(*micro as f64 / 1e6), None),
        Err(Missing(reason)) => (None, Some(reason.clone())),
    }
}

#[cfg(test)]
mod tests;
