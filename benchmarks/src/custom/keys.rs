//! The keys of `benchmark.yaml`, so that a wrong one is named with the one that was meant.

use serde_json::{Map, Value};

use crate::nearest;

const TOP: &[&str] = &[
    "name",
    "items",
    "split_ratio",
    "prompt",
    "system",
    "scorer",
    "hidden",
    "inputs",
    "outputs",
    "expected",
    "tools",
    "task_type",
    "failure_categories",
];
const PARTS: &[&str] = &["train", "val", "test"];

/// The keys of each kind of judge, beside `kind`.
const JUDGES: &[(&str, &[&str])] = &[
    ("exact", &["gold", "case_sensitive"]),
    ("f1", &["gold"]),
    ("regex", &["gold", "pattern"]),
    ("json_field", &["field", "gold"]),
    ("numeric", &["gold", "tolerance"]),
    ("files", &["text"]),
    ("command", &["command", "timeout_s"]),
];

/// Says which key or kind of judge is unknown, and what was probably meant.
pub(super) fn check(definition: &Value) -> Result<(), String> {
    let Value::Object(top) = definition else {
        return Err("expected keys like `name: my-questions`".to_owned());
    };
    known("", top, TOP)?;
    if let Some(Value::Object(parts)) = top.get("items") {
        known("items.", parts, PARTS)?;
    }
    let scorer = match top.get("scorer") {
        Some(Value::Object(scorer)) => scorer,
        Some(Value::String(kind)) => {
            return Err(format!(
                "`scorer` is a mapping; write `scorer: {{kind: {kind}}}`"
            ));
        }
        // Absent or of another type: reading it says so.
        _ => return Ok(()),
    };
    let kinds: Vec<&str> = JUDGES.iter().map(|(kind, _)| *kind).collect();
    let Some(Value::String(kind)) = scorer.get("kind") else {
        return Err(format!(
            "`scorer.kind` names no judge; known: {}",
            kinds.join(", ")
        ));
    };
    let Some((_, keys)) = JUDGES.iter().find(|(known, _)| known == kind) else {
        let hint = nearest::hint(kind, &kinds);
        return Err(format!("unknown judge `scorer.kind: {kind}`; {hint}"));
    };
    let keys: Vec<&str> = std::iter::once("kind")
        .chain(keys.iter().copied())
        .collect();
    known("scorer.", scorer, &keys)
}

fn known(section: &str, map: &Map<String, Value>, keys: &[&str]) -> Result<(), String> {
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => {
            let hint = nearest::hint(key, keys);
            Err(format!("unknown key `{section}{key}`; {hint}"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::definition::Scorer;
    use super::*;

    #[test]
    fn wrong_names_are_told_with_the_right_ones() {
        for (definition, want) in [
            (json!([]), "expected keys"),
            (json!({"item": "i.csv"}), "`item`; did you mean `items`?"),
            (
                json!({"items": {"train": "a", "vall": "b"}}),
                "`items.vall`; did you mean `val`?",
            ),
            (json!({"scorer": "exact"}), "{kind: exact}"),
            (json!({"scorer": {}}), "names no judge"),
            (json!({"scorer": {"kind": "exat"}}), "did you mean `exact`?"),
            (
                json!({"scorer": {"kind": "f1", "god": "a"}}),
                "`scorer.god`; did you mean `gold`?",
            ),
            (
                json!({"scorer": {"kind": "f1", "tolerance": 1}}),
                "known: kind, gold",
            ),
        ] {
            let error = check(&definition).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
        assert_eq!(check(&json!({"name": "x", "items": "i"})), Ok(()));
    }

    #[test]
    fn the_table_has_the_kinds_and_keys_that_are_read() {
        for (kind, keys) in JUDGES {
            let mut scorer = json!({"kind": kind});
            for key in *keys {
                scorer[*key] = match *key {
                    "case_sensitive" | "text" => json!(true),
                    "tolerance" => json!(0.5),
                    "timeout_s" => json!(5),
                    "command" => json!(["sh"]),
                    _ => json!("x"),
                };
            }
            let read = serde_json::from_value::<Scorer>(scorer);
            assert!(read.is_ok(), "{kind}: {read:?}");
        }
    }
}
