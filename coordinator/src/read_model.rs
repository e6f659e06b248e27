//! What people look at: rows that are a projection of a run's log of commit events.
//!
//! Web, terminal and JSON all show these rows, so that they cannot disagree (dashboard spec,
//! chapters 3 and 4). Nothing in here reads a file or a clock. Start at [`RunView`].

mod cell;
mod cluster;
mod forecast;
mod numbers;
mod overview;
mod rows;
mod untrusted;
mod verdict;
mod words;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::events::Event;

pub use cell::{CellRow, TrajectoryRow};
pub use cluster::{LedgerRow, Overview, ProviderRow, RunLine, SweepLine, WaitReason, WorkerRow};
pub use numbers::{about, amount, count, money, number, plural, span, time_of_day};
pub use overview::{Inputs, overview};
pub use rows::{
    EvaluationRow, ForecastRow, LiftRow, NoticeRow, RunRow, StepRow, TestRow, TokenRow,
};
pub use untrusted::harmless;
pub use verdict::Verdict;
pub use words::{Headline, evaluation_headline, headline, is_over, points, share};

/// All rows of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunView {
    /// The run.
    pub run: RunRow,
    /// Its steps and slow updates, in order.
    pub steps: Vec<StepRow>,
    /// What it measured, if it is an evaluation.
    pub evaluation: Option<EvaluationRow>,
}

impl RunView {
    /// Starts with a run of which nothing is known.
    #[must_use]
    pub fn new(run: &str) -> Self {
        let run = RunRow {
            run: run.to_owned(),
            state: "running".to_owned(),
            cost_usd_missing_reason: Some("prices are not known".to_owned()),
            ..RunRow::default()
        };
        Self {
            run,
            ..Self::default()
        }
    }

    /// Projects a whole log.
    #[must_use]
    pub fn of(run: &str, events: &[Event]) -> Self {
        let mut view = Self::new(run);
        for event in events {
            view.apply(event);
        }
        view
    }

    /// Takes in the next event; returns the row it made, if any.
    pub fn apply(&mut self, event: &Event) -> Option<&StepRow> {
        let rows = self.steps.len();
        self.take(event);
        self.run.forecast = forecast::forecast(&self.run, &self.steps);
        self.steps.get(rows)
    }

    fn take(&mut self, event: &Event) {
        let facts = Facts(&event.facts);
        match event.kind.as_str() {
            "started" => self.started(facts),
            "baseline" => {
                let score = facts.number("score");
                self.run.baseline = score;
                self.run.baseline_in = None;
                self.run.kept = score;
                self.run.best = score;
                self.run.best_step = Some(0);
            }
            "step" => {
                let row = self.step(facts);
                self.count(&row);
                self.steps.push(row);
            }
            "slow_update" => {
                let row = self.slow_update(facts);
                self.steps.extend(row);
            }
            "tested" => self.tested(facts),
            "evaluated" => self.evaluated(facts),
            "ended" => self.ended(facts),
            _ => {}
        }
    }

    /// Takes in what the run has spent, as the ledger knows it.
    pub fn spends(&mut self, purse: &LedgerRow) {
        self.run.cost_usd = purse.cost_usd;
        self.run
            .cost_usd_missing_reason
            .clone_from(&purse.cost_usd_missing_reason);
        self.run.cap_usd = purse.cap_usd;
        self.run.forecast = forecast::forecast(&self.run, &self.steps);
    }

    /// Takes in how long a row's step took, from who watched it.
    pub fn took(&mut self, row: usize, seconds: f64) {
        if let Some(row) = self.steps.get_mut(row) {
            row.took_s = Some(seconds);
        }
        self.run.forecast = forecast::forecast(&self.run, &self.steps);
    }

    fn started(&mut self, facts: Facts<'_>) {
        self.run.gate = facts.truth("gate");
        self.run.train_items = facts.whole("train_items");
        self.run.val_items = facts.whole("val_items");
        self.run.test_items = facts.whole("test_items");
        self.run.epochs = facts.whole("epochs");
        self.run.steps_total = facts.whole("steps");
    }

    fn evaluated(&mut self, facts: Facts<'_>) {
        self.run.state = "evaluated".to_owned();
        self.evaluation = Some(EvaluationRow {
            run: self.run.run.clone(),
            state: self.run.state.clone(),
            split: facts.text("split").to_owned(),
            hard: facts.number("hard"),
            soft: facts.number("soft"),
            n: facts.whole("n"),
            tokens: facts.map("usage").map(Facts::token_row),
        });
    }

    /// Takes in what only the program that is at work knows: the state, if no event has ended the
    /// run, and how many rollouts of the initial skill are in.
    pub fn stands(&mut self, state: &str, baseline_in: Option<u64>) {
        if !is_over(&self.run.state) {
            state.clone_into(&mut self.run.state);
        }
        if let Some(evaluation) = &mut self.evaluation {
            evaluation.state.clone_from(&self.run.state);
        }
        if self.run.baseline.is_none() {
            self.run.baseline_in = baseline_in;
        }
        self.run.forecast = forecast::forecast(&self.run, &self.steps);
    }

    fn step(&self, facts: Facts<'_>) -> StepRow {
        let score = facts.number("candidate_gate_score");
        let change = score.zip(self.run.kept).map(|(new, old)| new - old);
        StepRow {
            step: facts.whole("step").unwrap_or(0),
            epoch: facts.whole("epoch").unwrap_or(0),
            slow: false,
            action: facts.text("action").to_owned(),
            verdict: Verdict::of(facts.text("action")),
            score,
            change,
            rollout: facts.number("rollout_hard"),
            rollout_n: facts.whole("rollout_n"),
            kept: facts.number("current_score"),
            best: facts.number("best_score"),
            patches: facts.whole("n_patches"),
            edits: facts.whole("n_edits_ranked"),
            edit_budget: facts.whole("edit_budget"),
            stale: facts.truth("score_is_stale"),
            tokens: facts.tokens(),
            ..StepRow::default()
        }
    }

    fn count(&mut self, row: &StepRow) {
        self.run.steps_done += 1;
        match row.verdict {
            Verdict::Accepted | Verdict::TakenWithoutGate => self.run.accepted += 1,
            Verdict::Refused => self.run.refused += 1,
            Verdict::Skipped | Verdict::CannotTell => self.run.skipped += 1,
        }
        self.run.kept = row.kept.or(self.run.kept);
        if row.best > self.run.best {
            self.run.best_step = Some(row.step);
        }
        self.run.best = row.best.or(self.run.best);
    }

    /// The first epoch only makes room for guidance: no row.
    fn slow_update(&mut self, facts: Facts<'_>) -> Option<StepRow> {
        let action = facts.text("action");
        if action == "inject_placeholder" {
            return None;
        }
        // A slow update is judged by the exact score alone unless the gate was asked.
        let score = facts.number("selection_hard");
        let change = score.zip(self.run.kept).map(|(new, old)| new - old);
        Some(StepRow {
            step: self.steps.last().map_or(0, |row| row.step),
            epoch: facts.whole("epoch").unwrap_or(0),
            slow: true,
            action: action.to_owned(),
            verdict: Verdict::of(action),
            score,
            change,
            kept: self.run.kept,
            best: self.run.best,
            stale: action == "force_accept",
            ..StepRow::default()
        })
    }

    fn tested(&mut self, facts: Facts<'_>) {
        let hard = facts.number("hard");
        match facts.text("which") {
            "baseline_test" => self.run.test.baseline = hard,
            "test" => self.run.test.best = hard,
            _ => self.run.test.last = hard,
        }
        self.run.test.n = facts.whole("n");
    }

    fn ended(&mut self, facts: Facts<'_>) {
        self.run.state = facts.text("state").replace('_', " ");
        self.run.baseline = facts.number("baseline_score").or(self.run.baseline);
        self.run.best = facts.number("best_score").or(self.run.best);
        self.run.best_step = facts.whole("best_step").or(self.run.best_step);
        self.run.lift = facts.map("lift").and_then(|lift| {
            Some(LiftRow {
                mean: lift.number("mean")?,
                low: lift.number("low")?,
                high: lift.number("high")?,
                n: lift.whole("n")?,
            })
        });
        let total = facts.map("token_summary").and_then(|t| t.map("_total"));
        self.run.tokens = total.map(Facts::token_row);
    }
}

/// Reads the numbers of an event; what is missing is absent, never 0.
#[derive(Clone, Copy)]
struct Facts<'a>(&'a Map<String, Value>);

impl<'a> Facts<'a> {
    fn number(self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    fn whole(self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    fn text(self, name: &str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn truth(self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn map(self, name: &str) -> Option<Self> {
        self.0.get(name).and_then(Value::as_object).map(Facts)
    }

    fn token_row(self) -> TokenRow {
        let whole = |name| self.whole(name).unwrap_or(0);
        TokenRow {
            calls: whole("calls"),
            prompt_tokens: whole("prompt_tokens"),
            completion_tokens: whole("completion_tokens"),
            cached_tokens: whole("cached_tokens"),
            cache_write_tokens: whole("cache_write_tokens"),
            reasoning_tokens: whole("reasoning_tokens"),
            truncated_calls: whole("truncated_calls"),
        }
    }

    /// Adds up the tokens of all stages.
    fn tokens(self) -> TokenRow {
        let stages = self.map("tokens").into_iter().flat_map(|t| t.0.values());
        let rows = stages
            .filter_map(Value::as_object)
            .map(|s| Facts(s).token_row());
        rows.fold(TokenRow::default(), |mut sum, row| {
            sum += row;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, facts: Value) -> Event {
        Event {
            kind: kind.to_owned(),
            facts: facts.as_object().cloned().unwrap(),
        }
    }

    #[test]
    fn a_log_becomes_rows() {
        let view = RunView::of(
            "r1",
            &[
                event(
                    "started",
                    json!({"gate": true, "steps": 2, "val_items": 10, "epochs": 1}),
                ),
                event("baseline", json!({"score": 0.4})),
                event(
                    "step",
                    json!({"step": 1, "epoch": 1, "action": "accept_new_best", "candidate_gate_score": 0.5,
                        "current_score": 0.5, "best_score": 0.5, "n_edits_ranked": 2,
                        "tokens": {"analyst": {"calls": 2, "prompt_tokens": 10, "completion_tokens": 3}}}),
                ),
                event(
                    "step",
                    json!({"step": 2, "epoch": 1, "action": "reject", "candidate_gate_score": 0.3,
                        "current_score": 0.5, "best_score": 0.5}),
                ),
                event(
                    "slow_update",
                    json!({"epoch": 1, "action": "inject_placeholder"}),
                ),
                event("tested", json!({"which": "test", "hard": 0.6, "n": 20})),
                event(
                    "ended",
                    json!({"state": "no_improvement", "best_step": 1, "lift": {"mean": 0.1, "low": -0.1, "high": 0.3, "n": 20},
                        "token_summary": {"_total": {"calls": 9, "prompt_tokens": 90, "completion_tokens": 5}}}),
                ),
            ],
        );
        assert_eq!(view.run.state, "no improvement");
        assert_eq!(
            (view.run.accepted, view.run.refused, view.run.steps_done),
            (1, 1, 2)
        );
        assert_eq!(view.run.best_step, Some(1));
        assert_eq!(view.run.tokens.unwrap().calls, 9);
        assert_eq!(view.steps.len(), 2);
        assert_eq!(view.steps[0].verdict, Verdict::Accepted);
        assert_eq!(view.steps[0].tokens.prompt_tokens, 10);
        assert!((view.steps[1].change.unwrap() + 0.2).abs() < 1e-12);
    }

    #[test]
    fn an_evaluation_is_a_row_of_its_own() {
        let mut view = RunView::new("e");
        assert_eq!(view.evaluation, None);
        let usage = skillopt_core::job::Usage {
            calls: 3,
            ..Default::default()
        };
        view.apply(&Event::evaluated("test", (0.5, 0.75), 3, usage));
        view.stands("running", None);
        let row = view.evaluation.unwrap();
        assert_eq!((row.hard, row.n), (Some(0.5), Some(3)));
        assert_eq!(row.state, "evaluated");
        assert_eq!(row.tokens.unwrap().calls, 3);
        assert_eq!(view.run.val_items, None);
    }

    #[test]
    fn a_run_stands_where_its_program_left_it() {
        for (events, state, want) in [
            (vec![], "stopped", ("stopped", Some(7))),
            (
                vec![event("baseline", json!({"score": 0.5}))],
                "paused (provider)",
                ("paused (provider)", None),
            ),
            (
                vec![event("ended", json!({"state": "no_improvement"}))],
                "running",
                ("no improvement", Some(7)),
            ),
        ] {
            let mut view = RunView::of("r", &events);
            view.stands(state, Some(7));
            assert_eq!((view.run.state.as_str(), view.run.baseline_in), want);
        }
    }

    #[test]
    fn what_is_missing_is_absent() {
        let view = RunView::of(
            "r",
            &[event(
                "step",
                json!({"step": 1, "action": "skip_no_patches"}),
            )],
        );
        assert_eq!(view.steps[0].score, None);
        assert_eq!(view.steps[0].verdict, Verdict::Skipped);
        assert_eq!(view.run.baseline, None);
        assert_eq!(view.run.state, "running");
    }
}
