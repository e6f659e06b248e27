//! Schema-bound mode: strict schemas, and flat answers that become ordinary patches.

use super::*;

fn is_strict(schema: &Value) -> bool {
    match schema["type"].as_str() {
        Some("object") => {
            let names: Vec<&String> = schema["properties"]
                .as_object()
                .map(|p| p.keys().collect())
                .unwrap_or_default();
            let required: Vec<&str> = schema["required"]
                .as_array()
                .map(|r| r.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            schema["additionalProperties"] == false
                && names == required
                && schema["properties"]
                    .as_object()
                    .is_some_and(|p| !p.is_empty() && p.values().all(is_strict))
        }
        Some("array") => is_strict(&schema["items"]),
        Some("string" | "integer") => true,
        _ => false,
    }
}

#[test]
fn every_call_carries_a_strict_schema_and_a_short_system_text() {
    for (stage, mode, prompt) in all_prompts(AnswerMode::SchemaBound) {
        let schema = prompt.schema.expect(&stage);
        assert!(
            is_strict(&schema.schema),
            "{stage} {mode}: {}",
            schema.schema
        );
        assert!(
            prompt.system.len() < 1_500,
            "{stage} {mode}: {}",
            prompt.system.len()
        );
        for name in schema.schema["properties"]
            .as_object()
            .expect("an object")
            .keys()
        {
            assert!(
                prompt.system.contains(name.as_str()),
                "{stage} {mode} does not explain `{name}`"
            );
        }
    }
}

#[track_caller]
fn check_edit(flat: Value, want: Value) {
    let shown = trajectories();
    let input = analyst_input(
        rules(Side::Failure, UpdateMode::Patch, AnswerMode::SchemaBound),
        &shown,
    );
    let raw = analyst::parse(Some(&flat.to_string()), &input);
    let edits = raw.map_or(Value::Null, |raw| raw["patch"]["edits"].clone());
    assert_eq!(edits, want);
}

#[test]
fn a_flat_answer_becomes_one_edit() {
    check_edit(
        json!({"pattern": "p", "op": "append", "target": "", "content": "- new\n"}),
        json!([{"op": "append", "content": "- new"}]),
    );
    check_edit(
        json!({"pattern": "p", "op": "replace", "target": " \"- first rule\" ", "content": "- b"}),
        json!([{"op": "replace", "target": "- first rule", "content": "- b"}]),
    );
    check_edit(
        json!({"pattern": "p", "op": "delete", "target": "- first rule", "content": ""}),
        json!([{"op": "delete", "target": "- first rule"}]),
    );
    check_edit(
        json!({"pattern": "p", "rule": "- new"}),
        json!([{"op": "append", "content": "- new"}]),
    );
}

#[test]
fn what_cannot_apply_is_repaired_or_dropped() {
    // A target that is not there: the rule is still worth having, a deletion is not.
    check_edit(
        json!({"pattern": "p", "op": "replace", "target": "nowhere", "content": "- b"}),
        json!([{"op": "append", "content": "- b"}]),
    );
    check_edit(
        json!({"pattern": "p", "op": "delete", "target": "nowhere"}),
        json!([]),
    );
    // What the skill says already.
    check_edit(
        json!({"pattern": "p", "op": "append", "target": "", "content": "* first rule"}),
        json!([]),
    );
    check_edit(
        json!({"pattern": "p", "op": "append", "target": "", "content": " "}),
        json!([]),
    );
    check_edit(json!({"thought": "none"}), Value::Null);
}

#[test]
fn a_rule_needs_evidence_that_was_shown() {
    let kept = json!([{"op": "append", "content": "- b"}]);
    for (wrong, right, want) in [
        ("", "", &kept),
        ("What?", "elsewhere", &kept),
        ("elsewhere", "a", &kept),
        ("What?", "What?", &json!([])),
        ("5 kilometres", "5 km", &json!([])),
    ] {
        check_edit(
            json!({"wrong": wrong, "right": right, "content": "- b", "op": "append"}),
            want.clone(),
        );
    }
}

#[test]
fn an_ordinary_answer_is_understood_too() {
    check_edit(
        json!({"patch": {"edits": [{"op": "append", "content": "- new"}]}}),
        json!([{"op": "append", "content": "- new"}]),
    );
}

#[track_caller]
fn check_merge(answer: Value, want: Value) {
    let patch = |items: Value| {
        from_items(
            "",
            items.as_array().cloned().unwrap_or_default(),
            UpdateMode::Patch,
        )
    };
    let patches = [
        patch(json!([{"op": "append", "content": "- Look twice.", "support_count": 2}])),
        patch(json!([
            {"op": "append", "content": "- look twice", "support_count": 3},
            {"op": "delete", "target": "- first rule", "content": ""},
        ])),
    ];
    let input = merge::Input {
        side: Side::Failure,
        mode: UpdateMode::Patch,
        answers: AnswerMode::SchemaBound,
        skill: SKILL,
        meta_skill: "",
        patches: &patches,
        level: 1,
    };
    let merged = merge::parse(Some(&answer.to_string()), &input);
    assert_eq!(merged.patch["edits"], want);
}

#[test]
fn merged_texts_keep_their_items_and_support() {
    let deletion =
        json!({"op": "delete", "target": "- first rule", "content": "", "merge_level": 1});
    check_merge(
        json!({"texts": ["- look twice", "Look twice!"]}),
        json!([
            {"op": "append", "content": "- Look twice.", "support_count": 5, "merge_level": 1},
            deletion,
        ]),
    );
    check_merge(
        json!({"texts": ["- Read slowly."]}),
        json!([
            {"op": "append", "content": "- Look twice.", "support_count": 5, "merge_level": 1},
            deletion,
        ]),
    );
}
