//! The results as CSV and as tables of words.

use super::observed::Observed;
use super::results::{CellResult, Mean, Results, row_name};
use crate::read_model::{LiftRow, amount, money, points, share, span};

/// What stands where something is missing.
const MISSING: &str = "—";

/// Writes the cells as CSV (`sweep.csv`): shares are 0 to 1, lifts are in points, what is missing
/// is an empty field and its reason stands in the column for it.
#[must_use]
pub fn csv(results: &Results) -> String {
    let mut head: Vec<String> = [
        "cell",
        "model",
        "benchmark",
        "harness",
        "seed",
        "repeat",
        "state",
        "cause",
        "label",
        "label_missing_reason",
        "baseline",
        "best",
        "lift_points",
        "lift_low_points",
        "lift_high_points",
        "lift_n",
        "lift_missing_reason",
    ]
    .map(str::to_owned)
    .into();
    for arm in &results.compared_with {
        let name: String = arm
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        for what in [
            "score",
            "lift_points",
            "lift_low_points",
            "lift_high_points",
        ] {
            head.push(format!("vs_{name}_{what}"));
        }
    }
    head.extend(
        [
            "calls",
            "prompt_tokens",
            "completion_tokens",
            "cost_usd",
            "cost_usd_missing_reason",
        ]
        .map(str::to_owned),
    );
    let mut text = line(&head.iter().map(|name| field(name)).collect::<Vec<_>>());
    for cell in &results.cells {
        text.push_str(&line(&row(cell, results.compared_with.len())));
    }
    text
}

fn row(cell: &CellResult, arms: usize) -> Vec<String> {
    let optional = |text: &Option<String>| field(text.as_deref().unwrap_or_default());
    let mut row = vec![
        field(&cell.cell),
        field(&cell.model),
        field(&cell.benchmark),
        field(&cell.harness),
        cell.seed.to_string(),
        cell.repeat.to_string(),
        field(&cell.state),
        optional(&cell.cause),
        optional(&cell.label),
        optional(&cell.label_missing_reason),
        number(cell.baseline),
        number(cell.best),
    ];
    row.extend(lift(cell.lift.as_ref()));
    row.push(
        cell.lift
            .map_or_else(String::new, |lift| lift.n.to_string()),
    );
    row.push(optional(&cell.lift_missing_reason));
    for i in 0..arms {
        let arm = cell.arms.get(i);
        row.push(number(arm.and_then(|arm| arm.score)));
        row.extend(lift(arm.and_then(|arm| arm.lift.as_ref())));
    }
    let count = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
    row.push(count(cell.tokens.map(|t| t.calls)));
    row.push(count(cell.tokens.map(|t| t.prompt_tokens)));
    row.push(count(cell.tokens.map(|t| t.completion_tokens)));
    row.push(number(cell.cost_usd));
    row.push(optional(&cell.cost_usd_missing_reason));
    row
}

fn lift(lift: Option<&LiftRow>) -> [String; 3] {
    let points = |value: Option<f64>| number(value.map(|x| round6(x * 100.0)));
    [
        points(lift.map(|l| l.mean)),
        points(lift.map(|l| l.low)),
        points(lift.map(|l| l.high)),
    ]
}

fn round6(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    // No minus before a zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |x| x.to_string())
}

/// Writes a text: one that a spreadsheet would take for a formula is marked as text. Numbers of
/// ours are written as they are.
fn field(text: &str) -> String {
    let marked = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if marked.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", marked.replace('"', "\"\""))
    } else {
        marked
    }
}

fn line(fields: &[String]) -> String {
    format!("{}\n", fields.join(","))
}

/// Rows of the table of cells for people, the head first. `observed` adds the times.
#[must_use]
pub fn cells(results: &Results, observed: Option<&Observed>) -> Vec<Vec<String>> {
    let head = [
        "cell", "baseline", "best", "lift", "95%", "label", "tokens", "cost", "time", "state",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (i, cell) in results.cells.iter().enumerate() {
        let wall = observed.and_then(|seen| seen.cells.get(i)?.wall_s);
        rows.push(vec![
            cell.cell.clone(),
            share(cell.baseline),
            share(cell.best),
            cell.lift
                .map_or_else(|| MISSING.to_owned(), |l| points(l.mean)),
            cell.lift.map_or_else(|| MISSING.to_owned(), between),
            cell.label.clone().unwrap_or_else(|| MISSING.to_owned()),
            cell.tokens.map_or_else(
                || MISSING.to_owned(),
                |t| amount(t.prompt_tokens + t.completion_tokens),
            ),
            cost(cell),
            wall.map_or_else(|| MISSING.to_owned(), wall_words),
            why(cell),
        ]);
    }
    rows
}

fn between(lift: LiftRow) -> String {
    format!("{} to {}", points(lift.low), points(lift.high))
}

/// A cell that has used nothing has no cost; one whose price nobody knows says so.
fn cost(cell: &CellResult) -> String {
    match cell.tokens {
        None => MISSING.to_owned(),
        Some(_) => money(cell.cost_usd),
    }
}

/// Writes a span.
#[must_use]
pub fn wall_words(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "spans are short and not negative"
    )]
    span((seconds * 1e3).round() as u64)
}

/// State with its cause, or with the reason why a finished cell has no label.
fn why(cell: &CellResult) -> String {
    let is_finished = super::facts::is_finished(&cell.state);
    let reason = match &cell.cause {
        Some(cause) => Some(cause),
        None if is_finished => cell.label_missing_reason.as_ref(),
        None => None,
    };
    match reason {
        Some(reason) => format!(
            "{}: {}",
            cell.state,
            reason.lines().next().unwrap_or_default()
        ),
        None => cell.state.clone(),
    }
}

/// Rows of the matrix of mean lifts: models (with harness) by benchmarks, with means and counts.
#[must_use]
pub fn matrix(results: &Results) -> Vec<Vec<String>> {
    let mut head = vec!["lift in points".to_owned()];
    head.extend(results.columns.iter().map(|mean| mean.of.clone()));
    head.push("mean".to_owned());
    let mut rows = vec![head];
    for row in &results.rows {
        let mut line = vec![row.of.clone()];
        for column in &results.columns {
            line.push(cross(results, &row.of, &column.of));
        }
        line.push(mean(row));
        rows.push(line);
    }
    let mut last = vec!["mean".to_owned()];
    last.extend(results.columns.iter().map(mean));
    last.push(mean(&results.overall));
    rows.push(last);
    rows
}

/// What stands where a row and a column cross: the lift, with the word unless it is best; `n/a` if
/// no cell was planned.
fn cross(results: &Results, row: &str, column: &str) -> String {
    let cells: Vec<&CellResult> = results
        .cells
        .iter()
        .filter(|cell| row_name(&cell.model, &cell.harness) == row && cell.benchmark == column)
        .collect();
    match cells.as_slice() {
        [] => "n/a".to_owned(),
        [cell] => match (cell.lift, cell.label.as_deref()) {
            (Some(lift), Some("best") | None) => points(lift.mean),
            (Some(lift), Some(word)) => format!("{} {word}", points(lift.mean)),
            (None, _) => cell.state.clone(),
        },
        several => {
            let lifts: Vec<f64> = several.iter().filter_map(|c| Some(c.lift?.mean)).collect();
            if lifts.is_empty() {
                return MISSING.to_owned();
            }
            #[expect(clippy::cast_precision_loss, reason = "a small count")]
            let mean = lifts.iter().sum::<f64>() / lifts.len() as f64;
            format!("{} ({} of {})", points(mean), lifts.len(), several.len())
        }
    }
}

fn mean(mean: &Mean) -> String {
    match mean.lift {
        Some(lift) => format!("{} ({} of {})", points(lift), mean.n, mean.cells),
        None => format!("{MISSING} (0 of {})", mean.cells),
    }
}

/// Rows of the table of transfers, the head first; nothing if there are none.
#[must_use]
pub fn transfers(results: &Results) -> Vec<Vec<String>> {
    let Some(all) = results.transfer.as_ref().filter(|all| !all.is_empty()) else {
        return Vec::new();
    };
    let head = [
        "trained in",
        "tried in",
        "start",
        "score",
        "lift",
        "95%",
        "why not",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in all {
        rows.push(vec![
            one.from.clone(),
            one.to.clone(),
            share(one.baseline),
            share(one.score),
            one.lift
                .map_or_else(|| MISSING.to_owned(), |l| points(l.mean)),
            one.lift.map_or_else(|| MISSING.to_owned(), between),
            one.missing_reason.clone().unwrap_or_default(),
        ]);
    }
    rows
}
