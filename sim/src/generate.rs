//! Items of the made-up world as a data set in SearchQA format (chapter 1).

use std::path::Path;

use serde::Serialize;
use skillopt_runtime::files::{FileError, write_atomic};

use crate::unit::{pick, unit};
use crate::world::{Item, family_at, family_name};

/// Length that the passages of an item are filled up to, in characters.
const CONTEXT_CHARS: usize = 900;

const ADJECTIVES: [&str; 24] = [
    "amber", "brisk", "calm", "dusty", "eager", "faint", "gentle", "hollow", "icy", "jolly",
    "keen", "lunar", "mellow", "noble", "olive", "plain", "quiet", "rapid", "silver", "tidy",
    "upper", "vivid", "warm", "young",
];

const ANIMALS: [&str; 24] = [
    "badger", "crane", "dolphin", "eagle", "falcon", "gecko", "heron", "ibis", "jackal", "koala",
    "lemur", "marten", "newt", "otter", "puffin", "quail", "raven", "seal", "tapir", "urchin",
    "viper", "walrus", "yak", "zebra",
];

const FILLERS: [&str; 8] = [
    "The archive keeps its records in long rows, and nobody reads them twice.",
    "A clerk once counted the shelves and found more shelves than records.",
    "Records are copied every spring; the copies are kept in another town.",
    "Some passages speak of the weather and do not help with any question.",
    "The oldest pages are written in brown ink and smell of dust.",
    "Visitors may look at a record as long as the lamp burns.",
    "Two keys open the reading room, and one of them is lost.",
    "The index lists names, places and a few dates of no importance.",
];

/// One question in SearchQA format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// `<split>-<5-digit index>`.
    pub id: String,
    /// The tag and the question.
    pub question: String,
    /// The passages, each begun by `[DOC] `.
    pub context: String,
    /// The one right answer.
    pub answers: Vec<String>,
}

/// How many items each split gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Items of `train`.
    pub train: usize,
    /// Items of `val`.
    pub val: usize,
    /// Items of `test`.
    pub test: usize,
}

impl Sizes {
    /// Returns the splits by name, in the order in which they are written.
    #[must_use]
    pub const fn splits(&self) -> [(&'static str, usize); 3] {
        [
            ("train", self.train),
            ("val", self.val),
            ("test", self.test),
        ]
    }
}

/// Returns item `index` of a split.
#[must_use]
pub fn question(seed: u64, split: &str, index: usize) -> Question {
    let id = format!("{split}-{index:05}");
    let family = family_name(family_at(unit(seed, &["fam", &id])));
    let adjective = word(&ADJECTIVES, seed, "a", &id);
    let animal = word(&ANIMALS, seed, "b", &id);
    let number = 1000 + pick(seed, &["n", &id], 9000);
    let gold = format!("{adjective} {animal} {number}");
    let item = Item {
        id: &id,
        family: &family,
        gold: &gold,
    };
    Question {
        question: item.question(),
        context: context(seed, &item),
        answers: vec![gold],
        id,
    }
}

/// Returns the first `n` items of a split.
#[must_use]
pub fn split(seed: u64, name: &str, n: usize) -> Vec<Question> {
    (0..n).map(|index| question(seed, name, index)).collect()
}

/// Writes `train/items.json`, `val/items.json` and `test/items.json` below `dir`, each whole or
/// not at all.
///
/// # Errors
/// A file cannot be written.
pub fn generate(dir: &Path, seed: u64, sizes: Sizes) -> Result<(), FileError> {
    for (name, n) in sizes.splits() {
        let path = dir.join(name).join("items.json");
        let mut json = serde_json::to_vec_pretty(&split(seed, name, n))
            .map_err(|e| FileError::new("write", &path, e.into()))?;
        json.push(b'\n');
        write_atomic(&path, &json)?;
    }
    Ok(())
}

fn word(words: &[&'static str], seed: u64, name: &str, id: &str) -> &'static str {
    let index = pick(seed, &[name, id], words.len());
    words.get(index).copied().unwrap_or_default()
}

fn context(seed: u64, item: &Item<'_>) -> String {
    let mut text = format!(
        "[DOC] Record {} carries the code phrase {}.",
        item.id, item.gold
    );
    for i in 0.. {
        let filler = word(&FILLERS, seed, "filler", &format!("{}-{i}", item.id));
        // All words are ASCII, so that bytes are characters.
        if text.len() + filler.len() > CONTEXT_CHARS {
            break;
        }
        text.push_str("\n[DOC] ");
        text.push_str(filler);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::items_of;

    #[test]
    fn an_item_says_the_same_in_tag_context_and_answer() {
        let q = question(42, "val", 7);
        let items = items_of(&q.question);
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].id, "val-00007");
        assert_eq!(q.id, items[0].id);
        assert_eq!(q.answers, [items[0].gold]);
        assert_eq!(items[0].gold.split(' ').count(), 3);
        assert!(q.context.contains(items[0].gold));
        assert!(
            (800..=910).contains(&q.context.len()),
            "{}",
            q.context.len()
        );
        assert!(q.context.lines().all(|line| line.starts_with("[DOC] ")));
        assert_eq!(question(42, "val", 7), q);
        assert_ne!(question(43, "val", 7), q);
    }

    #[test]
    fn files_hold_the_same_as_memory() {
        let dir = tempfile::tempdir().unwrap();
        let sizes = Sizes {
            train: 3,
            val: 2,
            test: 0,
        };
        generate(dir.path(), 42, sizes).unwrap();
        for (name, n) in sizes.splits() {
            let text = std::fs::read_to_string(dir.path().join(name).join("items.json")).unwrap();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, serde_json::json!(split(42, name, n)));
        }
    }
}
