//! Rewrite: one call turns the selected suggestions into a complete new document.
//!
//! Source: training spec, 6.7. The caller puts the protected blocks of the current skill back
//! into the result (D26).

use serde_json::Value;

use super::prompts::Set;
use super::user::{Text, pretty};
use super::{AnswerMode, schema};
use crate::job::Prompt;
use crate::json_extract;
use crate::loose;
use crate::patch::{self, Patch};
use crate::text;
use crate::update_mode::UpdateMode;

/// Stage label.
pub const LABEL: &str = "rewrite";
/// Upper limit of the answer, in tokens, unless the configuration names another.
pub const MAX_TOKENS: u32 = super::MAX_TOKENS_DOCUMENT;

/// What the model is shown.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Answer mode.
    pub answers: AnswerMode,
    /// The current skill.
    pub skill: &'a str,
    /// The patch with the selected suggestions.
    pub patch: &'a Patch,
    /// The earlier steps, "" if none.
    pub step_buffer: &'a str,
}

/// Returns whether there is anything to ask for: at least one suggestion.
#[must_use]
pub fn is_needed(patch: &Patch) -> bool {
    !patch::items(patch, UpdateMode::Suggestions).is_empty()
}

/// Renders the call.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let suggestions = patch::items(input.patch, UpdateMode::Suggestions).to_vec();
    let user = Text::default()
        .skill(input.skill)
        .quote("suggestions", &pretty(&Value::Array(suggestions)))
        .step_buffer(input.step_buffer)
        .line("Write the complete new skill document now.")
        .finish();
    let name = schema::template(input.answers, "rewrite");
    let fields = [
        ("change_summary", schema::list(schema::text())),
        ("new_skill", schema::text()),
    ];
    schema::prompt(input.answers, LABEL, prompts.get(&name), user, &fields)
}

/// A rewritten document (`rewrite_result.json`).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rewrite {
    /// The model's reasons, if it gave any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// What changed.
    pub change_summary: Vec<String>,
    /// The document, ending in one newline.
    pub new_skill: String,
}

/// Reads the answer; `None` if it holds no document, and the step is skipped.
#[must_use]
pub fn parse(answer: Option<&str>) -> Option<Rewrite> {
    let object = json_extract::object(answer?)?;
    let new_skill = loose::field(&object, "new_skill");
    if text::is_blank(&new_skill) {
        return None;
    }
    Some(Rewrite {
        reasoning: object.get("reasoning").map(loose::text),
        change_summary: object
            .get("change_summary")
            .map(patch::texts)
            .unwrap_or_default(),
        new_skill: format!("{}\n", text::trim_end(&new_skill)),
    })
}

/// Returns the first candidate with a document of a full rewrite (training spec 1.7 ⑤), and the
/// document ending in one newline.
#[must_use]
pub fn first_candidate(patch: &Patch) -> Option<(&Value, String)> {
    patch::items(patch, UpdateMode::FullRewrite)
        .iter()
        .find_map(|candidate| {
            let document = candidate.get("new_skill")?.as_str()?;
            let filled = !text::is_blank(document);
            filled.then(|| (candidate, format!("{}\n", text::trim_end(document))))
        })
}
