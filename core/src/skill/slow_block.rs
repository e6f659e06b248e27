//! The slow-update block: guidance the optimizer writes at the end of an epoch.
//!
//! Source: training spec, 3.4 with D11.

use super::front_matter;
use super::regions::{SLOW_UPDATE, blocks, collapse_blank_lines, without_blocks, without_markers};
use crate::text;

/// Returns whether the document has a slow-update block: both its markers occur.
#[must_use]
pub fn is_present(skill: &str) -> bool {
    skill.contains(SLOW_UPDATE.start) && skill.contains(SLOW_UPDATE.end)
}

/// Returns the trimmed guidance of the first block, empty if there is none.
#[must_use]
pub fn guidance(skill: &str) -> &str {
    blocks(skill, SLOW_UPDATE)
        .into_iter()
        .next()
        .and_then(|block| skill.get(block))
        .and_then(|block| block.strip_prefix(SLOW_UPDATE.start))
        .and_then(|block| block.strip_suffix(SLOW_UPDATE.end))
        .map_or("", text::trim)
}

/// Adds an empty block at the end, unless the document has one.
#[must_use]
pub fn inject_empty(skill: &str) -> String {
    if is_present(skill) {
        return skill.to_owned();
    }
    let (front, body) = front_matter::split(skill);
    front_matter::join(front, &with_block(body, ""))
}

/// Replaces all blocks by one at the end of the document with `guidance` in it.
#[must_use]
pub fn replace(skill: &str, guidance: &str) -> String {
    let (front, body) = front_matter::split(skill);
    let body = collapse_blank_lines(&without_blocks(body, SLOW_UPDATE));
    let guidance = without_markers(guidance);
    front_matter::join(front, &with_block(&body, text::trim(&guidance)))
}

fn with_block(body: &str, guidance: &str) -> String {
    let body = text::trim_end(body);
    let line_end = if guidance.is_empty() { "" } else { "\n" };
    let (start, end) = (SLOW_UPDATE.start, SLOW_UPDATE.end);
    format!("{body}\n\n{start}\n{guidance}{line_end}{end}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_leaves_the_front_matter_as_it_is() {
        let skill = "---\nname: a\n\n\n\nx: y\n---\n# A\n\n\n\n- b\n";
        assert_eq!(
            replace(skill, " new "),
            "---\nname: a\n\n\n\nx: y\n---\n# A\n\n- b\n\n<!-- SLOW_UPDATE_START -->\nnew\n<!-- SLOW_UPDATE_END -->\n"
        );
    }

    #[test]
    fn the_guidance_written_is_the_guidance_read() {
        for guide in ["", "x", "- a\n\n- b"] {
            let skill = replace("# A\n", guide);
            assert_eq!(guidance(&skill), guide);
            assert_eq!(replace(&skill, guide), skill);
        }
    }

    #[test]
    fn a_stray_end_marker_hides_no_guidance() {
        let skill =
            "<!-- SLOW_UPDATE_END -->\n<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->";
        assert_eq!(guidance(skill), "g");
    }
}
