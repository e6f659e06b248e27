//! The made-up world: question families and the tag that tells an item to the simulation
//! (chapter 1).

use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem;

/// Number of question families, `K00` to `K11`.
pub const FAMILIES: usize = 12;

/// How every tag begins; a user text that holds it is a target's task.
pub const TAG_START: &str = "[[sim item=";

/// An item as its tag describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Unique name, without blanks.
    pub id: &'a str,
    /// Family, such as `K07`.
    pub family: &'a str,
    /// The right answer.
    pub gold: &'a str,
}

impl Item<'_> {
    /// Returns the question that shows the item to the target: the tag and a sentence.
    #[must_use]
    pub fn question(&self) -> String {
        let Self { id, family, gold } = self;
        format!(
            "{TAG_START}{id} fam={family} gold={gold}]] Which code phrase does record {id} carry?"
        )
    }
}

/// Returns the name of family `index`.
#[must_use]
pub fn family_name(index: usize) -> String {
    format!("K{index:02}")
}

/// Returns the family that a number in [0, 1) falls on: family `k` has the weight `1/(k+2)`.
#[must_use]
pub fn family_at(unit: f64) -> usize {
    let weight = |k: usize| 1.0 / (k as f64 + 2.0);
    let total: f64 = (0..FAMILIES).map(weight).sum();
    let mut sum = 0.0;
    (0..FAMILIES)
        .find(|k| {
            sum += weight(*k) / total;
            sum > unit
        })
        .unwrap_or(FAMILIES - 1)
}

/// Returns the items of a text in order, each id once.
#[must_use]
pub fn items_of(text: &str) -> Vec<Item<'_>> {
    let mut seen = BTreeSet::new();
    tags(text).filter(|item| seen.insert(item.id)).collect()
}

/// Returns the item of the last tag in a text.
#[must_use]
pub fn last_item(text: &str) -> Option<Item<'_>> {
    let finder = memmem::FinderRev::new(TAG_START);
    finder
        .rfind_iter(text.as_bytes())
        .find_map(|start| parse_tag(text, start))
}

/// Counts the families of `items`: most frequent first, equal ones by name.
#[must_use]
pub fn family_counts<'a>(items: &[Item<'a>]) -> Vec<(&'a str, usize)> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item.family).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    // The sort is stable, so that equal counts stay in the order of their names.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn tags(text: &str) -> impl Iterator<Item = Item<'_>> {
    memmem::find_iter(text.as_bytes(), TAG_START).filter_map(|start| parse_tag(text, start))
}

/// Parses the tag that begins at `start`. A tag stands on one line, so that one that was cut off
/// does not swallow the next.
fn parse_tag(text: &str, start: usize) -> Option<Item<'_>> {
    let rest = text.get(start + TAG_START.len()..)?;
    let (id, rest) = word(rest)?;
    let (family, rest) = word(rest.strip_prefix(" fam=")?)?;
    let rest = rest.strip_prefix(" gold=")?;
    let end = memmem::find(rest.as_bytes(), b"]]")?;
    let gold = rest.get(..end)?;
    let is_family = family.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_family && !gold.contains('\n')).then_some(Item { id, family, gold })
}

/// Splits off a non-empty word that ends before a blank or a closing bracket.
fn word(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| c.is_whitespace() || c == ']')?;
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str, &str)]) {
        let items: Vec<_> = items_of(text)
            .iter()
            .map(|i| (i.id, i.family, i.gold))
            .collect();
        assert_eq!(items, expected, "{text}");
    }

    #[test]
    fn tags_are_read_in_order_and_once_for_each_id() {
        check("nothing", &[]);
        check(
            "a [[sim item=t-1 fam=K00 gold=big ox 7]] b [[sim item=t-0 fam=K11 gold=x]]\n\
             [[sim item=t-1 fam=K05 gold=other]]",
            &[("t-1", "K00", "big ox 7"), ("t-0", "K11", "x")],
        );
    }

    #[test]
    fn broken_tags_are_left_out() {
        check("[[sim item=t-1 fam=K00 gold=cut", &[]);
        check("[[sim item= fam=K00 gold=x]]", &[]);
        check("[[sim item=a]b fam=K00 gold=x]]", &[]);
        check("[[sim item=a fam= gold=x]]", &[]);
        check(
            "[[sim item=a fam=K00 gold=cu\n[[sim item=b fam=K01 gold=y]]",
            &[("b", "K01", "y")],
        );
        check(
            "[[sim item=a fam=K00 gold=a ] b]]",
            &[("a", "K00", "a ] b")],
        );
    }

    #[test]
    fn the_last_whole_tag_is_the_task() {
        let text = "[[sim item=a fam=K00 gold=x]] [[sim item=b fam=K01 gold=y]] [[sim item=c";
        assert_eq!(last_item(text).map(|i| i.id), Some("b"));
    }

    #[test]
    fn a_question_tells_its_item() {
        let item = Item {
            id: "val-00001",
            family: "K03",
            gold: "calm otter 1234",
        };
        assert_eq!(items_of(&item.question()), [item]);
    }

    #[test]
    fn families_are_drawn_by_weight() {
        let n = 100_000;
        let share = |k| {
            (0..n)
                .filter(|i| family_at(f64::from(*i) / f64::from(n)) == k)
                .count()
        };
        assert_eq!(share(0) / 1000, 22);
        assert_eq!(share(11) / 100, 35);
        assert_eq!(family_at(0.999_999_999_999_999_9), 11);
    }

    #[test]
    fn frequent_families_come_first() {
        let text = "[[sim item=a fam=K02 gold=x]][[sim item=b fam=K01 gold=x]]\
                    [[sim item=c fam=K02 gold=x]][[sim item=d fam=K00 gold=x]]";
        assert_eq!(
            family_counts(&items_of(text)),
            [("K02", 2), ("K00", 1), ("K01", 1)]
        );
    }
}
