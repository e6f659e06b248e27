//! What the trainings brought, as a table and as JSON.

use serde_json::{Value, json};

use super::pins::Model;

/// Figures of one training. Scores are shares of the test items answered exactly, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    seed: u64,
    /// Scores on the val split, which the gate sees: before and after.
    val: (f64, f64),
    baseline: f64,
    best: f64,
    /// Lower and upper end of the 95 % interval of the lift.
    interval: (f64, f64),
    items: u64,
    accepted: u64,
    rejected: u64,
    skipped: u64,
    calls: u64,
    minutes: f64,
    skill: String,
}

impl Outcome {
    /// Reads a run's `summary.json`; `None` if it holds no test figures.
    pub(super) fn read(seed: u64, summary: &Value, minutes: f64, skill: String) -> Option<Self> {
        let number = |path: &str| summary.pointer(path).and_then(Value::as_f64);
        let count = |path: &str| summary.pointer(path).and_then(Value::as_u64);
        let (accepted, rejected) = (count("/total_accepts")?, count("/total_rejects")?);
        Some(Self {
            seed,
            val: (
                number("/baseline_selection_hard")?,
                number("/best_selection_hard")?,
            ),
            baseline: number("/baseline_test_hard")?,
            best: number("/test_hard")?,
            interval: (number("/test_lift/low")?, number("/test_lift/high")?),
            items: count("/test_lift/n")?,
            accepted,
            rejected,
            skipped: count("/total_steps")?.saturating_sub(accepted + rejected),
            calls: count("/token_summary/_total/calls")?,
            minutes,
            skill,
        })
    }

    fn lift(&self) -> f64 {
        self.best - self.baseline
    }

    fn to_json(&self) -> Value {
        json!({
            "seed": self.seed,
            "val_baseline": self.val.0,
            "val_best": self.val.1,
            "baseline": self.baseline,
            "best": self.best,
            "lift": self.lift(),
            "lift_95": [self.interval.0, self.interval.1],
            "items": self.items,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "skipped": self.skipped,
            "calls": self.calls,
            "minutes": self.minutes,
            "skill": self.skill,
        })
    }

    fn line(&self) -> String {
        let points = |share: f64| format!("{:+.1}", 100.0 * share);
        let (low, high) = self.interval;
        let interval = format!("{} … {}", points(low), points(high));
        let steps = format!("{}/{}/{}", self.accepted, self.rejected, self.skipped);
        let val = format!("{:.1} → {:.1}", 100.0 * self.val.0, 100.0 * self.val.1);
        format!(
            "{:>4}  {val:>12}  {:>7.1}%  {:>6.1}%  {:>6}  {interval:>15}  {steps:>11}  {:>5}  {:>7.1}",
            self.seed,
            100.0 * self.baseline,
            100.0 * self.best,
            points(self.lift()),
            self.calls,
            self.minutes,
        )
    }
}

/// Figures of all trainings.
#[derive(Clone, Debug)]
pub(super) struct Report {
    model: Model,
    /// What was overridden in the configuration.
    sets: Vec<String>,
    outcomes: Vec<Outcome>,
}

impl Report {
    /// An empty report.
    pub(super) const fn new(model: Model, sets: Vec<String>) -> Self {
        Self {
            model,
            sets,
            outcomes: Vec::new(),
        }
    }

    /// Adds a training.
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Returns the line of the latest training.
    pub(super) fn last_line(&self) -> String {
        self.outcomes.last().map(Outcome::line).unwrap_or_default()
    }

    /// Returns the report for a program.
    pub(super) fn to_json(&self) -> Value {
        let seeds: Vec<Value> = self.outcomes.iter().map(Outcome::to_json).collect();
        json!({"model": self.model.title(), "set": self.sets, "mean_lift": self.mean_lift(), "seeds": seeds})
    }

    /// Returns the report for a person.
    pub(super) fn table(&self) -> String {
        let items = self.outcomes.first().map_or(0, |outcome| outcome.items);
        let mut lines = vec![
            format!(
                "{}, exact answers on {items} sealed test items",
                self.model.title()
            ),
            "seed         val %  baseline    best    lift    95 % interval  acc/rej/skip  calls  minutes"
                .to_owned(),
        ];
        lines.extend(self.outcomes.iter().map(Outcome::line));
        if !self.sets.is_empty() {
            lines.push(format!("with {}", self.sets.join(", ")));
        }
        lines.push(format!("mean lift {:+.1} points", 100.0 * self.mean_lift()));
        lines.join("\n")
    }

    fn mean_lift(&self) -> f64 {
        let sum: f64 = self.outcomes.iter().map(Outcome::lift).sum();
        #[expect(clippy::cast_precision_loss, reason = "trainings are few")]
        let n = self.outcomes.len().max(1) as f64;
        sum / n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Value {
        json!({
            "baseline_selection_hard": 0.0, "best_selection_hard": 0.75,
            "baseline_test_hard": 0.1, "test_hard": 0.6, "total_steps": 4, "total_accepts": 2,
            "total_rejects": 1, "test_lift": {"mean": 0.5, "low": 0.34, "high": 0.66, "n": 40},
            "token_summary": {"_total": {"calls": 210}},
        })
    }

    #[test]
    fn a_line_shows_points_and_steps() {
        let outcome = Outcome::read(7, &summary(), 12.0, "skill".to_owned()).unwrap();
        let mut report = Report::new(Model::Small, vec!["train.num_epochs=1".to_owned()]);
        report.add(outcome);
        let line = report.last_line();
        let words: Vec<&str> = line.split_whitespace().collect();
        let want = [
            "7", "0.0", "→", "75.0", "10.0%", "60.0%", "+50.0", "+34.0", "…", "+66.0", "2/1/1",
            "210", "12.0",
        ];
        assert_eq!(words, want);
        assert!(report.table().contains("with train.num_epochs=1\n"));
        assert!(report.table().ends_with("mean lift +50.0 points"));
        assert_eq!(report.to_json()["seeds"][0]["rejected"], 1);
    }

    #[test]
    fn a_run_without_test_figures_is_no_outcome() {
        for field in [
            "best_selection_hard",
            "baseline_test_hard",
            "test_lift",
            "token_summary",
        ] {
            let mut summary = summary();
            summary[field] = Value::Null;
            assert_eq!(
                Outcome::read(1, &summary, 1.0, String::new()),
                None,
                "{field}"
            );
        }
    }
}
