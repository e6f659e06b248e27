//! Merging the patches of a step (training spec 1.7 ③, 6.4).

use futures_util::future::{try_join, try_join_all};
use skillopt_core::patch::{Patch, Side};
use skillopt_core::stages::merge;

use super::Run;
use super::optimizer::Call;
use super::reflect::Shared;
use crate::halt::Halt;
use crate::jobs::Jobs;

impl<J: Jobs> Run<'_, J> {
    /// ③ Merges the patches of both sides to one; the two trees grow side by side.
    pub(super) async fn aggregate(
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
}
