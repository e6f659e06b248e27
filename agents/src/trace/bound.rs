//! How much of a run is shown: its beginning, its end, and what failed in between.

use serde_json::{Value, json};

use super::entry::{Entry, FRAME};

/// Most characters of a trace as it is shown, about 4,000 tokens: an analyst reads several at once.
pub(super) const TRACE_MAX: usize = 16_000;
/// Most entries of a trace, the notes not counted.
const ENTRIES_MAX: usize = 60;
/// Of both, what failures may take.
const FOR_FAILURES: Room = Room {
    chars: TRACE_MAX * 3 / 8,
    entries: ENTRIES_MAX / 4,
};
/// What a note takes at most.
const NOTE: usize = FRAME + 80;

/// What there is room for.
#[derive(Clone, Copy, Debug)]
struct Room {
    chars: usize,
    entries: usize,
}

impl Room {
    /// Takes room for one entry, if there is some.
    fn take(&mut self, chars: usize) -> bool {
        let is_there = self.entries > 0 && self.chars >= chars;
        if is_there {
            self.entries -= 1;
            self.chars -= chars;
        }
        is_there
    }

    fn without(self, used: Self) -> Self {
        Self {
            chars: self.chars.saturating_sub(used.chars),
            entries: self.entries.saturating_sub(used.entries),
        }
    }

    fn half(self) -> Self {
        Self {
            chars: self.chars / 2,
            entries: self.entries / 2,
        }
    }
}

/// Leaves out what there is no room for, with a note in each place that tells how much.
pub(crate) fn bounded(entries: Vec<Entry>) -> Vec<Value> {
    let kept = kept(&entries);
    let mut shown = Vec::new();
    let mut gap = Gap::default();
    for (entry, is_kept) in entries.into_iter().zip(kept) {
        if is_kept {
            shown.extend(gap.take());
            shown.push(entry.value);
        } else {
            gap.add(&entry);
        }
    }
    shown.extend(gap.take());
    shown
}

/// Says of each entry whether it is kept.
fn kept(entries: &[Entry]) -> Vec<bool> {
    let chars: usize = entries.iter().map(|entry| entry.chars).sum();
    if entries.len() <= ENTRIES_MAX && chars <= TRACE_MAX {
        return vec![true; entries.len()];
    }
    let mut kept = vec![false; entries.len()];
    // The last failures are those that the end came from; each may stand between two gaps.
    let mut left = FOR_FAILURES;
    for (at, entry) in entries.iter().enumerate().rev() {
        kept[at] = entry.is_failure && left.take(entry.chars + NOTE);
    }
    let all = Room {
        chars: TRACE_MAX - NOTE,
        entries: ENTRIES_MAX,
    };
    let left = all.without(FOR_FAILURES.without(left));
    let mut for_head = left.half();
    let before = for_head;
    keep(entries.iter().enumerate(), &mut for_head, &mut kept);
    let mut for_tail = left.without(before.without(for_head));
    keep(entries.iter().enumerate().rev(), &mut for_tail, &mut kept);
    kept
}

/// Keeps entries from one side on until there is no more room.
fn keep<'a>(
    mut entries: impl Iterator<Item = (usize, &'a Entry)>,
    room: &mut Room,
    kept: &mut [bool],
) {
    // What is kept already has its room.
    _ = entries.try_for_each(|(at, entry)| {
        kept[at] = kept[at] || room.take(entry.chars);
        kept[at].then_some(())
    });
}

/// What is left out in one place.
#[derive(Default)]
struct Gap {
    entries: usize,
    chars: usize,
}

impl Gap {
    fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        self.chars += entry.chars;
    }

    /// Returns the note of a place where something is left out.
    fn take(&mut self) -> Option<Value> {
        let Self { entries, chars } = std::mem::take(self);
        (entries > 0).then(|| {
            let words = format!("{entries} entries of {chars} characters are left out here");
            json!({"type": "note", "role": "note", "content": words})
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(n: usize, chars: usize) -> Entry {
        Entry::message(&format!("{n} {}", "é".repeat(chars)))
    }

    fn failed(n: usize, chars: usize) -> Entry {
        Entry::call("bash", &format!("fails {n}"), &"ß".repeat(chars), true)
    }

    /// Characters of a trace as it is shown.
    fn size(shown: &[Value]) -> usize {
        let texts = |entry: &Value| -> usize {
            let texts = ["content", "tool", "cmd", "obs"].map(|key| entry[key].as_str());
            texts
                .into_iter()
                .flatten()
                .map(|text| text.chars().count())
                .sum()
        };
        shown.iter().map(|entry| FRAME + texts(entry)).sum()
    }

    fn notes(shown: &[Value]) -> Vec<&str> {
        let notes = shown.iter().filter(|entry| entry["type"] == "note");
        notes
            .map(|note| note["content"].as_str().unwrap())
            .collect()
    }

    fn begins(entry: &Value, with: &str) -> bool {
        let text = entry["content"].as_str().or(entry["cmd"].as_str());
        text.unwrap().starts_with(with)
    }

    #[test]
    fn a_short_run_is_shown_whole() {
        let entries: Vec<Entry> = (0..ENTRIES_MAX).map(|n| said(n, 100)).collect();
        let shown = bounded(entries.clone());
        let whole: Vec<Value> = entries.into_iter().map(|entry| entry.value).collect();
        assert_eq!(shown, whole);
        assert_eq!(bounded(Vec::new()), [Value::Null; 0]);
    }

    #[test]
    fn of_a_long_run_the_beginning_and_the_end_are_shown_and_how_much_lies_between() {
        for (count, chars) in [(61, 1), (200, 100), (30, 1_900), (5_000, 3)] {
            let shown = bounded((0..count).map(|n| said(n, chars)).collect());
            assert!(size(&shown) <= TRACE_MAX, "{count}: {}", size(&shown));
            assert!(shown.len() <= ENTRIES_MAX + 1, "{count}: {}", shown.len());
            let whole = size(&shown) + 2 * said(count, chars).chars + NOTE;
            let is_used = whole >= TRACE_MAX || shown.len() > ENTRIES_MAX - 2;
            assert!(is_used, "{count}: {} of {}", shown.len(), size(&shown));
            assert!(begins(&shown[0], "0 "), "{count}");
            assert!(
                begins(&shown[shown.len() - 1], &format!("{} ", count - 1)),
                "{count}"
            );
            let left_out = count - (shown.len() - 1);
            let notes = notes(&shown);
            assert_eq!(notes.len(), 1, "{count}: {notes:?}");
            let words = format!("{left_out} entries of ");
            assert!(notes[0].starts_with(&words), "{count}: {notes:?}");
        }
    }

    #[test]
    fn what_failed_in_the_midst_is_shown() {
        let entry = |n: usize| match n {
            40 | 70 => failed(n, 900),
            n => said(n, 900),
        };
        let shown = bounded((0..100).map(entry).collect());
        assert!(size(&shown) <= TRACE_MAX, "{}", size(&shown));
        for n in [40, 70] {
            let words = format!("fails {n}");
            assert!(shown.iter().any(|entry| begins(entry, &words)), "{n}");
        }
        assert_eq!(notes(&shown).len(), 3, "before, between and behind");
        assert!(begins(&shown[0], "0 ") && begins(&shown[shown.len() - 1], "99 "));
    }

    #[test]
    fn of_many_failures_the_last_are_shown_and_beginning_and_end_all_the_same() {
        for chars in [0, 300, 5_000] {
            let entry = |n: usize| match n {
                0 | 499 => said(n, 900),
                n => failed(n, chars),
            };
            let shown = bounded((0..500).map(entry).collect());
            assert!(size(&shown) <= TRACE_MAX, "{chars}: {}", size(&shown));
            assert!(shown.len() <= 2 * ENTRIES_MAX, "{chars}: {}", shown.len());
            assert!(begins(&shown[0], "0 "), "{chars}");
            let [.., before, last] = shown.as_slice() else {
                panic!("{chars}: {shown:?}");
            };
            assert!(
                begins(last, "499 ") && begins(before, "fails 498"),
                "{chars}"
            );
        }
    }

    #[test]
    fn the_same_run_is_shown_alike() {
        let run = || -> Vec<Entry> {
            let entry = |n: usize| match n % 7 {
                0 => failed(n, n * 13 % 1_500),
                _ => said(n, n * 31 % 2_500),
            };
            (0..300).map(entry).collect()
        };
        assert_eq!(bounded(run()), bounded(run()));
    }
}
