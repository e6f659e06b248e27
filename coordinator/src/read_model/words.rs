//! Words, marks and headlines for outcomes (dashboard spec, chapters 4 and 8).

use serde::{Deserialize, Serialize};

use super::rows::{EvaluationRow, RunRow, StepRow};
use super::verdict::Verdict;

/// The states that are ends.
const OVER: &[&str] = &[
    "improved",
    "no improvement",
    "cannot judge",
    "worse at the end",
    "cancelled",
    "failed",
    "evaluated",
];

impl StepRow {
    /// Says in a sentence why the step ended as it did.
    #[must_use]
    pub fn reason(&self) -> String {
        let compared = |how: &str| match (self.score, self.change) {
            (Some(score), Some(change)) => {
                let before = score - change;
                let new = share(Some(score));
                format!(
                    "{new} on the val split, {how} {} before",
                    share(Some(before))
                )
            }
            _ => "not measured".to_owned(),
        };
        match (self.action.as_str(), self.verdict) {
            ("skip_no_patches", _) => "analysts returned no edits".to_owned(),
            ("skip_no_rewrite", _) => "no usable new text came back".to_owned(),
            ("no_content", _) => "no guidance came back".to_owned(),
            (_, Verdict::CannotTell) => match self.score.zip(self.change) {
                Some(_) => compared("too near to"),
                None => "too few rollouts to decide".to_owned(),
            },
            ("accept_new_best", _) => format!("{}; the best so far", compared("above")),
            (_, Verdict::Accepted) => compared("above"),
            (_, Verdict::Refused) => compared(match self.change {
                Some(0.0) => "not above",
                _ => "below",
            }),
            (_, Verdict::TakenWithoutGate) if self.score.is_none() => {
                "text changed, not measured again".to_owned()
            }
            (_, Verdict::TakenWithoutGate) => compared("against"),
            (action, _) => action.to_owned(),
        }
    }
}

/// Writes a score, `—` if there is none.
#[must_use]
pub fn share(score: Option<f64>) -> String {
    score.map_or_else(|| "—".to_owned(), |s| format!("{:.1}%", s * 100.0))
}

/// Writes a difference in points, with its sign: `+9.4`, `−2.1`, `±0.0`.
#[must_use]
pub fn points(difference: f64) -> String {
    let size = format!("{:.1}", (difference * 100.0).abs());
    match size.as_str() {
        "0.0" => "±0.0".to_owned(),
        _ if difference > 0.0 => format!("+{size}"),
        _ => format!("−{size}"),
    }
}

/// Writes the size of a difference in points, without sign.
fn size(difference: f64) -> String {
    format!("{:.1}", (difference * 100.0).abs())
}

/// The two lines that say what a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headline {
    /// The answer.
    pub first: String,
    /// How sure it is.
    pub second: String,
}

/// Says in two sentences what a run came to, or where it is.
#[must_use]
pub fn headline(run: &RunRow) -> Headline {
    // A pause does not change what is known.
    let (first, second) = match run.state.as_str() {
        _ if run.baseline.is_none() => ("Measuring the starting skill.".to_owned(), baseline(run)),
        "no improvement" => nothing_found(run),
        _ if !run.gate => gate_off(run),
        state if is_over(state) => finished(run),
        _ => (
            lift_so_far(run),
            format!(
                "{} of {} steps; single measurements, the test split stays sealed.",
                run.steps_done,
                whole(run.steps_total)
            ),
        ),
    };
    Headline { first, second }
}

/// Says in two sentences what an evaluation came to, or where it is.
#[must_use]
pub fn evaluation_headline(row: &EvaluationRow) -> Headline {
    let of = match row.split.as_str() {
        "all" => "all splits".to_owned(),
        split => format!("the {split} split"),
    };
    if row.hard.is_none() {
        return Headline {
            first: format!("Measuring the skill on {of}."),
            second: "There is no score yet.".to_owned(),
        };
    }
    Headline {
        first: format!("{} exact on {of}.", share(row.hard)),
        second: format!("{} partial; {} items.", share(row.soft), whole(row.n)),
    }
}

/// Returns whether a run's state is an end: nothing more comes.
#[must_use]
pub fn is_over(state: &str) -> bool {
    OVER.contains(&state)
}

fn baseline(run: &RunRow) -> String {
    format!(
        "{} of {} validation rollouts are in.",
        whole(run.baseline_in),
        whole(run.val_items)
    )
}

/// Writes a number, `—` if there is none.
fn whole(n: Option<u64>) -> String {
    n.map_or_else(|| "—".to_owned(), |n| n.to_string())
}

fn gain(run: &RunRow) -> f64 {
    match (run.best, run.baseline) {
        (Some(best), Some(baseline)) => best - baseline,
        _ => 0.0,
    }
}

fn lift_so_far(run: &RunRow) -> String {
    if gain(run) > 0.0 {
        format!("{} points higher, not certified.", size(gain(run)))
    } else {
        "No gain yet.".to_owned()
    }
}

fn nothing_found(run: &RunRow) -> (String, String) {
    let proposals = run.accepted + run.refused;
    let second = format!(
        "{proposals} {}, {} skipped; the initial skill stays the best.",
        if proposals == 1 {
            "proposal"
        } else {
            "proposals"
        },
        steps(run.skipped)
    );
    ("No improvement found.".to_owned(), second)
}

fn finished(run: &RunRow) -> (String, String) {
    let Some(lift) = run.lift else {
        return (
            lift_so_far(run),
            format!(
                "Single measurements on {} validation items, uncorrected for the choice among {}.",
                whole(run.val_items),
                steps(run.steps_done)
            ),
        );
    };
    let word = if lift.mean < 0.0 { "worse" } else { "better" };
    (
        format!("{} points {word} on the test split.", size(lift.mean)),
        format!(
            "Between {} and {} (95%, {} items); validation said {}.",
            points(lift.low),
            points(lift.high),
            lift.n,
            points(gain(run))
        ),
    )
}

fn gate_off(run: &RunRow) -> (String, String) {
    let change = match (run.kept, run.baseline) {
        (Some(kept), Some(baseline)) => kept - baseline,
        _ => 0.0,
    };
    let word = if change < 0.0 { "lower" } else { "higher" };
    let second = run.lift.map_or_else(
        || "Single measurements; uncorrected.".to_owned(),
        |lift| {
            format!(
                "The best skill is {} points on the test split, between {} and {} (uncorrected).",
                points(lift.mean),
                points(lift.low),
                points(lift.high)
            )
        },
    );
    (
        format!("Last skill {} points {word}, gate off.", size(change)),
        second,
    )
}

fn steps(n: u64) -> String {
    format!("{n} {}", if n == 1 { "step" } else { "steps" })
}

#[cfg(test)]
mod tests {
    use super::super::LiftRow;
    use super::*;

    fn run(state: &str, best: f64, lift: Option<f64>) -> RunRow {
        RunRow {
            state: state.to_owned(),
            gate: true,
            baseline: Some(0.5),
            kept: Some(best),
            best: Some(best),
            val_items: Some(100),
            steps_total: Some(4),
            steps_done: 4,
            accepted: 1,
            refused: 2,
            skipped: 1,
            lift: lift.map(|mean| LiftRow {
                mean,
                low: mean - 0.05,
                high: mean + 0.05,
                n: 200,
            }),
            ..RunRow::default()
        }
    }

    #[test]
    fn headlines() {
        let off = RunRow {
            gate: false,
            ..run("worse at the end", 0.45, None)
        };
        for (run, first, second) in [
            (
                run("improved", 0.594, Some(0.094)),
                "9.4 points better on the test split.",
                "Between +4.4 and +14.4 (95%, 200 items); validation said +9.4.",
            ),
            (
                run("improved", 0.594, Some(-0.02)),
                "2.0 points worse on the test split.",
                "Between −7.0 and +3.0 (95%, 200 items); validation said +9.4.",
            ),
            (
                run("improved", 0.594, None),
                "9.4 points higher, not certified.",
                "Single measurements on 100 validation items, uncorrected for the choice among 4 steps.",
            ),
            (
                run("no improvement", 0.5, Some(0.0)),
                "No improvement found.",
                "3 proposals, 1 step skipped; the initial skill stays the best.",
            ),
            (
                off,
                "Last skill 5.0 points lower, gate off.",
                "Single measurements; uncorrected.",
            ),
            (
                RunRow::default(),
                "Measuring the starting skill.",
                "— of — validation rollouts are in.",
            ),
            (
                RunRow {
                    baseline_in: Some(0),
                    val_items: Some(12),
                    ..RunRow::default()
                },
                "Measuring the starting skill.",
                "0 of 12 validation rollouts are in.",
            ),
            (
                run("paused (by hand)", 0.594, None),
                "9.4 points higher, not certified.",
                "4 of 4 steps; single measurements, the test split stays sealed.",
            ),
        ] {
            let seen = headline(&run);
            assert_eq!((seen.first.as_str(), seen.second.as_str()), (first, second));
        }
    }

    #[test]
    fn headlines_of_evaluations() {
        let row = |split: &str, hard| EvaluationRow {
            split: split.to_owned(),
            hard,
            soft: hard,
            n: Some(12),
            ..EvaluationRow::default()
        };
        for (row, first, second) in [
            (
                row("test", Some(0.5)),
                "50.0% exact on the test split.",
                "50.0% partial; 12 items.",
            ),
            (
                row("all", None),
                "Measuring the skill on all splits.",
                "There is no score yet.",
            ),
        ] {
            let seen = evaluation_headline(&row);
            assert_eq!((seen.first.as_str(), seen.second.as_str()), (first, second));
        }
    }

    #[test]
    fn differences_have_a_true_minus() {
        for (difference, want) in [(0.094, "+9.4"), (-0.021, "−2.1"), (0.000_1, "±0.0")] {
            assert_eq!(points(difference), want);
        }
    }
}
