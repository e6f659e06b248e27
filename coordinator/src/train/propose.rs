//! From rollouts to a candidate skill (training spec 1.7 ①–⑤).

use std::sync::Arc;

use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};
use skillopt_benchmarks::splits::Batch;
use skillopt_core::patch::{self, Patch};
use skillopt_core::skill::Folder;
use skillopt_core::step_buffer;
use skillopt_core::update_mode::UpdateMode;

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
}

/// Scores of all rollouts of a step.
#[derive(Clone, Copy)]
pub(super) struct Rollout {
    pub(super) n: u64,
    pub(super) hard: f64,
    pub(super) soft: f64,
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
