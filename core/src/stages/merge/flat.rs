//! Merging in schema-bound mode: the model sees numbered texts and writes those that should remain,
//! best first.
//!
//! Its list orders the items and cannot lose one. Asked for a union, a small model keeps a single
//! text and not the best; so what it leaves out comes last instead of going, and what it words
//! anew is dropped for the original. Copies of one text become one item with the support of all.
//! The edit budget cuts what is too much, and the gate judges the rest.

use serde_json::{Map, Value, json};

use crate::job::Prompt;
use crate::loose;
use crate::patch::{self, Patch};
use crate::stages::prompts::Set;
use crate::stages::user::Text;
use crate::stages::{AnswerMode, schema};
use crate::text;
use crate::update_mode::UpdateMode;

/// Field of the answer: the texts that remain.
const TEXTS: &str = "texts";

/// Renders the call. Full rewrite asks for one document.
pub(super) fn prompt(user: Text, items: &[&Value], mode: UpdateMode, prompts: &Set) -> Prompt {
    let full = mode == UpdateMode::FullRewrite;
    let texts: Vec<String> = items
        .iter()
        .filter_map(|item| item_text(item, mode))
        .enumerate()
        .map(|(i, text)| format!("{}. {text}", i + 1))
        .collect();
    let user = user
        .line("The proposed texts:")
        .line(&texts.join(if full { "\n\n" } else { "\n" }))
        .finish();
    let (name, fields) = if full {
        ("small_merge_full_rewrite", [("new_skill", schema::text())])
    } else {
        ("small_merge", [(TEXTS, schema::list(schema::text()))])
    };
    schema::prompt(
        AnswerMode::SchemaBound,
        super::LABEL,
        prompts.get(name),
        user,
        &fields,
    )
}

/// Reads the answer; `None` if it has no list of texts (or no document).
pub(super) fn patch(
    answer: &Map<String, Value>,
    items: &[&Value],
    mode: UpdateMode,
) -> Option<Patch> {
    if mode == UpdateMode::FullRewrite {
        let document = loose::field(answer, "new_skill");
        return (!text::is_blank(&document)).then(|| {
            let candidate = json!({
                "title": "merged", "change_summary": [], "new_skill": document,
                "support_count": items.len(), "source_type": "mixed",
            });
            patch::from_items("merged", vec![candidate], mode)
        });
    }
    let named = patch::texts(answer.get(TEXTS)?);
    let all = items.iter().filter_map(|item| item_text(item, mode));
    let mut kept: Vec<Value> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for key in named.into_iter().chain(all).map(|text| key(&text)) {
        if !seen.contains(&key) {
            kept.extend(item_of(&key, items, mode));
            seen.push(key);
        }
    }
    for item in items.iter().filter(|item| item_text(item, mode).is_none()) {
        if !kept.contains(item) {
            kept.push((*item).clone());
        }
    }
    Some(patch::from_items("merged", kept, mode))
}

/// Returns the first item that says what `key` stands for, with the support of all that say it.
fn item_of(key: &str, items: &[&Value], mode: UpdateMode) -> Option<Value> {
    let same: Vec<&&Value> = items
        .iter()
        .filter(|item| item_text(item, mode).is_some_and(|text| self::key(&text) == key))
        .collect();
    let support: i64 = same
        .iter()
        .map(|item| support(item))
        .fold(0, i64::saturating_add);
    let mut item = (**same.first()?).clone();
    if let Some(map) = item.as_object_mut() {
        map.insert("support_count".to_owned(), support.into());
    }
    Some(item)
}

fn support(item: &Value) -> i64 {
    let support = item.get("support_count").and_then(loose::integer);
    support.unwrap_or(1).max(1)
}

/// Returns the text a reader weighs, if the item has one.
fn item_text(item: &Value, mode: UpdateMode) -> Option<String> {
    let key = match mode {
        UpdateMode::Patch => "content",
        UpdateMode::Suggestions => "instruction",
        UpdateMode::FullRewrite => "new_skill",
    };
    let text = loose::field(item.as_object()?, key);
    let text = text::trim(&text);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reduces a text to its letters and digits in lower case: what makes two texts the same.
fn key(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}
