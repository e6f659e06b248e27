//! Where a run is heading (dashboard spec, chapter 5.2).

use super::rows::{ForecastRow, RunRow, StepRow};
use super::words::is_over;

/// Steps that must be finished before anything is foretold.
const STEPS_MIN: usize = 3;
/// The pace is that of so many last steps.
const STEPS_MAX: usize = 10;

/// Foretells a run from its finished steps; nothing if too few are finished, or none is left.
#[must_use]
pub(super) fn forecast(run: &RunRow, steps: &[StepRow]) -> Option<ForecastRow> {
    let done: Vec<&StepRow> = steps.iter().filter(|row| !row.slow).collect();
    let left = run.steps_total?.checked_sub(run.steps_done)?;
    if is_over(&run.state) || left == 0 || done.len() < STEPS_MIN {
        return None;
    }
    let last = &done[done.len().saturating_sub(STEPS_MAX)..];
    #[expect(clippy::cast_precision_loss, reason = "a few steps")]
    let (left, n) = (left as f64, last.len() as f64);
    let took: Option<Vec<f64>> = last.iter().map(|row| row.took_s).collect();
    let costs: Option<Vec<f64>> = last.iter().map(|row| row.cost_usd).collect();
    let spent: u64 = steps.iter().map(tokens).sum();
    let pace: u64 = last.iter().map(|row| tokens(row)).sum();
    Some(ForecastRow {
        steps: done.len() as u64,
        tokens: (pace > 0).then(|| spent + rounded(num(pace) / n * left)),
        cost_usd: run
            .cost_usd
            .zip(costs)
            .map(|(spent, costs)| spent + costs.iter().sum::<f64>() / n * left),
        left_s: took.map(|took| median(took) * left),
    })
}

const fn tokens(row: &StepRow) -> u64 {
    row.tokens.prompt_tokens + row.tokens.completion_tokens
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
const fn num(n: u64) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate of what cannot be negative"
)]
fn rounded(x: f64) -> u64 {
    x.round() as u64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::TokenRow;
    use super::*;

    fn step(n: u64, took: Option<f64>) -> StepRow {
        StepRow {
            step: n,
            took_s: took,
            tokens: TokenRow {
                calls: 1,
                prompt_tokens: 90,
                completion_tokens: 10,
                ..TokenRow::default()
            },
            ..StepRow::default()
        }
    }

    #[test]
    fn a_forecast_needs_three_finished_steps_and_a_step_to_come() {
        let row = |state: &str, done| RunRow {
            state: state.to_owned(),
            steps_done: done,
            steps_total: Some(6),
            ..RunRow::default()
        };
        for (state, done, want) in [
            ("running", 2, None),
            ("running", 3, Some((Some(600), Some(6.0)))),
            ("paused (provider)", 5, Some((Some(600), Some(3.0)))),
            ("running", 6, None),
            ("cancelled", 3, None),
        ] {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let steps: Vec<StepRow> = (1..=done).map(|n| step(n, Some(n as f64))).collect();
            let seen = forecast(&row(state, done), &steps);
            assert_eq!(
                seen.map(|f| (f.tokens, f.left_s)),
                want,
                "{state}, {done} done"
            );
        }
    }

    #[test]
    fn what_nobody_measured_is_not_foretold() {
        let run = RunRow {
            state: "running".to_owned(),
            steps_done: 3,
            steps_total: Some(9),
            ..RunRow::default()
        };
        let mut steps: Vec<StepRow> = (1..=3).map(|n| step(n, Some(1.0))).collect();
        steps[1].took_s = None;
        let seen = forecast(&run, &steps).unwrap();
        assert_eq!((seen.left_s, seen.cost_usd), (None, None));
    }
}
