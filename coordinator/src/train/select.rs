//! How many items a step may apply, and which (training spec 1.7 ④, 4.2, 6.5, 6.6).

use serde_json::{Map, Value, json};
use skillopt_core::patch::{self, Patch};
use skillopt_core::rate::Control;
use skillopt_core::stages::{ranking, rate};

use super::optimizer::Call;
use super::propose::Rollout;
use super::reflect::Shared;
use super::state::State;
use super::{Run, StepAt};
use crate::halt::Halt;
use crate::jobs::Jobs;

impl<J: Jobs> Run<'_, J> {
    /// ④ Decides how many items the step may apply, and which.
    pub(super) async fn select(
        &self,
        state: &mut State,
        at: StepAt,
        shared: &Shared<'_>,
        merged: &Patch,
        rollout: Rollout,
        record: &mut Map<String, Value>,
    ) -> Result<Patch, Halt> {
        let mode = self.plan.mode;
        let n_items = patch::items(merged, mode).len();
        record.insert("lr_control_mode".into(), self.plan.control.name().into());
        let budget = match self.plan.control {
            Control::None => None,
            Control::Fixed => Some(state.scheduler.advance() as usize),
            Control::Autonomous => Some(
                self.ask_rate(state, at, shared, merged, rollout, record)
                    .await?,
            ),
        };
        record.insert(
            "edit_budget".into(),
            budget.map_or(Value::Null, Value::from),
        );
        let plan = ranking::plan(n_items, budget, mode);
        let budget = match plan {
            ranking::Plan::Ask => budget.unwrap_or(n_items),
            _ => return Ok(ranking::without_call(merged, mode, plan).patch),
        };
        let input = ranking::Input {
            mode,
            answers: self.plan.answers,
            skill: &shared.skill.document,
            meta_skill: shared.meta_skill,
            patch: merged,
            budget,
        };
        let prompt = ranking::prompt(&input, &self.plan.prompts);
        let call = Call::new(ranking::LABEL, prompt, ranking::MAX_TOKENS);
        let selection = self
            .optimizer
            .ask(
                call,
                shared.tokens,
                |text| ranking::parse(text, &input),
                |s| !s.fallback,
            )
            .await?;
        Ok(selection.patch)
    }

    async fn ask_rate(
        &self,
        state: &mut State,
        at: StepAt,
        shared: &Shared<'_>,
        merged: &Patch,
        rollout: Rollout,
        record: &mut Map<String, Value>,
    ) -> Result<usize, Halt> {
        let mode = self.plan.mode;
        let n_items = patch::items(merged, mode).len();
        let input = rate::Input {
            mode,
            answers: self.plan.answers,
            skill: &shared.skill.document,
            meta_skill: shared.meta_skill,
            step_buffer: shared.step_buffer,
            patch: merged,
            rollout_n: rollout.n,
            rollout_hard: rollout.hard,
            rollout_soft: rollout.soft,
        };
        let prompt = rate::prompt(&input, &self.plan.prompts);
        let call = Call::new(rate::LABEL, prompt, rate::MAX_TOKENS);
        let decision = self
            .optimizer
            .ask(
                call,
                shared.tokens,
                |text| rate::parse(text, n_items),
                |d| !d.fallback,
            )
            .await?;
        let value = serde_json::to_value(&decision).map_err(Halt::infrastructure)?;
        self.folder
            .json(&format!("{}/lr_decision.json", at.folder()), &value)?;
        let mut line = json!({"step": at.step, "epoch": at.epoch});
        if let (Some(line), Some(decision)) = (line.as_object_mut(), value.as_object()) {
            line.extend(decision.clone());
        }
        state.rate_decisions.push(line);
        self.folder
            .json_lines("lr_history.jsonl", &state.rate_decisions)?;
        record.insert("lr_decision".into(), value);
        Ok(usize::try_from(decision.learning_rate).unwrap_or(usize::MAX))
    }
}
