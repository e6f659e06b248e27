//! Whole new documents from a model: what they may not touch comes from the current skill.
//!
//! Source: training spec, 6.7 with D26.

use super::front_matter;
use super::regions::{KINDS, blocks_of_all_kinds, collapse_blank_lines, without_blocks};
use crate::text;

/// Returns the rewritten document with the protected parts of the current one: its front matter
/// and its blocks, byte for byte, the blocks in their order at the end. Front matter and blocks
/// that the rewrite brings along are dropped.
///
/// With nothing protected on either side the rewrite comes back unchanged.
#[must_use]
pub fn keep_protected(current: &str, rewritten: &str) -> String {
    let (front, current_body) = front_matter::split(current);
    let mut body = without_own_blocks(rewritten);
    // A second block behind a dropped one would become front matter itself.
    let mut own_front = false;
    while let (dropped, rest) = front_matter::split(&body)
        && !dropped.is_empty()
    {
        own_front = true;
        body = rest.to_owned();
    }
    if own_front || !front.is_empty() {
        body = body.trim_start_matches(['\n', '\r']).to_owned();
    }
    for block in blocks_of_all_kinds(current_body) {
        let before = text::trim_end(&body);
        let gap = if before.is_empty() { "" } else { "\n\n" };
        body = format!("{before}{gap}{}\n", &current_body[block]);
    }
    front_matter::join(front, &body)
}

/// Removes every block and marker; a document without any comes back unchanged.
fn without_own_blocks(document: &str) -> String {
    let marked = |body: &str| {
        KINDS
            .iter()
            .any(|kind| body.contains(kind.start) || body.contains(kind.end))
    };
    let mut body = document.to_owned();
    if !marked(&body) {
        return body;
    }
    // Removing a block of one kind may join the halves of a marker of the other.
    while marked(&body) {
        for kind in KINDS {
            body = without_blocks(&body, kind);
        }
    }
    format!("{}\n", text::trim_end(&collapse_blank_lines(&body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::test_documents::document;
    use crate::skill::{appendix, slow_block};
    use proptest::prelude::*;

    const SLOW: &str = "<!-- SLOW_UPDATE_START -->\nG\n<!-- SLOW_UPDATE_END -->";
    const NOTES: &str =
        "<!-- APPENDIX_START -->\n## Execution Notes Appendix\n- n\n<!-- APPENDIX_END -->";
    const FRONT: &str = "---\nname: a\n---\n";

    #[track_caller]
    fn check(current: &str, rewritten: &str, want: &str) {
        assert_eq!(keep_protected(current, rewritten), want);
    }

    #[test]
    fn an_unprotected_rewrite_is_taken_as_it_is() {
        check("# A\n", "\n# B  \n\n\n\n- x", "\n# B  \n\n\n\n- x");
    }

    #[test]
    fn protected_parts_come_from_the_current_skill() {
        check(
            &format!("{FRONT}# A\n\n{SLOW}\n\ntail\n\n{NOTES}\n"),
            "# B\n- x\n",
            &format!("{FRONT}# B\n- x\n\n{SLOW}\n\n{NOTES}\n"),
        );
        check(&format!("# A\n\n{SLOW}\n"), "", &format!("{SLOW}\n"));
    }

    #[test]
    fn the_rewrites_own_protected_parts_are_dropped() {
        let rewritten = format!(
            "---\nname: evil\n---\n\n# B\n\n{}\n\n- x\n",
            SLOW.replace('G', "H")
        );
        check("# A\n", &rewritten, "# B\n\n- x\n");
        check(
            &format!("{FRONT}# A\n\n{SLOW}\n"),
            &rewritten,
            &format!("{FRONT}# B\n\n- x\n\n{SLOW}\n"),
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_rewrite_changes_what_is_protected(current in document(), rewritten in document()) {
            let parts = |skill: &str| {
                let (front, body) = front_matter::split(skill);
                let blocks: Vec<String> = blocks_of_all_kinds(body)
                    .into_iter()
                    .map(|block| body[block].to_owned())
                    .collect();
                (front.trim_end_matches('\n').to_owned(), blocks)
            };
            let after = keep_protected(&current, &rewritten);
            prop_assert_eq!(parts(&after), parts(&current), "{}", after);
        }

        #[test]
        fn moving_blocks_leaves_the_front_matter_alone(skill in document(), text in document()) {
            let front = |skill: &str| front_matter::split(skill).0.trim_end_matches('\n').to_owned();
            let slow = slow_block::replace(&skill, &text);
            let notes = appendix::append(&skill, &[text]);
            for after in [&slow, &notes, &slow_block::inject_empty(&skill), &appendix::inject_empty(&skill)] {
                prop_assert_eq!(front(after), front(&skill), "{}", after);
            }
        }
    }
}
