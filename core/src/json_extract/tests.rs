use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn check(text: &str, want: Value) {
    assert_eq!(json!(object(text)), want, "{text}");
}

#[track_caller]
fn check_array(text: &str, want: Value) {
    assert_eq!(json!(array(text)), want, "{text}");
}

#[test]
fn the_object_is_found_in_fences_and_prose() {
    check("```json\n{\"a\": 1}\n``` or {\"a\": 2}", json!({"a": 1}));
    check("````json\n{\"a\": 1}\n```` or {\"b\": 2}", json!(null));
    check("```json\n[1]\n``` no: {\"a\": 1}", json!({"a": 1}));
    check("{x} then {\"a\": {}} :-}", json!({"a": {}}));
    check("<think>{\"a\": 0}</think>{\"a\": 1}", json!({"a": 1}));
    check("<think>{\"a\": 0}", json!(null));
}

#[test]
fn between_two_objects_nothing_is_guessed() {
    check("{\"a\": 1} or {\"b\": 2}", json!(null));
    check("{\"a\": 1,} or {\"b\": 2,}", json!(null));
    // The answer was cut off: its parts are not the answer.
    check("{\"edits\": [{\"op\": \"append\"}], \"x\": ", json!(null));
    check("{\"a\": {\"b\": 1}, \"c\": \"cut {x} off", json!(null));
    check_array("[1, [2], 3", json!(null));
}

#[test]
fn stray_quotes_hide_nothing() {
    check("A 5\" pipe: {\"a\": 1,}", json!({"a": 1}));
    check_array("a 5\" pipe [\"x\", \"y\"]", json!(["x", "y"]));
    check_array("5\" pipe [1, 2] and \"more\"", json!([1, 2]));
    check_array("said \"use [1]\" for a 5\" pipe [1, 2]", json!([1, 2]));
    check_array("\"[1]\" is quoted", json!(null));
    // Two readings, two values.
    check_array("5\" [\"x [1] y\"]", json!(null));
}

#[test]
fn arrays_inside_of_objects_do_not_count() {
    check_array("{\"a\": [1]} [2]", json!([2]));
    check_array("a set { then [1]", json!([1]));
    check_array("{\"a\": [1]", json!(null));
    check_array("[1,] [2] ]", json!([2]));
}

#[test]
fn common_mistakes_are_repaired() {
    check("{\"a\": [1, 2,], \"b\": 3,}", json!({"a": [1, 2], "b": 3}));
    check(
        "{\"a\": \"x\"\n\"b\": \"y\" \"c\": [1 2 \"z\"]}",
        json!({"a": "x", "b": "y", "c": [1, 2, "z"]}),
    );
    check(
        "{\"a\": \"line\nline\ttab\", \"b\": True}",
        json!({"a": "line\nline\ttab", "b": true}),
    );
    check(
        "{\"a\": \"use the \"exact\" span, \"so\" there\", \"b\": None}",
        json!({"a": "use the \"exact\" span, \"so\" there", "b": null}),
    );
    check(
        "{\"a\": \"使用\"精确\"的跨度\", \"b\": [\"说\"好\"\", \"x\"]}",
        json!({"a": "使用\"精确\"的跨度", "b": ["说\"好\"", "x"]}),
    );
    check(
        "{\"a\": \"see \"{x}\" and {\"y\"} now\", \"b\": 1}",
        json!({"a": "see \"{x}\" and {\"y\"} now", "b": 1}),
    );
    check(
        "{\"a\": \"\\alpha \\u00e9 \\ud83c\\udf73 \\ud800 \\uzz\",}",
        json!({"a": "\\alpha é 🍳 \u{fffd} \\uzz"}),
    );
    check(
        "{\"a\": 1, // one\n /* two */ \"b\": 'it's'}",
        json!({"a": 1, "b": "it's"}),
    );
    check("{\"a\": [{\"b\": 1}}", json!({"a": [{"b": 1}]}));
    check(
        "{\"a\": , \"b\": +1, \"c\": 1e999, \"d\": NaN}",
        json!({"a": null, "b": 1, "c": null, "d": null}),
    );
}

#[test]
fn prose_is_not_repaired() {
    for text in [
        "{a: 1}",
        "{'a': 1}",
        "{{ name }}",
        "{1, 2}",
        "{,}",
        "{\"a\"}",
        "{\"a\": word}",
    ] {
        check(text, json!(null));
    }
}

#[test]
fn huge_nonsense_takes_linear_time() {
    const LEN: usize = 1 << 18;
    let pieces = [
        "{",
        "[",
        "{\"a\":",
        "[{",
        "\"",
        "{\"",
        "\\\"",
        "{\"a\": \"x\", ",
        "} ",
        "]",
        "{}",
        "[1]",
        "```json",
        "{\"a\": \" \" ",
        "\", \"",
        "/*",
        "{\"a\": /*",
        "<think>",
        "{\"a\": [\"\n\"",
    ];
    for piece in pieces {
        let many = piece.repeat(LEN / piece.len());
        for text in [
            many.clone(),
            format!("{{\"a\": \"{many}\"}}"),
            format!("{{\"a\": [{many}],}}"),
        ] {
            let _ = (object(&text), array(&text));
        }
    }
    let deep = format!("{{\"a\": {}{},}}", "[".repeat(100_000), "]".repeat(100_000));
    check(&deep, json!(null));
    let spaced = format!(
        "{{\"a\": \"{}\",}}",
        format!("\"{}", " ".repeat(1000)).repeat(1000)
    );
    let _ = object(&spaced);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_object_survives_its_surroundings(key in "[a-z]{1,5}", value in ".*", n in any::<i64>()) {
        let want = json!({key: value, "n": [n, {}]});
        let text = format!("Sure! {want} Done.");
        prop_assert_eq!(json!(object(&text)), json!(object(&format!("```json\n{want:#}\n```"))));
        prop_assert_eq!(json!(object(&text)), want);
    }

    #[test]
    fn no_text_makes_it_panic(text in "([{}\\[\\]\",:\\\\/'a1 é\n]|\\\\u[0-9d]{4}|```json){0,60}") {
        let _ = (object(&text), array(&text));
        let _ = object(&format!("{{\"a\": {text}}}"));
        let _ = object(&format!("{{\"a\": \"{text}\",}}"));
    }
}
