//! Schemas that bind answers: strict style, every field required and no other allowed.

use serde_json::{Map, Value, json};

use super::AnswerMode;
use crate::job::{Prompt, Schema};

/// A text.
pub(super) fn text() -> Value {
    json!({"type": "string"})
}

/// A whole number.
pub(super) fn integer() -> Value {
    json!({"type": "integer"})
}

/// One of several texts.
pub(super) fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

/// A list.
pub(super) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An object of exactly these fields.
pub(super) fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": false,
    })
}

/// Makes a prompt; the schema travels along only in schema-bound mode.
pub(super) fn prompt(
    answers: AnswerMode,
    name: &str,
    system: &str,
    user: String,
    fields: &[(&str, Value)],
) -> Prompt {
    let schema = match answers {
        AnswerMode::Free => None,
        AnswerMode::SchemaBound => Some(Schema {
            name: name.to_owned(),
            schema: object(fields),
        }),
    };
    Prompt {
        system: system.trim_end().to_owned(),
        user,
        schema,
    }
}

/// Returns the template name of a stage in an answer mode.
pub(super) fn template(answers: AnswerMode, name: &str) -> String {
    match answers {
        AnswerMode::Free => name.to_owned(),
        AnswerMode::SchemaBound => format!("small_{name}"),
    }
}
