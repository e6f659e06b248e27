//! Protected regions and their markers.
//!
//! Source: training spec, 3.1 with D9.

use std::ops::Range;

use super::front_matter;

/// The two comments around a protected block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Markers {
    /// First line of the block.
    pub start: &'static str,
    /// Last line of the block.
    pub end: &'static str,
}

/// Markers of the slow-update block.
pub const SLOW_UPDATE: Markers = Markers {
    start: "<!-- SLOW_UPDATE_START -->",
    end: "<!-- SLOW_UPDATE_END -->",
};

/// Markers of the appendix block.
pub const APPENDIX: Markers = Markers {
    start: "<!-- APPENDIX_START -->",
    end: "<!-- APPENDIX_END -->",
};

/// Both kinds of block.
pub const KINDS: [Markers; 2] = [SLOW_UPDATE, APPENDIX];

/// Returns the byte ranges of all blocks of one kind, markers included: each start marker up to
/// the first end marker after it (D9).
#[must_use]
pub fn blocks(skill: &str, kind: Markers) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = find(skill, kind.start, from) {
        let Some(end) = find(skill, kind.end, start + kind.start.len()) else {
            break;
        };
        from = end + kind.end.len();
        found.push(start..from);
    }
    found
}

/// Returns the byte ranges of everything protected, front matter and blocks of both kinds: in
/// order, none touching the inside of another.
#[must_use]
pub fn protected(skill: &str) -> Vec<Range<usize>> {
    let front = front_matter::split(skill).0.len();
    let mut all = blocks_of_all_kinds(skill);
    if front > 0 {
        all.insert(0, 0..front);
    }
    merged(all)
}

/// Returns the byte ranges of the blocks of both kinds, in order. In a damaged document blocks may
/// overlap; such blocks count as one.
#[must_use]
pub fn blocks_of_all_kinds(skill: &str) -> Vec<Range<usize>> {
    merged(KINDS.iter().flat_map(|kind| blocks(skill, *kind)).collect())
}

fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    ranges.dedup_by(|next, kept| {
        let overlap = next.start < kept.end;
        if overlap {
            kept.end = kept.end.max(next.end);
        }
        overlap
    });
    ranges
}

/// Returns the position of the earliest start marker at or after `from`, whether or not its block
/// is closed.
#[must_use]
pub fn first_start(skill: &str, from: usize) -> Option<usize> {
    KINDS
        .iter()
        .filter_map(|kind| find(skill, kind.start, from))
        .min()
}

/// Removes every marker string. Removing one may bring the halves of another together, so this
/// repeats until none is left.
#[must_use]
pub fn without_markers(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(marker) = all_markers().find(|marker| text.contains(*marker)) {
        text = text.replace(marker, "");
    }
    text
}

/// Removes all blocks of one kind and the markers of it that are left over.
#[must_use]
pub fn without_blocks(body: &str, kind: Markers) -> String {
    let mut body = body.to_owned();
    while body.contains(kind.start) || body.contains(kind.end) {
        let mut kept = String::with_capacity(body.len());
        let mut from = 0;
        for block in blocks(&body, kind) {
            kept.push_str(&body[from..block.start]);
            from = block.end;
        }
        kept.push_str(&body[from..]);
        body = kept.replace(kind.start, "").replace(kind.end, "");
    }
    body
}

/// Returns how often each marker occurs, in the order of [`KINDS`], start before end.
#[must_use]
pub fn marker_counts(skill: &str) -> [usize; 4] {
    let mut counts = [0; 4];
    for (count, marker) in counts.iter_mut().zip(all_markers()) {
        *count = skill.matches(marker).count();
    }
    counts
}

/// Cuts every run of three or more line feeds down to two.
#[must_use]
pub(super) fn collapse_blank_lines(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut run = 0;
    for c in body.chars() {
        run = if c == '\n' { run + 1 } else { 0 };
        if run <= 2 {
            out.push(c);
        }
    }
    out
}

fn all_markers() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|kind| [kind.start, kind.end])
}

fn find(skill: &str, needle: &str, from: usize) -> Option<usize> {
    skill.get(from..)?.find(needle).map(|at| at + from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_is_paired_with_the_first_end_after_it() {
        let (s, e) = (SLOW_UPDATE.start, SLOW_UPDATE.end);
        let cases = [
            (format!("a{s}x{e}b"), vec![format!("{s}x{e}")]),
            (format!("{e}{s}x{e}"), vec![format!("{s}x{e}")]),
            (
                format!("{s}1{e}-{s}2{e}-{s}3"),
                vec![format!("{s}1{e}"), format!("{s}2{e}")],
            ),
            (format!("{s}{s}x{e}{e}"), vec![format!("{s}{s}x{e}")]),
            (format!("{s} only"), vec![]),
        ];
        for (skill, want) in cases {
            let got: Vec<&str> = blocks(&skill, SLOW_UPDATE)
                .into_iter()
                .map(|r| &skill[r])
                .collect();
            assert_eq!(got, want, "{skill}");
        }
    }

    #[test]
    fn markers_hidden_in_each_other_are_removed() {
        let nested = "a<!-- SLOW_UPDATE_<!-- APPENDIX_END -->START -->b";
        assert_eq!(without_markers(nested), "ab");
        let spliced = "<!-- SLOW_<!-- SLOW_UPDATE_START -->x<!-- SLOW_UPDATE_END -->UPDATE_END -->";
        assert_eq!(without_blocks(spliced, SLOW_UPDATE), "");
    }
}
