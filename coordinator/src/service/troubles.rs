//! Troubles that are tried again by themselves: each is told once, and again now and then while it
//! lasts.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Time until the same words about the same thing are said again.
const AGAIN: Duration = Duration::from_secs(60);
/// Things that are remembered; beyond, all are forgotten, which costs some lines more.
const THINGS_MAX: usize = 1_000;

/// What was told, and when.
#[derive(Debug, Default)]
pub(super) struct Troubles(HashMap<String, (String, Instant)>);

impl Troubles {
    /// Returns whether these words about a thing are worth saying now.
    pub(super) fn is_news(&mut self, thing: &str, words: &str, now: Instant) -> bool {
        let known = self.0.get(thing);
        if known.is_some_and(|(told, at)| told == words && now < *at + AGAIN) {
            return false;
        }
        if self.0.len() >= THINGS_MAX {
            self.0.clear();
        }
        self.0.insert(thing.to_owned(), (words.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_not_told_at_every_look() {
        let (mut troubles, start) = (Troubles::default(), Instant::now());
        let mut tell = |thing: &str, words: &str, seconds| {
            troubles.is_news(thing, words, start + Duration::from_secs(seconds))
        };
        assert!(tell("s1", "no memory", 0));
        assert!(!tell("s1", "no memory", 59));
        assert!(tell("s2", "no memory", 59), "another sweep");
        assert!(tell("s1", "no disk", 59), "another trouble");
        assert!(tell("s2", "no memory", 119), "it lasts");
    }
}
