//! After the last epoch: final selection, the tests, the summary (training spec 1.12, 8.2).

use std::sync::Arc;

use futures_util::future::try_join;
use serde_json::{Map, Value, json};
use skillopt_core::buckets;
use skillopt_core::gate::Origin;
use skillopt_core::score::Score;
use skillopt_core::skill::Folder;

use super::judge::no_baseline;
use super::lift::{Lift, lift};
use super::state::State;
use super::tokens::Tokens;
use super::{Ending, Run, StepAt};
use crate::events::Event;
use crate::halt::Halt;
use crate::jobs::{Jobs, RolloutAsk, Stage, Urgency};

/// The only kind of skipped step that the summary counts, like the reference: one that nobody
/// proposed anything for. A rewrite that failed counts nowhere.
const SKIP_COUNTED: &str = "skip_no_patches";

/// Folder of the initial skill's test.
pub(super) const BASELINE_TEST: &str = "test_eval_baseline";

/// The tests of a run.
struct Tests {
    baseline: Arc<Stage>,
    best: Arc<Stage>,
    last: Arc<Stage>,
}

impl<J: Jobs> Run<'_, J> {
    /// Rolls out a skill on the test split. In the background nothing of it is shown yet: the split
    /// stays sealed until the end.
    pub(super) async fn test(
        &self,
        skill: &Arc<Folder>,
        folder: &str,
        urgency: Urgency,
        tokens: &Tokens,
    ) -> Result<Arc<Stage>, Halt> {
        let items = self.test_items();
        let ask = RolloutAsk {
            stage: folder,
            skill,
            items: &items,
            repeats: &[],
            keep_records: false,
            urgency,
        };
        let stage = self.jobs.rollouts(ask).await?;
        tokens.add("rollout", stage.usage);
        if urgency == Urgency::Next {
            self.write_test_summary(folder, &stage).await?;
        }
        Ok(Arc::new(stage))
    }

    async fn write_test_summary(&self, folder: &str, stage: &Stage) -> Result<(), Halt> {
        let rows: Vec<Map<String, Value>> = stage
            .rolled
            .iter()
            .map(|r| {
                let mut row = Map::new();
                row.insert("hard".into(), r.hard.into());
                row.insert("soft".into(), r.soft.into());
                if !r.task_type.is_empty() {
                    row.insert("task_type".into(), r.task_type.clone().into());
                }
                row
            })
            .collect();
        let types: Vec<&str> = self.plan.task_types.iter().map(String::as_str).collect();
        let table = buckets::summary(&buckets::by_task_type(&rows, &types));
        self.jobs
            .annotate(folder, "summary.json", &table.into())
            .await
    }

    /// Ends the run; `baseline_test` is absent when the tests are off.
    pub(super) async fn finish(
        &self,
        state: &mut State,
        last: StepAt,
        baseline_test: Option<Arc<Stage>>,
    ) -> Result<Ending, Halt> {
        self.folder.best_skill(&state.best())?;
        self.write_state(state, last)?;
        let tokens = Tokens::default();
        let mut summary = Map::new();
        let mut lifted = None;
        match baseline_test {
            None => {
                for name in ["final_selection_hard", "final_selection_soft"] {
                    summary.insert(name.into(), Value::Null);
                }
            }
            Some(baseline) => {
                self.jobs.reveal(BASELINE_TEST).await?;
                self.write_test_summary(BASELINE_TEST, &baseline).await?;
                let tests = self
                    .select_and_test(state, last, baseline, &tokens, &mut summary)
                    .await?;
                lifted = lift(&tests.baseline.rolled, &tests.best.rolled);
                self.record_tests(&tests, &mut summary).await?;
            }
        }
        state.tokens.join(&tokens);
        self.write_summary(state, summary, lifted).await
    }

    /// Validates the last skill, promotes it if it is strictly better than the best, and tests
    /// the best and the last one. The last one is tested whatever its validation says, so both
    /// go on at the same time.
    async fn select_and_test(
        &self,
        state: &mut State,
        last: StepAt,
        baseline: Arc<Stage>,
        tokens: &Tokens,
        summary: &mut Map<String, Value>,
    ) -> Result<Tests, Halt> {
        let current = Arc::clone(&state.current);
        if state.best() == current {
            let standing = state.standing.as_ref().ok_or_else(no_baseline)?;
            summary.insert("final_selection_hard".into(), standing.best_score.into());
            summary.insert("final_selection_soft".into(), Value::Null);
            self.log
                .commit(Event::selected(standing.best_score, None, false))
                .await?;
            let best = self
                .test(&current, "test_eval", Urgency::Next, tokens)
                .await?;
            self.write_test_summary("test_eval_final", &best).await?;
            return Ok(Tests {
                baseline,
                last: Arc::clone(&best),
                best,
            });
        }
        let (score, tested) = try_join(
            self.measure(&state.measured, &current, "final_selection_eval", tokens),
            self.test(&current, "test_eval_final", Urgency::Next, tokens),
        )
        .await?;
        let promoted = self.promote(state, last, score)?;
        summary.insert("final_selection_hard".into(), score.hard.into());
        summary.insert("final_selection_soft".into(), score.soft.into());
        self.log
            .commit(Event::selected(score.hard, Some(score.soft), promoted))
            .await?;
        // After a promotion the best is the last one; its answers are there already.
        let best = self
            .test(&state.best(), "test_eval", Urgency::Next, tokens)
            .await?;
        Ok(Tests {
            baseline,
            best,
            last: tested,
        })
    }

    fn promote(&self, state: &mut State, last: StepAt, score: Score) -> Result<bool, Halt> {
        let current = Arc::clone(&state.current);
        let gate_score = self.plan.scoring.gate_score(score, &current.document);
        let standing = state.standing.as_mut().ok_or_else(no_baseline)?;
        let promoted = gate_score.is_finite() && gate_score > standing.best_score;
        if promoted {
            standing.best = current;
            standing.best_score = gate_score;
            standing.best_step = Origin::Step(last.step);
            state.best_origin.clone_from(&state.current_origin);
            self.folder.best_skill(&state.best())?;
            self.write_state(state, last)?;
        }
        Ok(promoted)
    }

    async fn record_tests(
        &self,
        tests: &Tests,
        summary: &mut Map<String, Value>,
    ) -> Result<(), Halt> {
        let n = tests.baseline.rolled.len();
        let (baseline, best, last) = (
            tests.baseline.score(),
            tests.best.score(),
            tests.last.score(),
        );
        for (name, (hard, soft)) in [
            ("baseline_test", baseline),
            ("test", best),
            ("final_test", last),
        ] {
            summary.insert(format!("{name}_hard"), hard.into());
            summary.insert(format!("{name}_soft"), soft.into());
            self.log.commit(Event::tested(name, hard, soft, n)).await?;
        }
        summary.insert("test_delta_hard".into(), (best.0 - baseline.0).into());
        summary.insert("final_test_delta_hard".into(), (last.0 - baseline.0).into());
        Ok(())
    }

    async fn write_summary(
        &self,
        state: &State,
        mut tests: Map<String, Value>,
        lift: Option<Lift>,
    ) -> Result<Ending, Halt> {
        let standing = state.standing.as_ref().ok_or_else(no_baseline)?;
        let action = |record: &Map<String, Value>| {
            record
                .get("action")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let count =
            |f: &dyn Fn(&str) -> bool| state.history.iter().filter(|r| f(&action(r))).count();
        let mut summary = Map::new();
        summary.insert("version".into(), "skillopt-0.1.0".into());
        summary.insert("config".into(), self.config.clone().into());
        summary.insert(
            "baseline_selection_hard".into(),
            json!(state.baseline.map(|s| s.hard)),
        );
        summary.insert("best_selection_hard".into(), standing.best_score.into());
        for name in ["final_selection_hard", "final_selection_soft"] {
            summary.insert(name.into(), tests.shift_remove(name).unwrap_or(Value::Null));
        }
        summary.insert("best_step".into(), json!(standing.best_step));
        summary.insert("current_origin".into(), state.current_origin.clone().into());
        summary.insert("best_origin".into(), state.best_origin.clone().into());
        summary.insert("total_steps".into(), state.history.len().into());
        summary.insert(
            "total_accepts".into(),
            count(&|a| a.contains("accept")).into(),
        );
        summary.insert("total_rejects".into(), count(&|a| a == "reject").into());
        summary.insert("total_skips".into(), count(&|a| a == SKIP_COUNTED).into());
        summary.insert("epoch_stats".into(), self.epoch_stats(state).into());
        for name in [
            "baseline_test_hard",
            "baseline_test_soft",
            "test_hard",
            "test_soft",
            "final_test_hard",
            "final_test_soft",
            "test_delta_hard",
            "final_test_delta_hard",
        ] {
            summary.insert(name.into(), tests.shift_remove(name).unwrap_or(Value::Null));
        }
        summary.insert("test_lift".into(), json!(lift));
        summary.insert("token_summary".into(), state.tokens.summary());
        self.folder.json("summary.json", &summary)?;
        let ending = Ending::of(self.plan, state, standing, lift);
        let best = state.best().hash();
        self.log
            .commit(Event::ended(&ending, best, &summary))
            .await?;
        self.lap("finish");
        Ok(ending)
    }

    fn epoch_stats(&self, state: &State) -> Vec<Value> {
        let number = |record: &Map<String, Value>, name: &str| {
            record.get(name).cloned().unwrap_or(Value::Null)
        };
        (1..=self.plan.epochs)
            .map(|epoch| {
                let records: Vec<&Map<String, Value>> = state
                    .history
                    .iter()
                    .filter(|r| r.get("epoch").and_then(Value::as_u64) == Some(epoch))
                    .collect();
                let count = |f: &dyn Fn(&str) -> bool| {
                    let action = |r: &Map<String, Value>| r.get("action").and_then(Value::as_str).is_some_and(f);
                    records.iter().filter(|r| action(r)).count()
                };
                let last = records.last();
                json!({
                    "epoch": epoch,
                    "steps": records.iter().map(|r| number(r, "step")).collect::<Vec<_>>(),
                    "accepts": count(&|a| a.contains("accept")),
                    "rejects": count(&|a| a == "reject"),
                    "skips": count(&|a| a == SKIP_COUNTED),
                    "best_score_at_epoch_end": last.map_or(Value::Null, |r| number(r, "best_score")),
                    "current_score_at_epoch_end": last.map_or(Value::Null, |r| number(r, "current_score")),
                })
            })
            .collect()
    }
}
