//! The YAML block at the start of a `SKILL.md`: a protected region.
//!
//! Harnesses find a skill by the name and description in it, so training never changes a byte of
//! it.

use crate::text;

/// Splits a document into its front matter (with the line end of its closing line; empty if there
/// is none) and its body.
///
/// Front matter is a first line `---`, then a mapping, then a line `---`. A thematic break at the
/// start of an ordinary document is not front matter: the first line of the block that is neither
/// blank nor a comment must look like `key:`.
#[must_use]
pub fn split(skill: &str) -> (&str, &str) {
    skill.split_at(end(skill).unwrap_or(0))
}

/// Joins what [`split`] took apart. A front matter at the very end of a file has no line end; a
/// body put behind it starts on a line of its own. A new body without front matter never becomes
/// one: if it starts like one, a line feed goes before it.
#[must_use]
pub fn join(front: &str, body: &str) -> String {
    let needs_line_end = if front.is_empty() {
        end(body).is_some()
    } else {
        !front.ends_with('\n') && !body.is_empty()
    };
    let separator = if needs_line_end { "\n" } else { "" };
    format!("{front}{separator}{body}")
}

/// Returns where the front matter ends.
fn end(skill: &str) -> Option<usize> {
    let start = skill.strip_prefix('\u{feff}').unwrap_or(skill);
    let mut at = skill.len() - start.len();
    let mut lines = start.split_inclusive('\n');
    let first = lines.next()?;
    if !is_fence(first) {
        return None;
    }
    at += first.len();
    let mut seen_key = false;
    for line in lines {
        at += line.len();
        if is_fence(line) {
            return Some(at);
        }
        if !seen_key && !text::is_blank(line) && !line.starts_with('#') {
            if !starts_with_key(line) {
                return None;
            }
            seen_key = true;
        }
    }
    None
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches(['\n', '\r', ' ', '\t']) == "---"
}

fn starts_with_key(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, rest)| {
        let key = key.trim_matches(['"', '\'']);
        !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
            && (rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(skill: &str, front: &str) {
        let (found, body) = split(skill);
        assert_eq!(found, front);
        assert_eq!(join(found, body), skill);
    }

    #[test]
    fn front_matter_is_found_at_the_start_only() {
        check("# A\n", "");
        check("", "");
        check("---\nname: a\n---\n# A\n", "---\nname: a\n---\n");
        check(
            "---\r\nname: a\r\n---\r\n# A\r\n",
            "---\r\nname: a\r\n---\r\n",
        );
        check("---\n# note\n\nname: a\n---", "---\n# note\n\nname: a\n---");
        check(
            "\u{feff}---\nname: a\n---\nx",
            "\u{feff}---\nname: a\n---\n",
        );
        check("---\n---\nx", "---\n---\n");
        check("\n---\nname: a\n---\n", "");
        check("---\nname: a\n", "");
    }

    #[test]
    fn a_thematic_break_is_no_front_matter() {
        check("---\nSome prose.\n---\n# A\n", "");
        check("---\nSee http://x\n---\n", "");
    }
}
