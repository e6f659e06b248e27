//! Answers that hold tool calls: a program cannot hand tools of ours to its model, so the model
//! writes what it wants called.

use serde::Deserialize;
use serde_json::{Value, json};
use skillopt_core::job::Usage;

use crate::contract::{ChatRequest, ToolCall, ToolChoice};
use crate::error::CallError;

/// What a model says, and which tools it wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) text: String,
    /// Names and arguments.
    pub(crate) calls: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Wanted {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl Envelope {
    /// Returns the schema that binds an answer: one with places for tool calls if there are tools,
    /// else the caller's own.
    pub(crate) fn schema(request: &ChatRequest) -> Option<Value> {
        if request.tools.is_empty() {
            return request.schema.as_ref().map(|named| named.schema.clone());
        }
        let text = json!({"type": "string"});
        let call = json!({
            "type": "object",
            "properties": {"name": text, "arguments": text},
            "required": ["name", "arguments"],
            "additionalProperties": false,
        });
        Some(json!({
            "type": "object",
            "properties": {"content": text, "tool_calls": {"type": "array", "items": call}},
            "required": ["content", "tool_calls"],
            "additionalProperties": false,
        }))
    }

    /// Opens an answer; none if it is no envelope. What is no tool call in it is left out.
    pub(crate) fn open(answer: &Value) -> Option<Self> {
        let text = match answer.get("content")? {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let listed = answer.get("tool_calls").and_then(Value::as_array);
        let wanted = listed
            .into_iter()
            .flatten()
            .filter_map(|call| Wanted::deserialize(call).ok());
        let calls = wanted.map(|call| {
            let arguments = match call.arguments {
                Value::String(text) => text,
                Value::Null => "{}".to_owned(),
                other => other.to_string(),
            };
            (call.name, arguments)
        });
        Some(Self {
            text,
            calls: calls.collect(),
        })
    }
}

/// Checks that a tool is called where one must be.
///
/// # Errors
/// [`CallError::Unfit`] if it is not.
pub(crate) fn enforce(
    request: &ChatRequest,
    calls: &[ToolCall],
    usage: Usage,
    endpoint: &str,
) -> Result<(), CallError> {
    let missing = match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        Some(ToolChoice::Required) if calls.is_empty() => Some("no tool is called".to_owned()),
        Some(ToolChoice::Function(name)) if calls.iter().all(|call| call.name != *name) => {
            Some(format!("the tool `{name}` is not called"))
        }
        _ => None,
    };
    match missing {
        None => Ok(()),
        Some(detail) => Err(CallError::Unfit {
            endpoint: endpoint.to_owned(),
            detail,
            usage,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: Value, expected: Option<(&str, &[(&str, &str)])>) {
        let expected = expected.map(|(text, calls)| Envelope {
            text: text.to_owned(),
            calls: calls
                .iter()
                .map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned()))
                .collect(),
        });
        assert_eq!(Envelope::open(&answer), expected, "{answer}");
    }

    #[test]
    fn calls_are_taken_out_and_junk_is_left() {
        let calls = json!([
            {"name": "a", "arguments": "{\"x\":1}"},
            {"name": "b", "arguments": {"x": "é"}},
            {"name": "c"},
            {"arguments": "{}"},
            "junk",
        ]);
        check(
            json!({"content": "hi", "tool_calls": calls}),
            Some((
                "hi",
                &[("a", "{\"x\":1}"), ("b", "{\"x\":\"é\"}"), ("c", "{}")],
            )),
        );
        check(json!({"content": null}), Some(("", &[])));
        check(json!({"tool_calls": []}), None);
        check(json!("text"), None);
    }
}
