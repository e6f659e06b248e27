use serde_json::json;

use super::*;
use crate::relay::{Exchange, Said};

#[test]
fn calls_stand_with_what_they_gave_back() {
    let calls = Said {
        text: "I look".to_owned(),
        calls: vec![("bash".to_owned(), "{\"command\":\"ls\"}".to_owned())],
        ..Said::default()
    };
    let done = Said {
        text: "done".to_owned(),
        ..Said::default()
    };
    for last in [
        json!({"input": [{"type": "function_call_output", "output": "a.txt"}]}),
        json!({"messages": [{"role": "tool", "content": "a.txt"}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "a.txt"}]}]}]}),
    ] {
        let record = Record {
            exchanges: vec![
                Exchange::of(json!({}), calls.clone()),
                Exchange::of(last, done.clone()),
            ],
            ..Record::default()
        };
        let entries = entries(&record);
        assert_eq!(entries.len(), 2, "{entries:?}");
        assert_eq!(entries[0]["content"], "I look");
        assert_eq!(entries[1]["obs"], "a.txt");
    }
}

/// Two calls of one turn that come back the other way round.
#[test]
fn an_output_stands_with_its_own_call_in_whatever_order_it_came_back() {
    let both = Said {
        calls: vec![
            ("bash".to_owned(), "{\"command\":\"one\"}".to_owned()),
            ("bash".to_owned(), "{\"command\": \"two\"}".to_owned()),
        ],
        ..Said::default()
    };
    let (one, two) = (json!({"command": "one"}), json!({"command": "two"}));
    let function = |id: &str, arguments: &Value| json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments.to_string()}});
    for (what, later) in [
        (
            "Responses",
            json!({"input": [
                {"type": "function_call", "call_id": "a", "name": "bash", "arguments": one.to_string()},
                {"type": "function_call", "call_id": "b", "name": "bash", "arguments": two.to_string()},
                {"type": "function_call_output", "call_id": "b", "output": "of two"},
                {"type": "function_call_output", "call_id": "a", "output": "of one"},
            ]}),
        ),
        (
            "Chat Completions",
            json!({"messages": [
                {"role": "assistant", "tool_calls": [function("a", &one), function("b", &two)]},
                {"role": "tool", "tool_call_id": "b", "content": "of two"},
                {"role": "tool", "tool_call_id": "a", "content": "of one"},
            ]}),
        ),
        (
            "Messages",
            json!({"messages": [
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a", "name": "bash", "input": one},
                    {"type": "tool_use", "id": "b", "name": "bash", "input": two},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "b", "content": "of two"},
                    {"type": "tool_result", "tool_use_id": "a", "content": "of one"},
                ]},
            ]}),
        ),
        (
            "Gemini",
            json!({"contents": [
                {"role": "model", "parts": [
                    {"functionCall": {"id": "a", "name": "bash", "args": one}},
                    {"functionCall": {"id": "b", "name": "bash", "args": two}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "b", "name": "bash", "response": {"output": "of two"}}},
                    {"functionResponse": {"id": "a", "name": "bash", "response": {"output": "of one"}}},
                ]},
            ]}),
        ),
    ] {
        let dropped = json!({"messages": []});
        // A last request that no longer holds the beginning takes nothing away.
        for last in [later.clone(), dropped] {
            let record = Record {
                exchanges: vec![
                    Exchange::of(json!({}), both.clone()),
                    Exchange::of(later.clone(), Said::default()),
                    Exchange::of(last, Said::default()),
                ],
                ..Record::default()
            };
            let entries = entries(&record);
            assert_eq!(entries.len(), 2, "{what}: {entries:?}");
            for (entry, word) in entries.iter().zip(["one", "two"]) {
                let output = entry["obs"].as_str().unwrap();
                assert!(
                    output.contains(&format!("of {word}")),
                    "{what}: {entries:?}"
                );
            }
        }
    }
}

#[test]
fn a_call_that_never_came_back_takes_no_other_calls_output() {
    let said = |name: &str| Said {
        calls: vec![(name.to_owned(), "{}".to_owned())],
        ..Said::default()
    };
    let later = json!({"messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "l", "name": "lost", "input": {}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "k", "name": "kept", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "k", "content": "here"}]},
    ]});
    let record = Record {
        exchanges: vec![
            Exchange::of(json!({}), said("lost")),
            Exchange::of(json!({}), said("kept")),
            Exchange::of(later, Said::default()),
        ],
        ..Record::default()
    };
    let entries = entries(&record);
    assert_eq!(entries[0]["obs"], "");
    assert_eq!(entries[1]["obs"], "here");
}

/// The interfaces that say so by a field, and a program that says so by its code.
#[test]
fn a_call_that_failed_is_told_from_one_that_worked() {
    let call = |name: &str| (name.to_owned(), "{}".to_owned());
    let said = Said {
        calls: vec![call("one"), call("two")],
        ..Said::default()
    };
    let function = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    for later in [
        json!({"messages": [
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "one", "input": {}},
                {"type": "tool_use", "id": "b", "name": "two", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": true},
                {"type": "tool_result", "tool_use_id": "b", "content": "well", "is_error": false},
            ]},
        ]}),
        json!({"contents": [
            {"role": "model", "parts": [
                {"functionCall": {"id": "a", "name": "one", "args": {}}},
                {"functionCall": {"id": "b", "name": "two", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "one", "response": {"error": "no"}}},
                {"functionResponse": {"id": "b", "name": "two", "response": {"output": "well"}}},
            ]},
        ]}),
        json!({"messages": [
            {"role": "assistant", "tool_calls": [function("a", "one"), function("b", "two")]},
            {"role": "tool", "tool_call_id": "a", "content": "Exit Code: 2"},
            {"role": "tool", "tool_call_id": "b", "content": "Exit Code: 0"},
        ]}),
    ] {
        let record = Record {
            exchanges: vec![
                Exchange::of(json!({}), said.clone()),
                Exchange::of(later.clone(), Said::default()),
            ],
            ..Record::default()
        };
        let entries = entries(&record);
        assert_eq!(entries[0]["failed"], true, "{later}");
        assert_eq!(entries[1].get("failed"), None, "{later}");
    }
}

#[test]
fn a_trace_is_bounded_and_the_last_words_stand_by_themselves() {
    let said = Said {
        text: "ä".repeat(1 << 18),
        calls: vec![("bash".to_owned(), "é".repeat(1 << 18))],
        ..Said::default()
    };
    let done = Said {
        text: "done".to_owned(),
        ..Said::default()
    };
    let all = (0..200).map(|_| said.clone()).chain([done]);
    let exchanges = all.map(|said| Exchange::of(json!({}), said));
    let record = Record {
        exchanges: exchanges.collect(),
        ..Record::default()
    };
    let text = Value::from(entries(&record)).to_string();
    // The frame of an entry is larger in JSON than where it is shown.
    let chars = text.chars().count();
    assert!(chars < bound::TRACE_MAX + 2_000, "{chars}");
    assert!(text.contains("are left out here"));
    assert!(!text.contains("done"));
}
