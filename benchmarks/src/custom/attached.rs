//! Files of an item: what an agent finds, and what only the judge sees. They travel with the item, so
//! that a worker needs no folder and a changed file is another job.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::definition::Definition;
use super::template;

/// The item's field that holds its files; no column and no placeholder can name it.
const FIELD: &str = "$files";
/// Most bytes of all files of an item.
const BYTES_MAX: usize = 16 << 20;

/// Files by name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Reads the files of an item of the benchmark in `folder` and puts them into it.
///
/// # Errors
/// A file is missing, too large, or outside of the folder.
pub(super) fn attach(
    folder: &Path,
    definition: &Definition,
    item: &mut Value,
) -> Result<(), String> {
    let mut left = BYTES_MAX;
    let mut all = Map::new();
    for (part, named) in [
        ("inputs", &definition.inputs),
        ("expected", &definition.expected),
    ] {
        let mut files = Map::new();
        for (name, pattern) in named {
            let path = template::render(pattern, item, "");
            is_inside(&path)?;
            let bytes = std::fs::read(folder.join(&path))
                .map_err(|e| format!("`{part}`: `{path}` cannot be read: {e}"))?;
            left = left.checked_sub(bytes.len()).ok_or_else(|| {
                format!("its files are larger than {} MiB together", BYTES_MAX >> 20)
            })?;
            files.insert(name.clone(), STANDARD.encode(bytes).into());
        }
        if !files.is_empty() {
            all.insert(part.to_owned(), files.into());
        }
    }
    if let (Value::Object(item), false) = (item, all.is_empty()) {
        item.insert(FIELD.to_owned(), all.into());
    }
    Ok(())
}

/// Checks names of the definition: they stay in their folder.
///
/// # Errors
/// The first that does not.
pub(super) fn check(definition: &Definition) -> Result<(), String> {
    let named = definition.inputs.keys().chain(definition.expected.keys());
    named
        .chain(&definition.outputs)
        .try_for_each(|name| is_inside(name))
}

/// Returns the files of one part, `inputs` or `expected`.
///
/// # Errors
/// The item was not made by this program.
pub(super) fn of(item: &Value, part: &str) -> Result<Files, String> {
    let Some(Value::Object(files)) = item.get(FIELD).and_then(|all| all.get(part)) else {
        return Ok(Files::new());
    };
    let decode = |(name, value): (&String, &Value)| {
        let bytes = STANDARD.decode(value.as_str().unwrap_or_default());
        let bytes = bytes.map_err(|e| format!("the file `{name}` is damaged: {e}"))?;
        Ok((name.clone(), bytes))
    };
    files.iter().map(decode).collect()
}

/// Returns the item without its files, for whoever reads it as text.
pub(super) fn without(item: &Value) -> Value {
    let mut item = item.clone();
    if let Value::Object(map) = &mut item {
        map.remove(FIELD);
    }
    item
}

fn is_inside(path: &str) -> Result<(), String> {
    let mut parts = Path::new(path).components();
    if !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_))) {
        return Ok(());
    }
    Err(format!(
        "`{path}` is no file of the folder; write a plain path below it"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(inputs: Value, expected: Value) -> Definition {
        serde_json::from_value(json!({
            "name": "x", "items": "i.jsonl", "scorer": {"kind": "files"},
            "inputs": inputs, "outputs": ["out.bin"], "expected": expected,
        }))
        .unwrap()
    }

    #[test]
    fn files_travel_with_their_item() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("books")).unwrap();
        std::fs::write(dir.path().join("books/a.bin"), [0, 159, 146, 150]).unwrap();
        let definition = definition(
            json!({"in.bin": "books/{{id}}.bin"}),
            json!({"out.bin": "books/a.bin"}),
        );
        check(&definition).unwrap();
        let mut item = json!({"id": "a"});
        attach(dir.path(), &definition, &mut item).unwrap();
        let want = BTreeMap::from([("in.bin".to_owned(), vec![0, 159, 146, 150])]);
        assert_eq!(of(&item, "inputs"), Ok(want));
        assert_eq!(of(&item, "expected").unwrap().len(), 1);
        assert_eq!(without(&item), json!({"id": "a"}));
        for id in ["b", "../../etc/passwd"] {
            let error = attach(dir.path(), &definition, &mut json!({"id": id})).unwrap_err();
            assert!(error.contains(id), "{error}");
        }
    }

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["/etc/x", "../x", "", "a/../../x"] {
            let definition = definition(json!({name: "a"}), json!({}));
            assert!(check(&definition).is_err(), "{name}");
        }
        assert!(check(&definition(json!({"a/b.txt": "x"}), json!({}))).is_ok());
    }
}
