//! The appendix block: short notes gathered by skill-aware reflection.
//!
//! Source: training spec, 3.5, 3.6 with D11.

use std::collections::BTreeSet;

use super::front_matter;
use super::regions::{APPENDIX, blocks, collapse_blank_lines, without_blocks, without_markers};
use crate::text;

/// Heading on the block's first inner line.
pub const HEADING: &str = "## Execution Notes Appendix";

/// Adds an empty block at the end, unless both its markers occur.
#[must_use]
pub fn inject_empty(skill: &str) -> String {
    if skill.contains(APPENDIX.start) && skill.contains(APPENDIX.end) {
        return skill.to_owned();
    }
    let (front, body) = front_matter::split(skill);
    front_matter::join(front, &with_block(body, &[]))
}

/// Returns the notes of the first block.
#[must_use]
pub fn notes(skill: &str) -> Vec<String> {
    let Some(block) = blocks(skill, APPENDIX).into_iter().next() else {
        return Vec::new();
    };
    skill[block]
        .trim_start_matches(APPENDIX.start)
        .trim_end_matches(APPENDIX.end)
        .split('\n')
        .map(text::trim)
        .filter(|line| !is_heading(line))
        .map(|line| {
            let note = line.strip_prefix("- ").or(line.strip_prefix(['-', '*']));
            text::trim(note.unwrap_or(line)).to_owned()
        })
        .filter(|note| !note.is_empty())
        .collect()
}

/// Adds notes to those of the document, without doubles, and moves the block to the end.
#[must_use]
pub fn append(skill: &str, new: &[String]) -> String {
    let mut all = notes(skill);
    all.extend_from_slice(new);
    replace(skill, &all)
}

/// Writes exactly `notes`, without doubles, into one block at the end of the document.
#[must_use]
pub fn replace(skill: &str, notes: &[String]) -> String {
    let (front, body) = front_matter::split(skill);
    let body = collapse_blank_lines(&without_blocks(body, APPENDIX));
    front_matter::join(front, &with_block(&body, &distinct(notes)))
}

/// Cleans notes and keeps the first of those that differ only in case, spacing or final
/// punctuation.
#[must_use]
pub fn distinct(notes: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    notes
        .iter()
        .map(|note| clean(note))
        .filter(|note| {
            let key = key(note);
            !key.is_empty() && seen.insert(key)
        })
        .collect()
}

fn is_heading(line: &str) -> bool {
    line.starts_with('#')
        && text::trim(line.trim_start_matches('#')) == HEADING.trim_start_matches(['#', ' '])
}

fn clean(note: &str) -> String {
    let note = without_markers(note);
    let words = note.split(text::is_blank_char).filter(|w| !w.is_empty());
    // Joining words with blanks could complete a marker that was broken by a line end.
    without_markers(&words.collect::<Vec<_>>().join(" "))
}

fn key(note: &str) -> String {
    text::fold_case(note.trim_end_matches([' ', '.', ';', ':', ',', '_', '-']))
}

fn with_block(body: &str, notes: &[String]) -> String {
    let mut out = text::trim_end(body).to_owned();
    out.push_str("\n\n");
    for line in [APPENDIX.start, HEADING] {
        out.push_str(line);
        out.push('\n');
    }
    for note in notes {
        out.push_str("- ");
        out.push_str(note);
        out.push('\n');
    }
    out.push_str(APPENDIX.end);
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(notes: &[&str]) -> Vec<String> {
        notes.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn doubles_are_told_by_words_alone() {
        let all = list(&[
            "Check units.",
            "check\n units",
            "STRASSE",
            "straße;",
            "...",
            "",
        ]);
        assert_eq!(distinct(&all), list(&["Check units.", "STRASSE"]));
    }

    #[test]
    fn appended_notes_are_read_back() {
        let front = "---\nname: a\n---\n";
        let skill = append(&format!("{front}# A\n"), &list(&["one", "- two"]));
        assert!(skill.starts_with(front));
        assert_eq!(notes(&skill), list(&["one", "- two"]));
        assert_eq!(append(&skill, &list(&["ONE"])), skill);
    }

    #[test]
    fn a_marker_broken_by_a_line_end_does_not_heal() {
        let skill = append("# A", &list(&["x <!--\nAPPENDIX_END\n--> y"]));
        assert_eq!(skill.matches(APPENDIX.end).count(), 1);
    }
}
