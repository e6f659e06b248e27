use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::skill::test_documents::document;

const SLOW: &str = "<!-- SLOW_UPDATE_START -->\nG\n<!-- SLOW_UPDATE_END -->";
const FRONT: &str = "---\nname: a\ndescription: b\n---\n";

#[track_caller]
fn check(skill: &str, (op, target, content): (&str, &str, &str), want: &str, status: Status) {
    let edit = json!({"op": op, "target": target, "content": content});
    let (got, report) = apply_edit(skill, &edit);
    assert_eq!((got.as_str(), report.status), (want, status));
}

#[test]
fn front_matter_is_protected() {
    let skill = format!("{FRONT}# A\n- a\n");
    for target in ["name: a", "b\n---\n# A", "---"] {
        for op in ["replace", "delete", "insert_after", "append"] {
            check(
                &skill,
                (op, target, "x"),
                &skill,
                Status::SkippedProtectedRegion,
            );
        }
    }
    // The first occurrence counts, even if a later one is free.
    check(
        &skill,
        ("replace", "a", "x"),
        &skill,
        Status::SkippedProtectedRegion,
    );
}

#[test]
fn content_goes_behind_the_front_matter() {
    check(
        FRONT,
        ("append", "", "x"),
        &format!("{FRONT}x\n"),
        Status::AppliedAppend,
    );
    let open = FRONT.trim_end();
    check(
        open,
        ("append", "", "x"),
        &format!("{FRONT}x\n"),
        Status::AppliedAppend,
    );
    check(
        &format!("{FRONT}{SLOW}\n"),
        ("append", "", "x"),
        &format!("{FRONT}x\n\n{SLOW}\n"),
        Status::AppliedAppendBeforeProtectedRegion,
    );
}

#[test]
fn no_edit_makes_front_matter_or_markers() {
    let skill = "# A\n---\n";
    check(
        skill,
        ("replace", "# A", "---\nname: x"),
        skill,
        Status::SkippedProtectedRegion,
    );
    let halves = "<!-- SLOW_UPDATE_x_START -->";
    check(
        halves,
        ("delete", "x_", ""),
        halves,
        Status::SkippedProtectedRegion,
    );
    check(
        "# A\n",
        ("append", "", &format!("G{}", regions::SLOW_UPDATE.end)),
        "# A\n\nG\n",
        Status::AppliedAppend,
    );
}

#[test]
fn insertion_points_stay_outside_of_regions() {
    let skill = format!("a\n\n{SLOW}b {SLOW}\n");
    check(
        &skill,
        ("insert_after", "b", "x"),
        &format!("a\n\n{SLOW}b\n\nx\n\n{SLOW}\n"),
        Status::AppliedInsertAfterFallbackBeforeProtectedRegion,
    );
    let touching = format!("{SLOW}\n\n{SLOW}\n");
    check(
        &touching,
        ("insert_after", "\n\n<!--", "x"),
        &format!("{SLOW}\n\nx\n\n{SLOW}\n"),
        Status::AppliedInsertAfterFallbackBeforeProtectedRegion,
    );
    check(
        "a\nb\n",
        ("insert_after", "a\n", "x"),
        "a\n\nx\nb\n",
        Status::AppliedInsertAfter,
    );
}

#[test]
fn reports_of_errors_say_why() {
    let (_, report) = apply_edit("a", &json!({"op": "append", "content": 5}));
    assert_eq!(
        report.error.as_deref(),
        Some("`content` of an edit must be text, this one is a number")
    );
}

/// An edit whose target is often a part of the document.
fn edit_of(skill: String) -> impl Strategy<Value = (String, Value)> {
    let op = prop::sample::select(vec!["append", "insert_after", "replace", "delete", "other"]);
    let places = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (op, places, document(), any::<bool>()).prop_map(move |(op, (a, b), content, own)| {
        let bounds: Vec<usize> = skill
            .char_indices()
            .map(|(i, _)| i)
            .chain([skill.len()])
            .collect();
        let (a, b) = (bounds[a.index(bounds.len())], bounds[b.index(bounds.len())]);
        let target = if own {
            &skill[a.min(b)..a.max(b)]
        } else {
            content.as_str()
        };
        (
            skill.clone(),
            json!({"op": op, "target": target, "content": content}),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edits_leave_protected_regions_alone((skill, edit) in document().prop_flat_map(edit_of)) {
        let (after, report) = apply_edit(&skill, &edit);
        let parts = |skill: &str| -> Vec<String> {
            regions::protected(skill)
                .into_iter()
                .map(|r| skill[r].trim_end_matches('\n').to_owned())
                .collect()
        };
        prop_assert_eq!(parts(&skill), parts(&after));
        prop_assert!(report.status.is_applied() || after == skill);
        let counts = regions::marker_counts(&skill).into_iter().zip(regions::marker_counts(&after));
        for (before, after) in counts {
            prop_assert!(after <= before);
        }
    }

    #[test]
    fn no_json_makes_a_patch_panic(skill in document(), op in ".*", target in ".*", n in any::<i64>()) {
        let edits = [
            json!({"op": op, "target": target}),
            json!({"op": n, "content": target}),
            json!({"op": "append", "content": [n]}),
            json!([n]),
            json!(target),
            Value::Null,
        ];
        let (_, reports) = apply_patch(&skill, &edits);
        prop_assert_eq!(reports.len(), edits.len());
    }
}
