//! Rollout and reflection of one micro-batch (training spec 1.7 ①②, 6.2).

use std::sync::Arc;

use futures_util::future::try_join_all;
use serde_json::{Map, Value};
use skillopt_benchmarks::splits::Batch;
use skillopt_core::job::RolloutRecord;
use skillopt_core::minibatch::{self, Group};
use skillopt_core::patch::Side;
use skillopt_core::skill::Folder;
use skillopt_core::stages::{AnswerMode, analyst};
use skillopt_core::trajectory;

use super::Run;
use super::optimizer::Call;
use super::tokens::Tokens;
use crate::halt::Halt;
use crate::jobs::{Jobs, RolloutAsk, Urgency};

/// One micro-batch, rolled out and reflected upon.
pub(super) struct Reflected {
    pub(super) seed: i64,
    pub(super) records: Vec<Arc<RolloutRecord>>,
    pub(super) score: (f64, f64),
    pub(super) analyses: Vec<Analysis>,
}

/// One analyst answer with the items it was given.
pub(super) struct Analysis {
    pub(super) task_ids: Vec<String>,
    pub(super) raw_patch: Value,
}

/// What all micro-batches of a step share.
pub(super) struct Shared<'a> {
    pub(super) skill: &'a Arc<Folder>,
    pub(super) step_buffer: &'a str,
    pub(super) meta_skill: &'a str,
    pub(super) tokens: &'a Tokens,
}

impl<J: Jobs> Run<'_, J> {
    /// Rolls out one micro-batch and asks the analysts about it; files go below `folder`.
    pub(super) async fn reflect(
        &self,
        batch: &Batch,
        repeats: &[u32],
        folder: &str,
        shared: &Shared<'_>,
    ) -> Result<Reflected, Halt> {
        let items = self.train_items(&batch.items);
        let stage = self
            .jobs
            .rollouts(RolloutAsk {
                stage: &format!("{folder}/rollout"),
                skill: shared.skill,
                items: &items,
                repeats,
                keep_records: true,
                urgency: Urgency::Next,
            })
            .await?;
        shared.tokens.add("rollout", stage.usage);
        let records: Vec<Arc<RolloutRecord>> = stage.records().cloned().collect();
        let rows: Vec<&Map<String, Value>> = records.iter().map(|r| &r.row).collect();
        let settings = minibatch::Settings {
            failure_only: self.plan.failure_only,
            size: self.plan.minibatch_size,
            seed: Some(batch.seed.unsigned_abs()),
        };
        let groups = minibatch::groups(&rows, settings);
        let asked = groups
            .iter()
            .map(|group| self.analyse(group, &records, folder, shared));
        let analyses = try_join_all(asked).await?.into_iter().flatten().collect();
        Ok(Reflected {
            seed: batch.seed,
            score: stage.score(),
            records,
            analyses,
        })
    }

    async fn analyse(
        &self,
        group: &Group,
        records: &[Arc<RolloutRecord>],
        folder: &str,
        shared: &Shared<'_>,
    ) -> Result<Option<Analysis>, Halt> {
        let members: Vec<&Arc<RolloutRecord>> = group
            .members
            .iter()
            .filter_map(|&i| records.get(i))
            .collect();
        let shown: Vec<trajectory::Item<'_>> = members
            .iter()
            .map(|record| trajectory::Item::of(record, self.plan.trace))
            .collect();
        let rendered = match self.plan.answers {
            AnswerMode::Free => trajectory::render(&shown),
            AnswerMode::SchemaBound => trajectory::render_brief(&shown),
        };
        let Some(trajectories) = rendered else {
            return Ok(None);
        };
        let skill_aware = self.plan.skill_aware;
        let failure_types: Vec<&str> = self.plan.failure_types.iter().map(String::as_str).collect();
        let input = analyst::Input {
            rules: analyst::Rules {
                side: group.side,
                mode: self.plan.mode,
                answers: self.plan.answers,
                budget: self.plan.analyst_budget(),
                notes: skill_aware.is_some_and(|s| group.side == Side::Failure || s.from_successes),
            },
            skill: &shared.skill.document,
            step_buffer: shared.step_buffer,
            meta_skill: shared.meta_skill,
            trajectories: &trajectories,
            failure_types: &failure_types,
        };
        let prompt = analyst::prompt(&input, &self.plan.prompts);
        let call = Call::new(analyst::LABEL, prompt, analyst::max_tokens(self.plan.mode));
        let parsed = self
            .optimizer
            .ask(
                call,
                shared.tokens,
                |text| analyst::parse(text, &input),
                Option::is_some,
            )
            .await?;
        let Some(raw_patch) = parsed.map(Value::Object) else {
            return Ok(None);
        };
        let side = match group.side {
            Side::Failure => "fail",
            Side::Success => "succ",
        };
        let path = format!("{folder}/patches/minibatch_{side}_{:03}.json", group.index);
        self.folder.json(&path, &raw_patch)?;
        let id = |record: &Arc<RolloutRecord>| {
            record
                .row
                .get("id")
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let task_ids = members.into_iter().filter_map(id).collect();
        Ok(Some(Analysis {
            task_ids,
            raw_patch,
        }))
    }
}
