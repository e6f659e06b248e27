//! What calls came to, by what they were for.

use std::collections::BTreeMap;

/// Most kinds of calls that a purse tells apart; later ones are counted under [`Use::other`].
pub const KINDS_MAX: usize = 2_000;
/// Longest name of a model that is kept.
const MODEL_BYTES_MAX: usize = 128;
/// Between the parts of a field's name; in no name of a role or stage.
const BETWEEN: char = '\t';

/// What a call was for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Use {
    /// `target` or `optimizer`.
    pub role: String,
    /// `rollout`, `analyst`, …
    pub stage: String,
    /// The model as its provider knows it.
    pub model: String,
}

impl Use {
    /// Names what a call was for.
    #[must_use]
    pub fn new(role: &str, stage: &str, model: &str) -> Self {
        let plain = |text: &str| text.replace(char::is_control, " ");
        let model = &model[..model.floor_char_boundary(MODEL_BYTES_MAX)];
        Self {
            role: plain(role),
            stage: plain(stage),
            model: plain(model),
        }
    }

    /// Stands for all that a purse does not tell apart any more.
    #[must_use]
    pub fn other() -> Self {
        Self::new("other", "other", "other")
    }
}

/// What calls of one kind came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls.
    pub requests: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// Of those sent, what the provider had in its cache.
    pub cached_tokens: u64,
    /// Of those received, hidden reasoning.
    pub reasoning_tokens: u64,
    /// Millionths of a US dollar, of the calls whose price is known.
    pub micro_usd: u64,
    /// Calls whose price is unknown.
    pub unpriced: u64,
    /// Calls by what came of them: `answer`, `truncated`, `throttled`, …
    pub outcomes: BTreeMap<String, u64>,
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        for (sum, n) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(n);
        }
        for (outcome, n) in &other.outcomes {
            *self.outcomes.entry(outcome.clone()).or_default() += n;
        }
    }

    const NAMES: [&'static str; 7] = ["n", "p", "c", "k", "g", "u", "x"];

    const fn numbers(&self) -> [u64; 7] {
        [
            self.requests,
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_tokens,
            self.reasoning_tokens,
            self.micro_usd,
            self.unpriced,
        ]
    }

    const fn numbers_mut(&mut self) -> [&mut u64; 7] {
        [
            &mut self.requests,
            &mut self.prompt_tokens,
            &mut self.completion_tokens,
            &mut self.cached_tokens,
            &mut self.reasoning_tokens,
            &mut self.micro_usd,
            &mut self.unpriced,
        ]
    }

    /// Returns the counters that are not 0, by name.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (String, u64)> {
        let named = Self::NAMES.into_iter().zip(self.numbers());
        let named = named.map(|(name, n)| (name.to_owned(), n));
        let outcomes = self
            .outcomes
            .iter()
            .map(|(word, n)| (format!("o{word}"), *n));
        named.chain(outcomes).filter(|(_, n)| *n > 0)
    }

    fn set(&mut self, name: &str, n: u64) {
        if let Some(word) = name.strip_prefix('o') {
            *self.outcomes.entry(word.to_owned()).or_default() += n;
        } else if let Some(at) = Self::NAMES.iter().position(|known| *known == name) {
            *self.numbers_mut()[at] += n;
        }
    }
}

/// Counts by use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(pub BTreeMap<Use, Counts>);

impl Tally {
    /// Counts calls of one kind.
    pub fn add(&mut self, of: Use, counts: &Counts) {
        self.0.entry(of).or_default().add(counts);
    }

    /// Adds another; what is too much to be told apart goes under [`Use::other`].
    pub fn join(&mut self, other: &Self) {
        for (of, counts) in &other.0 {
            let is_room = self.0.len() < KINDS_MAX || self.0.contains_key(of);
            let of = if is_room { of.clone() } else { Use::other() };
            self.add(of, counts);
        }
    }

    /// Returns whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns everything together.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.0.values().for_each(|counts| total.add(counts));
        total
    }

    /// Reads counters by the name of their field.
    pub(crate) fn from_fields(fields: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut tally = Self::default();
        for (name, n) in fields {
            let mut parts = name.split(BETWEEN);
            let mut part = || parts.next().unwrap_or_default().to_owned();
            let of = Use {
                role: part(),
                stage: part(),
                model: part(),
            };
            tally.0.entry(of).or_default().set(&part(), n);
        }
        tally
    }
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { role, stage, model } = self;
        write!(f, "{role}{BETWEEN}{stage}{BETWEEN}{model}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let counts = Counts {
            requests: 3,
            prompt_tokens: 4,
            completion_tokens: 5,
            cached_tokens: 6,
            reasoning_tokens: 7,
            micro_usd: 8,
            unpriced: 9,
            outcomes: BTreeMap::from([("answer".to_owned(), 2), ("empty".to_owned(), 1)]),
        };
        let mut tally = Tally::default();
        tally.add(Use::new("target", "rollout", "a/b\tc"), &counts);
        tally.add(
            Use::new("optimizer", "merge", "m"),
            &Counts {
                requests: 1,
                ..Counts::default()
            },
        );
        let fields = tally.0.iter().flat_map(|(of, counts)| {
            let of = of.to_string();
            let fields = counts.fields().collect::<Vec<_>>();
            fields
                .into_iter()
                .map(move |(name, n)| (format!("{of}\t{name}"), n))
        });
        assert_eq!(Tally::from_fields(fields), tally);
        assert_eq!(tally.total().requests, 4);
    }

    #[test]
    fn what_is_too_much_is_counted_together() {
        let one = Counts {
            requests: 1,
            ..Counts::default()
        };
        let mut tally = Tally::default();
        for i in 0..KINDS_MAX + 5 {
            let mut more = Tally::default();
            more.add(Use::new("target", "rollout", &format!("m{i}")), &one);
            tally.join(&more);
        }
        assert_eq!(tally.0.len(), KINDS_MAX + 1);
        assert_eq!(tally.0[&Use::other()].requests, 5);
    }
}
