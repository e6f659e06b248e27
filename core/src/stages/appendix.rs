//! Appendix consolidation: fewer, shorter execution notes.
//!
//! Source: training spec, 3.6, 6.10.

use serde_json::Value;

use super::prompts::Set;
use super::user::Text;
use super::{AnswerMode, schema};
use crate::job::Prompt;
use crate::json_extract;
use crate::loose;
use crate::text;

/// Stage label.
pub const LABEL: &str = "appendix_consolidate";
/// Upper limit of the answer, in tokens.
pub const MAX_TOKENS: u32 = 4_096;
/// How often the transport of a call is tried.
pub const RETRIES: u32 = 2;

/// What the model is shown.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Answer mode.
    pub answers: AnswerMode,
    /// The notes of the skill's appendix.
    pub notes: &'a [String],
}

/// Returns whether there is anything to consolidate: two notes that are not blank.
#[must_use]
pub fn is_needed(notes: &[String]) -> bool {
    notes.iter().filter(|note| !text::is_blank(note)).count() >= 2
}

/// Renders the call.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let notes: Vec<String> = input
        .notes
        .iter()
        .filter(|note| !text::is_blank(note))
        .enumerate()
        .map(|(i, note)| format!("{}. {}", i + 1, text::trim(note)))
        .collect();
    let user = Text::default()
        .quote("notes", &notes.join("\n"))
        .line("Write the consolidated list as `appendix_notes` now.")
        .finish();
    let name = schema::template(input.answers, "appendix_consolidate");
    let fields = [("appendix_notes", schema::list(schema::text()))];
    schema::prompt(input.answers, LABEL, prompts.get(&name), user, &fields)
}

/// Reads the answer; `None` if the notes stay as they are: nothing usable, or not fewer notes,
/// since only strictly fewer are installed (3.6).
#[must_use]
pub fn parse(answer: Option<&str>, input: &Input<'_>) -> Option<Vec<String>> {
    accept(answer, input).filter(|notes| notes.len() < input.notes.len())
}

/// Reads the answer as a consolidation: some notes, and not more than before (6.10).
#[must_use]
pub fn accept(answer: Option<&str>, input: &Input<'_>) -> Option<Vec<String>> {
    let object = json_extract::object(answer?)?;
    let notes = notes(object.get("appendix_notes")?);
    let before = input
        .notes
        .iter()
        .filter(|note| !text::is_blank(note))
        .count();
    (!notes.is_empty() && notes.len() <= before).then_some(notes)
}

/// Reads notes in the shapes models use: a list of texts, one text, or a list of `{note}` or
/// `{content}` objects; anything else is ignored.
#[must_use]
pub fn notes(value: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(note) => note.clone(),
        Value::Object(map) => loose::first_field(map, &["note", "content"]),
        _ => String::new(),
    };
    let all = match value {
        Value::Array(list) => list.iter().map(one).collect(),
        Value::String(note) => vec![note.clone()],
        _ => Vec::new(),
    };
    all.iter()
        .map(|note| text::trim(note).to_owned())
        .filter(|note| !note.is_empty())
        .collect()
}
