//! A run as a trajectory: what was said and done, short enough for analysts to read.

use serde_json::{Value, json};

use crate::relay::Record;

mod outputs;

use outputs::Outputs;

/// Most characters of a text of the agent.
const TEXT_MAX: usize = 2_000;
/// Most characters of the arguments of a tool.
const ARGUMENTS_MAX: usize = 800;
/// Most characters of what a tool gave back.
const OUTPUT_MAX: usize = 1_200;
/// Most entries; of a longer run the middle is left out.
const ENTRIES_MAX: usize = 60;

/// Returns the entries of a run, the agent's last words left out: they stand by themselves.
#[must_use]
pub fn entries(record: &Record) -> Vec<Value> {
    let answered: Vec<_> = record
        .exchanges
        .iter()
        .filter(|exchange| exchange.status == 200)
        .collect();
    let mut outputs = Outputs::of(record);
    let mut entries = Vec::new();
    for (at, exchange) in answered.iter().enumerate() {
        let is_last = at + 1 == answered.len();
        let text = exchange.said.text.trim();
        let are_last_words = is_last && exchange.said.calls.is_empty();
        if !text.is_empty() && !are_last_words {
            entries.push(message(text));
        }
        for (name, arguments) in &exchange.said.calls {
            entries.push(call(name, arguments, &outputs.take(name, arguments)));
        }
    }
    bounded(entries)
}

/// An entry of what the agent said on its way.
pub(crate) fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": cut(text, TEXT_MAX)})
}

/// An entry of a tool that the agent used.
pub(crate) fn call(name: &str, arguments: &str, output: &str) -> Value {
    json!({
        "type": "tool_call", "tool": name, "arguments": cut(arguments, ARGUMENTS_MAX),
        "output": cut(output, OUTPUT_MAX),
    })
}

/// Leaves the middle of a long run out.
pub(crate) fn bounded(mut entries: Vec<Value>) -> Vec<Value> {
    if entries.len() > ENTRIES_MAX {
        let half = ENTRIES_MAX / 2;
        let left_out = entries.len() - 2 * half;
        let tail = entries.split_off(entries.len() - half);
        entries.truncate(half);
        entries
            .push(json!({"type": "note", "content": format!("{left_out} entries are left out")}));
        entries.extend(tail);
    }
    entries
}

/// Keeps the beginning and the end of a text: the end of an output says how it went.
fn cut(text: &str, max: usize) -> String {
    let chars = text.chars().count();
    if chars <= max {
        return text.to_owned();
    }
    let head: String = text.chars().take(max * 2 / 3).collect();
    let tail: String = text.chars().skip(chars - max / 3).collect();
    format!(
        "{head}\n[{} characters left out]\n{tail}",
        chars - max * 2 / 3 - max / 3
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::relay::{Exchange, Said, Tokens};

    fn exchange(request: Value, said: Said) -> Exchange {
        Exchange {
            request: Arc::new(request),
            status: 200,
            tries: 1,
            said,
            tokens: Tokens::default(),
        }
    }

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
                    exchange(json!({}), calls.clone()),
                    exchange(last, done.clone()),
                ],
                ..Record::default()
            };
            let entries = entries(&record);
            assert_eq!(entries.len(), 2, "{entries:?}");
            assert_eq!(entries[0]["content"], "I look");
            assert_eq!(entries[1]["output"], "a.txt");
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
                        exchange(json!({}), both.clone()),
                        exchange(later.clone(), Said::default()),
                        exchange(last, Said::default()),
                    ],
                    ..Record::default()
                };
                let entries = entries(&record);
                assert_eq!(entries.len(), 2, "{what}: {entries:?}");
                for (entry, word) in entries.iter().zip(["one", "two"]) {
                    let output = entry["output"].as_str().unwrap();
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
                exchange(json!({}), said("lost")),
                exchange(json!({}), said("kept")),
                exchange(later, Said::default()),
            ],
            ..Record::default()
        };
        let entries = entries(&record);
        assert_eq!(entries[0]["output"], "");
        assert_eq!(entries[1]["output"], "here");
    }

    #[test]
    fn a_trace_is_bounded() {
        let said = Said {
            text: "x".repeat(1 << 20),
            calls: vec![("bash".to_owned(), "y".repeat(1 << 20))],
            ..Said::default()
        };
        let exchanges = (0..200).map(|_| exchange(json!({}), said.clone()));
        let record = Record {
            exchanges: exchanges.collect(),
            ..Record::default()
        };
        let text = Value::from(entries(&record)).to_string();
        assert!(text.len() < 200_000, "{}", text.len());
        assert!(text.contains("entries are left out"));
    }
}
