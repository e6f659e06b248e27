//! The gate, and what a step leaves behind (training spec 1.7 ⑥, 1.8, chapter 5).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use skillopt_core::gate::{Action, Origin, Standing};
use skillopt_core::minibatch;
use skillopt_core::patch;
use skillopt_core::score::Score;
use skillopt_core::skill::{Folder, appendix};
use skillopt_core::stages::appendix as consolidate;
use skillopt_core::step_buffer::{self, Entry, Rejected};
use skillopt_core::text;

use super::optimizer::Call;
use super::propose::{Outcome, Proposal};
use super::record::ordered;
use super::state::State;
use super::tokens::Tokens;
use super::{Run, StepAt};
use crate::events::Event;
use crate::halt::Halt;
use crate::jobs::{Jobs, RolloutAsk, Urgency};

impl<J: Jobs> Run<'_, J> {
    /// Measures a skill on the val split, from the cache if this very text was measured before.
    pub(super) async fn measure(
        &self,
        measured: &std::collections::BTreeMap<String, Score>,
        skill: &Arc<Folder>,
        stage: &str,
        tokens: &Tokens,
    ) -> Result<Score, Halt> {
        if let Some(score) = measured.get(&skill.hash_short()) {
            return Ok(*score);
        }
        let items = self.val_items();
        // The first measurement is the baseline, which only the first gate waits for.
        let urgency = if measured.is_empty() {
            Urgency::Soon
        } else {
            Urgency::Next
        };
        let stage = self
            .jobs
            .rollouts(RolloutAsk {
                stage,
                skill,
                items: &items,
                repeats: &[],
                keep_records: false,
                urgency,
            })
            .await?;
        tokens.add("rollout", stage.usage);
        let (hard, soft) = stage.score();
        Ok(Score { hard, soft })
    }

    /// Lets the gate decide on a candidate whose score is known, and moves current and best.
    pub(super) fn gate(
        &self,
        standing: &mut Standing<Arc<Folder>>,
        candidate: &Arc<Folder>,
        gate_score: f64,
        step: u64,
    ) -> Result<Action, Halt> {
        let (candidate, origin) = (Arc::clone(candidate), Origin::Step(step));
        let decided = if self.plan.gate {
            standing.consider(candidate, gate_score, origin)
        } else {
            standing.force(candidate, gate_score, origin)
        };
        decided.map_err(|e| Halt::Failed(e.to_string()))
    }

    /// Judges a proposal, flushes the appendix notes and commits the step.
    pub(super) async fn judge(
        &self,
        state: &mut State,
        at: StepAt,
        mut proposal: Proposal,
    ) -> Result<(), Halt> {
        let tokens = std::mem::take(&mut proposal.tokens);
        let mut record = std::mem::take(&mut proposal.record);
        let action = match &proposal.outcome {
            Outcome::NoPatches => "skip_no_patches",
            Outcome::NoRewrite => "skip_no_rewrite",
            Outcome::Candidate(candidate) => {
                let candidate = Arc::clone(candidate);
                self.decide_candidate(state, at, &candidate, &proposal, &mut record, &tokens)
                    .await?
            }
        };
        let is_skipped = !matches!(proposal.outcome, Outcome::Candidate(_));
        self.flush_notes(state, at, &proposal, &mut record, &tokens)
            .await?;
        if !is_skipped {
            let entry = state.buffer.last();
            self.folder
                .json(&format!("{}/trajectory_digest.json", at.folder()), &entry)?;
        }
        let standing = state.standing.as_ref().ok_or_else(no_baseline)?;
        record.insert("step".into(), at.step.into());
        record.insert("epoch".into(), at.epoch.into());
        record.insert("step_in_epoch".into(), at.step_in_epoch.into());
        record.insert("action".into(), action.into());
        record.insert("current_score".into(), standing.current_score.into());
        record.insert("best_score".into(), standing.best_score.into());
        record.insert("best_step".into(), json!(standing.best_step));
        if !is_skipped {
            record.insert("current_origin".into(), state.current_origin.clone().into());
            record.insert("best_origin".into(), state.best_origin.clone().into());
        }
        if state.is_stale() {
            record.insert("score_is_stale".into(), true.into());
        }
        record.insert(
            "skill_len".into(),
            text::length(&state.current.document).into(),
        );
        record.insert(
            "tokens".into(),
            if is_skipped {
                json!({})
            } else {
                tokens.of_step()
            },
        );
        state.tokens.join(&tokens);
        self.commit_step(state, at, ordered(record), is_skipped)
            .await
    }

    async fn decide_candidate(
        &self,
        state: &mut State,
        at: StepAt,
        candidate: &Arc<Folder>,
        proposal: &Proposal,
        record: &mut Map<String, Value>,
        tokens: &Tokens,
    ) -> Result<&'static str, Halt> {
        if self.plan.remeasure_stale && state.is_stale() {
            let made = at.step.saturating_sub(1);
            self.remeasure(state, &at.folder(), made, tokens).await?;
        }
        let stage = format!("{}/selection_eval", at.folder());
        let score = self
            .measure(&state.measured, candidate, &stage, tokens)
            .await?;
        state.measured.insert(candidate.hash_short(), score);
        let gate_score = self.plan.scoring.gate_score(score, &candidate.document);
        let standing = state.standing.as_mut().ok_or_else(no_baseline)?;
        let before = standing.current_score;
        let action = self.gate(standing, candidate, gate_score, at.step)?;
        if action != Action::Reject {
            state.current = Arc::clone(candidate);
            state.current_origin = format!("step_{:04}", at.step);
            if standing.best_step == Origin::Step(at.step) {
                state.best_origin.clone_from(&state.current_origin);
            }
        }
        record.insert("selection_hard".into(), score.hard.into());
        record.insert("selection_soft".into(), score.soft.into());
        record.insert("gate_metric".into(), self.plan.scoring.metric.name().into());
        record.insert("candidate_gate_score".into(), gate_score.into());
        let rejected = (action == Action::Reject).then(|| Rejected {
            score_before: Some(before),
            score_after: Some(gate_score),
            rejected_edits: patch::items(&proposal.ranked, self.plan.mode)
                .iter()
                .map(|item| patch::summary(item, self.plan.mode))
                .collect(),
        });
        state.buffer.push(digest(at, action, proposal, rejected));
        Ok(action.name())
    }

    /// Measures the incumbent's present text, so that the comparison is between two texts that
    /// were both measured (D40). The text came about at the end of step `made`.
    pub(super) async fn remeasure(
        &self,
        state: &mut State,
        folder: &str,
        made: u64,
        tokens: &Tokens,
    ) -> Result<(), Halt> {
        let stage = format!("{folder}/incumbent_eval");
        let score = self
            .measure(&state.measured, &state.current, &stage, tokens)
            .await?;
        state.measured.insert(state.current.hash_short(), score);
        let standing = state.standing.as_mut().ok_or_else(no_baseline)?;
        let gate_score = self.plan.scoring.gate_score(score, &state.current.document);
        standing.current = Arc::clone(&state.current);
        standing.current_score = gate_score;
        // Guidance or notes that come later may spoil this text, so it is kept if it is the best.
        if gate_score.is_finite() && gate_score > standing.best_score {
            standing.best = Arc::clone(&state.current);
            standing.best_score = gate_score;
            standing.best_step = Origin::Step(made);
            state.best_origin.clone_from(&state.current_origin);
        }
        Ok(())
    }

    /// Adds the step's notes to the appendix (training spec 3.6). They are not validated, so the
    /// current text may differ from the one its score belongs to.
    async fn flush_notes(
        &self,
        state: &mut State,
        at: StepAt,
        proposal: &Proposal,
        record: &mut Map<String, Value>,
        tokens: &Tokens,
    ) -> Result<(), Halt> {
        let Some(skill_aware) = self.plan.skill_aware else {
            return Ok(());
        };
        let analyses = proposal.batches.iter().flat_map(|b| &b.analyses);
        let notes: Vec<String> = analyses
            .filter_map(|a| a.raw_patch.get("appendix_notes"))
            .flat_map(consolidate::notes)
            .collect();
        if notes.is_empty() {
            return Ok(());
        }
        let before = appendix::notes(&state.current.document).len();
        let mut document = appendix::append(&state.current.document, &notes);
        let mut after = appendix::notes(&document);
        record.insert("n_execution_lapse_notes".into(), notes.len().into());
        record.insert(
            "n_appendix_notes_added".into(),
            after.len().saturating_sub(before).into(),
        );
        let is_long =
            skill_aware.consolidate_above > 0 && after.len() > skill_aware.consolidate_above;
        if is_long && let Some(fewer) = self.consolidate(&after, tokens).await? {
            document = appendix::replace(&document, &fewer);
            after = appendix::notes(&document);
            // The number of notes that the call left, not of those that it saved.
            record.insert("n_appendix_notes_consolidated".into(), after.len().into());
        }
        record.insert("n_appendix_notes_total".into(), after.len().into());
        state.current = Arc::new(state.current.with_document(document));
        let file = json!({"step_notes": notes, "appendix_after": after});
        self.folder
            .json(&format!("{}/appendix_notes.json", at.folder()), &file)?;
        Ok(())
    }

    async fn consolidate(
        &self,
        notes: &[String],
        tokens: &Tokens,
    ) -> Result<Option<Vec<String>>, Halt> {
        if !consolidate::is_needed(notes) {
            return Ok(None);
        }
        let input = consolidate::Input {
            answers: self.plan.answers,
            notes,
        };
        let prompt = consolidate::prompt(&input, &self.plan.prompts);
        let call = Call::new(consolidate::LABEL, prompt, consolidate::MAX_TOKENS);
        // No second try: notes that stay as they are do no harm.
        self.optimizer
            .ask(
                call,
                tokens,
                |text| consolidate::parse(text, &input),
                |_| true,
            )
            .await
    }

    async fn commit_step(
        &self,
        state: &mut State,
        at: StepAt,
        record: Map<String, Value>,
        is_skipped: bool,
    ) -> Result<(), Halt> {
        self.folder.text(&at.snapshot(), &state.current.document)?;
        if !is_skipped {
            self.folder.best_skill(&state.best())?;
        }
        state.history.push(record.clone());
        self.folder.json("history.json", &state.history)?;
        self.write_state(state, at)?;
        self.folder
            .json(&format!("{}/step_record.json", at.folder()), &record)?;
        self.log.commit(Event::step(&record)).await?;
        self.lap(&format!("step_{:04}", at.step));
        Ok(())
    }
}

pub(super) fn no_baseline() -> Halt {
    Halt::Failed(
        "a step was judged before the baseline was measured; please report this".to_owned(),
    )
}

fn digest(at: StepAt, action: Action, proposal: &Proposal, rejected: Option<Rejected>) -> Entry {
    let rows: Vec<&Map<String, Value>> = proposal
        .batches
        .iter()
        .flat_map(|b| b.records.iter().map(|r| &r.row))
        .collect();
    let analyses: Vec<step_buffer::Analysis<'_>> = proposal
        .batches
        .iter()
        .flat_map(|b| &b.analyses)
        .map(|a| step_buffer::Analysis {
            task_ids: &a.task_ids,
            raw_patch: &a.raw_patch,
        })
        .collect();
    Entry {
        step: at.step,
        action: action.name().to_owned(),
        n_total: rows.len().max(1) as u64,
        n_fail: rows.iter().filter(|row| minibatch::is_failure(row)).count() as u64,
        failure_patterns: step_buffer::failure_patterns(&rows, &analyses),
        rejected,
    }
}
