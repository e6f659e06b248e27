//! From the selected items to a candidate (training spec 1.7 ⑤, chapter 3, 6.7).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use skillopt_core::patch::{self, Patch};
use skillopt_core::skill;
use skillopt_core::stages::rewrite;
use skillopt_core::text;
use skillopt_core::update_mode::UpdateMode;

use super::optimizer::Call;
use super::propose::Outcome;
use super::reflect::Shared;
use super::{Run, StepAt};
use crate::halt::Halt;
use crate::jobs::Jobs;

impl<J: Jobs> Run<'_, J> {
    /// ⑤ Turns the selected items into a candidate.
    pub(super) async fn update(
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
