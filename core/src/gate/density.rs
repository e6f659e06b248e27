//! Semantic density: the share of weighty words in a skill's body.
//!
//! Source: training spec, 5.1.

use std::collections::BTreeSet;

use crate::skill::regions::{KINDS, blocks};

/// The words that count unless others are configured.
pub const DEFAULT_LEADING_WORDS: [&str; 11] = [
    "must",
    "always",
    "never",
    "only",
    "critical",
    "important",
    "resolve",
    "prefer",
    "ensure",
    "strict",
    "verify",
];

/// The density bonus of the gate score.
#[derive(Clone, Debug, PartialEq)]
pub struct Density {
    /// Factor between density and bonus.
    pub weight: f64,
    words: BTreeSet<String>,
}

impl Default for Density {
    fn default() -> Self {
        Self::new(0.05, DEFAULT_LEADING_WORDS)
    }
}

impl Density {
    /// Returns a bonus for these words; their case does not matter.
    pub fn new(weight: f64, words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let words = words
            .into_iter()
            .map(|word| crate::text::trim(word.as_ref()).to_lowercase())
            .filter(|word| !word.is_empty())
            .collect();
        Self { weight, words }
    }

    /// Returns the share of the words among all runs of ASCII letters and digits outside of the
    /// protected blocks; 0 if there are none.
    #[must_use]
    pub fn of(&self, skill: &str) -> f64 {
        let body = without_blocks(skill).to_lowercase();
        let (mut hits, mut all) = (0_u32, 0_u32);
        for word in body.split(|c: char| !c.is_ascii_alphanumeric()) {
            if !word.is_empty() {
                all = all.saturating_add(1);
                hits = hits.saturating_add(u32::from(self.words.contains(word)));
            }
        }
        if all == 0 {
            return 0.0;
        }
        f64::from(hits) / f64::from(all)
    }
}

/// Removes blocks; an unclosed start marker goes alone, a stray end marker stays.
fn without_blocks(skill: &str) -> String {
    let mut body = skill.to_owned();
    for kind in KINDS {
        let mut kept = String::with_capacity(body.len());
        let mut from = 0;
        for block in blocks(&body, kind) {
            kept.push_str(&body[from..block.start]);
            from = block.end;
        }
        kept.push_str(&body[from..]);
        body = kept.replace(kind.start, "");
    }
    body
}
