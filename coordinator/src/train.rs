//! The training loop: one plain async function, deterministic given the answers of its jobs.
//!
//! It reads no clock, draws nothing at random and never looks at the run folder, which it only
//! writes. Running it again after any crash gives the same run (training spec, chapters 1 and 8.4).
//! Start at [`train`].

mod aggregate;
mod commits;
mod compare;
mod epoch_end;
mod finish;
mod judge;
mod lift;
mod optimizer;
mod plan;
mod propose;
mod record;
mod reflect;
mod select;
mod state;
mod tokens;
mod update;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::{OptionFuture, try_join};
use serde::Serialize;
use serde_json::{Map, Value, json};
use skillopt_core::gate::Standing;
use skillopt_core::score::Score;
use skillopt_core::skill::{Folder, appendix};

use self::judge::no_baseline;
use self::optimizer::Optimizer;
use self::state::State;
use self::tokens::Tokens;
use crate::events::Event;
use crate::folder::RunFolder;
use crate::halt::Halt;
use crate::jobs::{Jobs, Urgency};
use crate::log::Log;
use crate::sample::Sample;
use crate::timings::Timings;

pub use lift::{Lift, Z_95, paired};
pub use plan::{Plan, PlanError, Rewrite, SkillAware, SlowUpdate};

/// One run on its way.
pub(crate) struct Run<'a, J> {
    plan: &'a Plan,
    /// The resolved configuration as it is written down, without secrets.
    config: &'a Map<String, Value>,
    jobs: &'a J,
    optimizer: Optimizer<'a, J>,
    folder: &'a RunFolder,
    log: &'a Log,
    timings: &'a Timings,
}

/// What a run ended with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ending {
    /// The word for it (dashboard spec, chapter 4).
    pub state: EndState,
    /// Gate score of the initial skill.
    pub baseline_score: f64,
    /// Gate score of the best skill.
    pub best_score: f64,
    /// Step that made it; 0 is the initial skill.
    pub best_step: u64,
    /// Lift on the test split, if it was scored.
    pub lift: Option<Lift>,
}

/// How a finished run is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// The best skill scores higher than the initial one.
    Improved,
    /// No skill scored higher than the initial one.
    NoImprovement,
    /// With the gate off, the last skill scores lower than the initial one.
    WorseAtTheEnd,
}

impl EndState {
    /// Returns the words that people see.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::NoImprovement => "no improvement",
            Self::WorseAtTheEnd => "worse at the end",
        }
    }
}

impl Ending {
    fn of(
        plan: &Plan,
        state: &State,
        standing: &Standing<Arc<Folder>>,
        lift: Option<Lift>,
    ) -> Self {
        let baseline = state.baseline.unwrap_or_default();
        let baseline_score = plan.scoring.gate_score(baseline, &plan.initial.document);
        let is_worse = !plan.gate && standing.current_score < baseline_score;
        let state = if is_worse {
            EndState::WorseAtTheEnd
        } else if standing.best_score > baseline_score {
            EndState::Improved
        } else {
            EndState::NoImprovement
        };
        let best_step = json!(standing.best_step).as_u64().unwrap_or(0);
        Self {
            state,
            baseline_score,
            best_score: standing.best_score,
            best_step,
            lift,
        }
    }
}

/// Where in a run a step is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepAt {
    /// From 1 over the whole run.
    step: u64,
    /// From 1.
    epoch: u64,
    /// From 0.
    step_in_epoch: u64,
}

impl StepAt {
    fn folder(self) -> String {
        format!("steps/step_{:04}", self.step)
    }

    fn snapshot(self) -> String {
        format!("skills/skill_v{:04}.md", self.step)
    }
}

/// Trains a skill to the end.
///
/// # Errors
/// What pauses or ends the run before; every answer that came in is kept by `jobs`.
pub async fn train<J: Jobs>(
    plan: &Plan,
    config: &Map<String, Value>,
    jobs: &J,
    folder: &RunFolder,
    log: &Log,
    timings: &Timings,
) -> Result<Ending, Halt> {
    let optimizer = Optimizer {
        jobs,
        reask: plan.reask_unusable,
        answers: plan.answers,
    };
    let run = Run {
        plan,
        config,
        jobs,
        optimizer,
        folder,
        log,
        timings,
    };
    if let Some(split) = &plan.generated {
        split.write()?;
    }
    run.start().await?;
    let tokens = Tokens::default();
    // The initial skill's test depends on nothing, so it fills slots that training leaves idle.
    // Its result is looked at by nobody before the end.
    let baseline_test: OptionFuture<_> = plan
        .eval_test
        .then(|| {
            run.test(
                &plan.initial,
                finish::BASELINE_TEST,
                Urgency::Background,
                &tokens,
            )
        })
        .into();
    let baseline_test = async { baseline_test.await.transpose() };
    let (baseline_test, (mut state, last)) = try_join(baseline_test, run.epochs()).await?;
    state.tokens.join(&tokens);
    run.finish(&mut state, last, baseline_test).await
}

impl<'a, J: Jobs> Run<'a, J> {
    async fn start(&self) -> Result<(), Halt> {
        self.folder.json("config.json", self.config)?;
        self.folder
            .text("skills/skill_v0000.md", &self.plan.initial.document)?;
        self.log.commit(Event::started(self.plan)).await
    }

    async fn epochs(&self) -> Result<(State, StepAt), Halt> {
        let mut state = State::new(self.plan);
        if self.plan.skill_aware.is_some() {
            let document = appendix::inject_empty(&state.current.document);
            state.current = Arc::new(state.current.with_document(document));
        }
        let mut last = StepAt {
            step: 0,
            epoch: 1,
            step_in_epoch: 0,
        };
        for epoch in 1..=self.plan.epochs {
            state.buffer.clear();
            let batches = self
                .plan
                .epoch
                .batches(i64::try_from(epoch).unwrap_or(i64::MAX));
            for (step_in_epoch, batches) in
                (0..).zip(batches.chunks(self.plan.epoch.accumulation.max(1)))
            {
                last = StepAt {
                    step: last.step + 1,
                    epoch,
                    step_in_epoch,
                };
                self.step(&mut state, last, batches).await?;
            }
            self.end_epoch(&mut state, last).await?;
        }
        Ok((state, last))
    }

    async fn step(
        &self,
        state: &mut State,
        at: StepAt,
        batches: &[skillopt_benchmarks::splits::Batch],
    ) -> Result<(), Halt> {
        let proposal = if state.standing.is_some() {
            self.propose(state, at, batches).await?
        } else {
            // The first proposal does not need the baseline, only its gate does.
            let tokens = Tokens::default();
            let measured = std::collections::BTreeMap::new();
            let (proposal, score) = try_join(
                self.propose(state, at, batches),
                self.measure(
                    &measured,
                    &self.plan.initial,
                    "selection_eval_baseline",
                    &tokens,
                ),
            )
            .await?;
            state.tokens.join(&tokens);
            self.baseline(state, score).await?;
            proposal
        };
        self.judge(state, at, proposal).await
    }

    async fn baseline(&self, state: &mut State, score: Score) -> Result<(), Halt> {
        let gate_score = self
            .plan
            .scoring
            .gate_score(score, &self.plan.initial.document);
        state.measured.insert(self.plan.initial.hash_short(), score);
        state.baseline = Some(score);
        state.standing = Some(Standing::at_start(
            Arc::clone(&self.plan.initial),
            gate_score,
        ));
        self.write_state(
            state,
            StepAt {
                step: 0,
                epoch: 1,
                step_in_epoch: 0,
            },
        )?;
        self.lap("baseline");
        self.log
            .commit(Event::baseline(score, gate_score, self.val_items().len()))
            .await
    }

    /// Writes `runtime_state.json`: where the run is, for people and scripts (8.2).
    fn write_state(&self, state: &State, at: StepAt) -> Result<(), Halt> {
        let standing = state.standing.as_ref().ok_or_else(no_baseline)?;
        let value = json!({
            "last_completed_step": at.step,
            "current_skill_path": at.snapshot(),
            "current_score": standing.current_score,
            "current_origin": state.current_origin,
            "best_skill_path": "best_skill.md",
            "best_score": standing.best_score,
            "best_step": standing.best_step,
            "best_origin": state.best_origin,
            "scheduler_position": state.scheduler.state().current_step,
            "score_is_stale": state.is_stale(),
        });
        Ok(self.folder.json("runtime_state.json", &value)?)
    }

    fn lap(&self, name: &str) {
        self.timings.lap(name);
    }

    fn train_items(&self, indices: &[usize]) -> Vec<&'a Sample> {
        indices
            .iter()
            .filter_map(|&i| self.plan.samples.train.get(i))
            .collect()
    }

    fn val_items(&self) -> Vec<&'a Sample> {
        self.plan.gate_items()
    }

    fn test_items(&self) -> Vec<&'a Sample> {
        self.plan.scored_items()
    }
}
