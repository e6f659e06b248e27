//! What an edit changed, as a diff in colour.

use similar::{ChangeTag, TextDiff};

use super::{Paint, Tone};

/// Lines around a change.
const CONTEXT: usize = 2;

/// Returns the changed places of a text; empty if nothing changed. Colour never stands alone: each
/// line begins with `+`, `-` or a blank.
pub(crate) fn diff(old: &str, new: &str, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let diff = TextDiff::from_lines(old, new);
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.push(paint.of(Tone::Name, hunk.header().to_string().trim_end()));
        for change in hunk.iter_changes() {
            let text = safe(change.value().trim_end_matches(['\n', '\r']));
            lines.push(match change.tag() {
                ChangeTag::Equal => format!(" {text}").trim_end().to_owned(),
                ChangeTag::Insert => paint.of(Tone::Good, &format!("+{text}")),
                ChangeTag::Delete => paint.of(Tone::Bad, &format!("-{text}")),
            });
        }
    }
    lines
}

/// Shows control characters as text: a model wrote this, and a terminal would obey it.
fn safe(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c {
            '\t' => vec![' ', ' ', ' ', ' '],
            c if c.is_control() => c.escape_default().collect(),
            c => vec![c],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_marked_and_harmless() {
        let seen = diff("a\nb\nc\n", "a\n\x1b[2Jx\nc\n", Paint(false));
        assert_eq!(seen, ["@@ -1,3 +1,3 @@", " a", "-b", "+\\u{1b}[2Jx", " c"]);
        assert!(diff("same\n", "same\n", Paint(true)).is_empty());
        assert!(diff("a\n", "b\n", Paint(true))[2].starts_with("\x1b[32m+b"));
    }
}
