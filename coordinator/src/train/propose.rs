//! From rollouts to a candidate skill (training spec 1.7 ①–⑤).

use std::sync::Arc;

use futures_util::future::{try_join, try_join_all};
use serde_json::{Map, Value, json};
use skillopt_benchmarks::splits::Batch;
use skillopt_core::patch::{self, Patch, Side};
use skillopt_core::rate::Control;
use skillopt_core::skill::{self, Folder};
use skillopt_core::stages::{merge, ranking, rate, rewrite};
use skillopt_core::step_buffer;
use skillopt_core::text;
use skillopt_core::update_mode::UpdateMode;

use super::optimizer::Call;
use super::record::round6;
use super::reflect::{Reflected, Shared};
use super::state::State;
use super::tokens::Tokens;
use super::{Run, StepAt};
use crate::halt::Halt;
use crate::jobs::Jobs;

/// What a step came to before the gate.
pub(super) struct Proposal {
    /// The record so far.
    pub(super) record: Map<String, Value>,
    pub(super) batches: Vec<Reflected>,
    pub(super) tokens: Tokens,
    pub(super) outcome: Outcome,
    /// The selected items.
    pub(super) ranked: Patch,
}

pub(super) enum Outcome {
    Candidate(Arc<Folder>),
    /// No analyst proposed anything.
    NoPatches,
    /// The rewrite gave no document.
    NoRewrite,
}

impl<J: Jobs> Run<'_, J> {
    /// Makes the proposal of one step.
    pub(super) async fn propose(
        &self,
        state: &mut State,
        at: StepAt,
        batches: &[Batch],
    ) -> Result<Proposal, Halt> {
        let tokens = Tokens::default();
        let skill = Arc::clone(&state.current);
        let buffer = step_buffer::render(&state.buffer, self.plan.mode);
        let shared = Shared {
            skill: &skill,
            step_buffer: &buffer,
            meta_skill: &state.meta_skill.clone(),
            tokens: &tokens,
        };
        let repeats: Vec<Vec<u32>> = batches.iter().map(|b| state.repeats(&b.items)).collect();
        let folders: Vec<String> = (0..batches.len())
            .map(|a| {
                if batches.len() > 1 {
                    format!("{}/batch_{a}", at.folder())
                } else {
                    at.folder()
                }
            })
            .collect();
        let reflected = try_join_all(
            batches
                .iter()
                .zip(&repeats)
                .zip(&folders)
                .map(|((b, r), f)| self.reflect(b, r, f, &shared)),
        )
        .await?;
        let mut proposal = Proposal {
            record: Map::new(),
            batches: reflected,
            tokens: Tokens::default(),
            outcome: Outcome::NoPatches,
            ranked: Patch::new(),
        };
        self.decide(state, at, &shared, &mut proposal).await?;
        proposal.tokens = tokens;
        Ok(proposal)
    }

    async fn decide(
        &self,
        state: &mut State,
        at: StepAt,
        shared: &Shared<'_>,
        proposal: &mut Proposal,
    ) -> Result<(), Halt> {
        let mode = self.plan.mode;
        let raw: Vec<Value> = proposal
            .batches
            .iter()
            .flat_map(|b| b.analyses.iter().map(|a| a.raw_patch.clone()))
            .collect();
        let sides = patch::normalise(&raw, mode);
        let rollout = record_rollouts(&mut proposal.record, &proposal.batches, mode);
        let record = &mut proposal.record;
        record.insert(
            "n_patches".into(),
            (sides.failure.len() + sides.success.len()).into(),
        );
        record.insert("n_failure_patches".into(), sides.failure.len().into());
        record.insert("n_success_patches".into(), sides.success.len().into());
        if sides.failure.is_empty() && sides.success.is_empty() {
            return Ok(());
        }
        let merged = self
            .aggregate(&sides.failure, &sides.success, shared)
            .await?;
        self.folder
            .json(&format!("{}/merged_patch.json", at.folder()), &merged)?;
        let ranked = self
            .select(state, at, shared, &merged, rollout, record)
            .await?;
        self.folder
            .json(&format!("{}/ranked_edits.json", at.folder()), &ranked)?;
        let items = patch::items(&ranked, mode);
        record.insert(
            "n_edits_merged".into(),
            patch::items(&merged, mode).len().into(),
        );
        record.insert("n_edits_ranked".into(), items.len().into());
        record.insert(
            "support_counts".into(),
            patch::support_counts(&ranked, mode).into(),
        );
        proposal.outcome = self.update(at, shared, &ranked, record).await?;
        proposal.ranked = ranked;
        Ok(())
    }

    /// ③ Merges the patches of both sides to one; the two trees grow side by side.
    async fn aggregate(
        &self,
        failure: &[Patch],
        success: &[Patch],
        shared: &Shared<'_>,
    ) -> Result<Patch, Halt> {
        let mode = self.plan.mode;
        let (failure, success) = try_join(
            self.merge_side(Side::Failure, failure, shared),
            self.merge_side(Side::Success, success, shared),
        )
        .await?;
        if let Some(done) = merge::finish(failure.as_ref(), success.as_ref(), mode) {
            return Ok(done);
        }
        let (Some(failure), Some(success)) = (failure, success) else {
            return Ok(Patch::new());
        };
        let input = merge::FinalInput {
            mode,
            answers: self.plan.answers,
            skill: &shared.skill.document,
            meta_skill: shared.meta_skill,
            failure: &failure,
            success: &success,
        };
        let prompt = merge::final_prompt(&input, &self.plan.prompts);
        let call = Call::new(merge::LABEL, prompt, merge::max_tokens(mode));
        let merged = self
            .optimizer
            .ask(
                call,
                shared.tokens,
                |text| merge::parse_final(text, &input),
                |m| !m.fallback,
            )
            .await?;
        Ok(merged.patch)
    }

    async fn merge_side(
        &self,
        side: Side,
        patches: &[Patch],
        shared: &Shared<'_>,
    ) -> Result<Option<Patch>, Halt> {
        let mut patches = patches.to_vec();
        let mut level = 0;
        while patches.len() > 1 {
            level += 1;
            let batches = merge::batches(patches.len(), self.plan.merge_batch_size);
            let merged = batches.into_iter().map(|range| {
                self.merge_batch(side, patches.get(range).unwrap_or_default(), level, shared)
            });
            patches = try_join_all(merged).await?;
        }
        Ok(patches.pop())
    }

    async fn merge_batch(
        &self,
        side: Side,
        patches: &[Patch],
        level: u32,
        shared: &Shared<'_>,
    ) -> Result<Patch, Halt> {
        if let [only] = patches {
            return Ok(only.clone());
        }
        let input = merge::Input {
            side,
            mode: self.plan.mode,
            answers: self.plan.answers,
            skill: &shared.skill.document,
            meta_skill: shared.meta_skill,
            patches,
            level,
        };
        let prompt = merge::prompt(&input, &self.plan.prompts);
        let call = Call::new(merge::LABEL, prompt, merge::max_tokens(self.plan.mode));
        let merged = self
            .optimizer
            .ask(
                call,
                shared.tokens,
                |text| merge::parse(text, &input),
                |m| !m.fallback,
            )
            .await?;
        Ok(merged.patch)
    }

    /// ④ Decides how many items the step may apply, and which.
    async fn select(
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

    /// ⑤ Turns the selected items into a candidate.
    async fn update(
        &self,
        at: StepAt,
        shared: &Shared<'_>,
        ranked: &Patch,
        record: &mut Map<String, Value>,
    ) -> Result<Outcome, Halt> {
        let current = &shared.skill.document;
        let document = match self.plan.mode {
            UpdateMode::Patch => {
                let (document, reports) =
                    skill::apply_patch(current, patch::items(ranked, UpdateMode::Patch));
                if !reports.is_empty() {
                    self.folder
                        .json(&format!("{}/edit_apply_report.json", at.folder()), &reports)?;
                    record.insert("edit_apply_summary".into(), summary(&reports));
                }
                Some(document)
            }
            UpdateMode::Suggestions => self.rewrite(at, shared, ranked, record).await?,
            UpdateMode::FullRewrite => {
                let chosen = rewrite::first_candidate(ranked);
                if let Some((candidate, _)) = &chosen {
                    let result = json!({"selected_candidate": candidate, "merged_patch": ranked});
                    self.folder.json(
                        &format!("{}/full_rewrite_result.json", at.folder()),
                        &result,
                    )?;
                    let changes = candidate
                        .get("change_summary")
                        .map(patch::texts)
                        .unwrap_or_default();
                    record.insert("rewrite_change_summary".into(), changes.into());
                }
                chosen.map(|(_, document)| skill::keep_protected(current, &document))
            }
        };
        let has_document = document.is_some();
        let candidate = shared
            .skill
            .with_document(document.unwrap_or_else(|| current.clone()));
        self.folder.text(
            &format!("{}/candidate_skill.md", at.folder()),
            &candidate.document,
        )?;
        record.insert("candidate_hash".into(), candidate.hash_short().into());
        record.insert(
            "candidate_skill_len".into(),
            text::length(&candidate.document).into(),
        );
        Ok(if has_document {
            Outcome::Candidate(Arc::new(candidate))
        } else {
            Outcome::NoRewrite
        })
    }

    async fn rewrite(
        &self,
        at: StepAt,
        shared: &Shared<'_>,
        ranked: &Patch,
        record: &mut Map<String, Value>,
    ) -> Result<Option<String>, Halt> {
        if !rewrite::is_needed(ranked) {
            return Ok(None);
        }
        let current = &shared.skill.document;
        let input = rewrite::Input {
            answers: self.plan.answers,
            skill: current,
            patch: ranked,
            step_buffer: shared.step_buffer,
        };
        let prompt = rewrite::prompt(&input, &self.plan.prompts);
        let mut call = Call::new(rewrite::LABEL, prompt, self.plan.rewrite.max_tokens);
        call.reasoning_effort
            .clone_from(&self.plan.rewrite.reasoning_effort);
        let result = self
            .optimizer
            .ask(call, shared.tokens, rewrite::parse, Option::is_some)
            .await?;
        let Some(mut result) = result else {
            return Ok(None);
        };
        result.new_skill = skill::keep_protected(current, &result.new_skill);
        self.folder
            .json(&format!("{}/rewrite_result.json", at.folder()), &result)?;
        record.insert(
            "rewrite_change_summary".into(),
            result.change_summary.clone().into(),
        );
        Ok(Some(result.new_skill))
    }
}

/// Scores of all rollouts of a step.
#[derive(Clone, Copy)]
struct Rollout {
    n: u64,
    hard: f64,
    soft: f64,
}

fn record_rollouts(
    record: &mut Map<String, Value>,
    batches: &[Reflected],
    mode: UpdateMode,
) -> Rollout {
    let n: usize = batches.iter().map(|b| b.records.len()).sum();
    #[expect(clippy::cast_precision_loss, reason = "counts of items are small")]
    let mean = |score: fn(&Reflected) -> f64| {
        batches
            .iter()
            .map(|b| score(b) * b.records.len() as f64)
            .sum::<f64>()
            / n.max(1) as f64
    };
    let rollout = Rollout {
        n: n as u64,
        hard: round6(mean(|b| b.score.0)),
        soft: round6(mean(|b| b.score.1)),
    };
    record.insert("rollout_hard".into(), rollout.hard.into());
    record.insert("rollout_soft".into(), rollout.soft.into());
    record.insert("rollout_n".into(), n.into());
    let batches: Vec<Value> = batches
        .iter()
        .enumerate()
        .map(|(index, batch)| {
            let raw: Vec<Value> = batch.analyses.iter().map(|a| a.raw_patch.clone()).collect();
            let sides = patch::normalise(&raw, mode);
            json!({
                "batch_idx": index,
                "batch_seed": batch.seed,
                "n_envs": batch.records.len(),
                "hard": round6(batch.score.0),
                "soft": round6(batch.score.1),
                "n_failure_patches": sides.failure.len(),
                "n_success_patches": sides.success.len(),
            })
        })
        .collect();
    record.insert("accumulation_batches".into(), batches.into());
    rollout
}

fn summary(reports: &[skill::Report]) -> Value {
    let count = |f: fn(&skill::Report) -> bool| reports.iter().filter(|r| f(r)).count();
    let applied = count(|r| r.status.is_applied());
    let errors = count(|r| r.status == skill::Status::Error);
    json!({
        "total": reports.len(),
        "applied": applied,
        "skipped": reports.len() - applied - errors,
        "errors": errors,
    })
}
