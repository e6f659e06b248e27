//! Slow update and meta skill (training spec 1.9, 1.11).

use std::sync::Arc;

use futures_util::future::try_join;
use serde_json::{Map, Value, json};
use skillopt_core::gate::{Action, Origin};
use skillopt_core::skill::{Folder, slow_block};
use skillopt_core::stages::{meta_skill, slow_update};

use super::compare::{Comparison, Sides};
use super::judge::no_baseline;
use super::optimizer::Call;
use super::plan::SlowUpdate;
use super::state::State;
use super::tokens::Tokens;
use super::{Run, StepAt};
use crate::events::Event;
use crate::halt::Halt;
use crate::jobs::Jobs;

/// What the slow update changes, for people who read the result file.
const UPDATE_TARGET: &str = "the slow-update block, which step edits leave alone";

impl<J: Jobs> Run<'_, J> {
    /// Ends an epoch whose last step was `last`.
    pub(super) async fn end_epoch(&self, state: &mut State, last: StepAt) -> Result<(), Halt> {
        let epoch = last.epoch;
        if epoch == 1 {
            self.end_first_epoch(state, last).await?;
        } else if let Some(previous) = state.epoch_ends.last().cloned() {
            let tokens = Tokens::default();
            self.end_later_epoch(state, last, &previous, &tokens)
                .await?;
            state.tokens.join(&tokens);
        }
        state.epoch_ends.push(Arc::clone(&state.current));
        self.lap(&format!("epoch_{epoch:02}_end"));
        Ok(())
    }

    async fn end_first_epoch(&self, state: &mut State, last: StepAt) -> Result<(), Halt> {
        if self.plan.slow_update.is_some() {
            let document = slow_block::inject_empty(&state.current.document);
            state.current = Arc::new(state.current.with_document(document));
            state.current_origin = "slow_update_placeholder_epoch_01".to_owned();
            let result = json!({"action": "inject_placeholder", "epoch": 1});
            self.commit_slow_update(state, last, &result).await?;
        }
        if self.plan.meta_skill {
            let result = json!({"action": "skip_first_epoch", "epoch": 1});
            self.commit_meta_skill(1, &result).await?;
        }
        Ok(())
    }

    async fn end_later_epoch(
        &self,
        state: &mut State,
        last: StepAt,
        previous: &Arc<Folder>,
        tokens: &Tokens,
    ) -> Result<(), Halt> {
        let (slow, meta) = (self.plan.slow_update, self.plan.meta_skill);
        let name = match (slow, meta) {
            (Some(_), _) => "slow_update",
            (None, true) => "meta_skill",
            (None, false) => return Ok(()),
        };
        let folder = format!("{name}/epoch_{:02}", last.epoch);
        let current = Arc::clone(&state.current);
        let sides = Sides {
            folder: &folder,
            prev: previous,
            curr: &current,
            tokens,
        };
        let comparison = self.compare(&sides, last.epoch).await?;
        // The memory is about the skill as it was before this slow update, so both calls are
        // independent.
        let (guidance, memory) = try_join(
            self.ask_guidance(slow.is_some(), &sides, &comparison),
            self.ask_memory(meta, &sides, &comparison, &state.meta_skill),
        )
        .await?;
        if let Some(slow) = slow {
            self.install(state, last, slow, guidance, &comparison, tokens)
                .await?;
        }
        if meta {
            let result = match memory {
                Some(written) if !written.content.is_empty() => {
                    state.meta_skill.clone_from(&written.content);
                    json!({
                        "reasoning": written.reasoning,
                        "meta_skill_content": written.content,
                        "action": "write_meta_skill",
                    })
                }
                // The memory of earlier epochs is kept (D28).
                _ => json!({"reasoning": "", "meta_skill_content": "", "action": "no_content"}),
            };
            self.commit_meta_skill(last.epoch, &result).await?;
        }
        Ok(())
    }

    async fn ask_guidance(
        &self,
        wanted: bool,
        sides: &Sides<'_>,
        comparison: &Comparison,
    ) -> Result<Option<slow_update::Written>, Halt> {
        if !wanted {
            return Ok(None);
        }
        let input = slow_update::Input {
            answers: self.plan.answers,
            previous_skill: &sides.prev.document,
            current_skill: &sides.curr.document,
            previous_guidance: slow_block::guidance(&sides.curr.document),
            pairs: &comparison.pairs,
        };
        let prompt = slow_update::prompt(&input, &self.plan.prompts);
        let call = Call::new(slow_update::LABEL, prompt, slow_update::MAX_TOKENS);
        self.optimizer
            .ask(call, sides.tokens, slow_update::parse, Option::is_some)
            .await
    }

    async fn ask_memory(
        &self,
        wanted: bool,
        sides: &Sides<'_>,
        comparison: &Comparison,
        previous_memory: &str,
    ) -> Result<Option<slow_update::Written>, Halt> {
        if !wanted {
            return Ok(None);
        }
        let input = meta_skill::Input {
            answers: self.plan.answers,
            previous_skill: &sides.prev.document,
            current_skill: &sides.curr.document,
            previous_memory,
            pairs: &comparison.pairs,
        };
        let prompt = meta_skill::prompt(&input, &self.plan.prompts);
        let call = Call::new(meta_skill::LABEL, prompt, meta_skill::MAX_TOKENS);
        self.optimizer
            .ask(call, sides.tokens, meta_skill::parse, Option::is_some)
            .await
    }

    /// Puts new guidance into the skill, if there is any and the gate, if asked, lets it.
    async fn install(
        &self,
        state: &mut State,
        last: StepAt,
        slow: SlowUpdate,
        guidance: Option<slow_update::Written>,
        comparison: &Comparison,
        tokens: &Tokens,
    ) -> Result<(), Halt> {
        let folder = format!("slow_update/epoch_{:02}", last.epoch);
        let guidance = guidance.filter(|g| !g.content.is_empty());
        let Some(written) = guidance else {
            let result = json!({
                "reasoning": "",
                "slow_update_content": "",
                "action": "no_content",
                "prev_hard": comparison.prev_hard,
                "curr_hard": comparison.curr_hard,
            });
            return self.commit_slow_update(state, last, &result).await;
        };
        let document = slow_block::replace(&state.current.document, &written.content);
        let candidate = Arc::new(state.current.with_document(document));
        self.folder
            .text(&format!("{folder}/candidate_skill.md"), &candidate.document)?;
        let mut result = Map::new();
        result.insert("reasoning".into(), written.reasoning.into());
        result.insert("slow_update_content".into(), written.content.into());
        result.insert("prev_hard".into(), comparison.prev_hard.into());
        result.insert("curr_hard".into(), comparison.curr_hard.into());
        result.insert("candidate_hash".into(), candidate.hash_short().into());
        result.insert("update_origin".into(), "slow_update_momentum".into());
        result.insert("update_target".into(), UPDATE_TARGET.into());
        let origin = format!("slow_update_epoch_{:02}", last.epoch);
        let action = match slow {
            // Best and the current score stay: this text was not measured (D3, D40).
            SlowUpdate::Forced => Action::ForceAccept,
            SlowUpdate::Gated => {
                if self.plan.remeasure_stale && state.is_stale() {
                    self.remeasure(state, &folder, last.step, tokens).await?;
                }
                let stage = format!("{folder}/selection_eval");
                let score = self
                    .measure(&state.measured, &candidate, &stage, tokens)
                    .await?;
                state.measured.insert(candidate.hash_short(), score);
                result.insert("selection_hard".into(), score.hard.into());
                result.insert("selection_soft".into(), score.soft.into());
                let gate_score = self.plan.scoring.gate_score(score, &candidate.document);
                let standing = state.standing.as_mut().ok_or_else(no_baseline)?;
                let action =
                    standing.consider(Arc::clone(&candidate), gate_score, Origin::Step(last.step));
                let action = action.map_err(|e| Halt::Failed(e.to_string()))?;
                if action == Action::AcceptNewBest {
                    state.best_origin.clone_from(&origin);
                }
                action
            }
        };
        result.insert("action".into(), action.name().into());
        if action != Action::Reject {
            state.current = candidate;
            state.current_origin = origin;
        }
        self.commit_slow_update(state, last, &result.into()).await
    }

    async fn commit_slow_update(
        &self,
        state: &State,
        last: StepAt,
        result: &Value,
    ) -> Result<(), Halt> {
        self.folder.json(
            &format!("slow_update/epoch_{:02}/slow_result.json", last.epoch),
            result,
        )?;
        self.folder
            .text(&last.snapshot(), &state.current.document)?;
        self.folder.best_skill(&state.best())?;
        self.write_state(state, last)?;
        self.log
            .commit(Event::slow_update(last.epoch, result))
            .await
    }

    async fn commit_meta_skill(&self, epoch: u64, result: &Value) -> Result<(), Halt> {
        self.folder.json(
            &format!("meta_skill/epoch_{epoch:02}/meta_skill_result.json"),
            result,
        )?;
        self.log.commit(Event::meta_skill(epoch, result)).await
    }
}
