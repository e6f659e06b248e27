//! A run as a trajectory: what was said and done, short enough for analysts to read.

use serde_json::{Value, json};

use crate::relay::Record;

/// Most characters of a text of the agent.
const TEXT_MAX: usize = 2_000;
/// Most characters of the arguments of a tool.
const ARGUMENTS_MAX: usize = 800;
/// Most characters of what a tool gave back.
const OUTPUT_MAX: usize = 1_200;
/// Most entries; of a longer run the middle is left out.
const ENTRIES_MAX: usize = 60;

/// Returns the entries of a run, the agent's last words left out: they stand by themselves.
pub(crate) fn entries(record: &Record) -> Vec<Value> {
    // The last request holds the whole conversation, and so what every tool gave back.
    let last = record
        .exchanges
        .iter()
        .rev()
        .find(|exchange| exchange.status == 200);
    let mut outputs = Vec::new();
    if let Some(last) = last {
        collect(&last.request, &mut outputs);
    }
    let mut outputs = outputs.into_iter();
    let mut entries = Vec::new();
    let answered: Vec<_> = record
        .exchanges
        .iter()
        .filter(|exchange| exchange.status == 200)
        .collect();
    for (at, exchange) in answered.iter().enumerate() {
        let is_last = at + 1 == answered.len();
        let text = exchange.said.text.trim();
        let are_last_words = is_last && exchange.said.calls.is_empty();
        if !text.is_empty() && !are_last_words {
            entries.push(json!({
                "type": "message", "role": "assistant", "content": cut(text, TEXT_MAX),
            }));
        }
        for (name, arguments) in &exchange.said.calls {
            let output = outputs.next().unwrap_or_default();
            entries.push(json!({
                "type": "tool_call", "tool": name, "arguments": cut(arguments, ARGUMENTS_MAX),
                "output": cut(&output, OUTPUT_MAX),
            }));
        }
    }
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

/// Finds what tools gave back in a request of any interface, in order.
fn collect(value: &Value, outputs: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| collect(value, outputs)),
        Value::Object(map) => {
            let is = |key: &str, words: &[&str]| {
                let found = map.get(key).and_then(Value::as_str);
                found.is_some_and(|found| words.contains(&found))
            };
            if is("type", &["function_call_output", "custom_tool_call_output"]) {
                outputs.push(text_of(map.get("output")));
            } else if is("type", &["tool_result"]) || is("role", &["tool"]) {
                outputs.push(text_of(map.get("content")));
            } else if let Some(response) = map.get("functionResponse") {
                outputs.push(text_of(response.get("response")));
            } else {
                map.values().for_each(|value| collect(value, outputs));
            }
        }
        _ => {}
    }
}

fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
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
