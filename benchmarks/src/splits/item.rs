//! One task and its id.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;
use skillopt_core::Hash;

use super::read;
use crate::error::LoadError;

/// Longest id, in bytes.
const ID_BYTES_MAX: usize = 512;
/// Longest folder name made of an id, in bytes; file systems allow 255.
const FOLDER_BYTES_MAX: usize = 150;

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Unique within its benchmark, never empty, one line. Not safe as a file name: see
    /// [`safe_folder_name`].
    pub id: String,
    /// The item's JSON object, `id` included.
    pub value: Value,
}

impl Item {
    /// Takes row number `index` (from 0) of `path` as an item.
    ///
    /// # Errors
    /// The row is no object, or its id is missing, empty, too long or not one line of text.
    pub fn new(value: Value, path: &Path, index: usize) -> Result<Self, LoadError> {
        let fail =
            |problem: String| LoadError::content(path, format!("item {} {problem}", index + 1));
        let Value::Object(object) = &value else {
            return Err(fail(format!(
                "is {}, expected an object with an `id`",
                read::kind(&value)
            )));
        };
        let id = match object.get("id") {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            None => return Err(fail("has no `id`; give every item a unique one".to_owned())),
            Some(other) => {
                return Err(fail(format!(
                    "has {} as `id`; use a text or a number",
                    read::kind(other)
                )));
            }
        };
        if id.trim().is_empty() {
            return Err(fail(
                "has an empty `id`; give every item a unique one".to_owned(),
            ));
        }
        if id.len() > ID_BYTES_MAX {
            let start: String = id.chars().take(40).collect();
            return Err(fail(format!(
                "has an `id` of {} bytes (`{start}…`); the limit is {ID_BYTES_MAX}",
                id.len()
            )));
        }
        if id.chars().any(char::is_control) {
            return Err(fail(format!(
                "has control characters in its `id` {id:?}; remove them"
            )));
        }
        // Rows, pairs and folders find an item by the text of its id.
        let mut value = value;
        value["id"] = id.clone().into();
        Ok(Self { id, value })
    }
}

/// Fails on the first id that occurs twice. `parts` pairs each list with the file it came from.
/// An id in two parts is refused too: the gate would judge with an item that was trained on.
///
/// # Errors
/// Names the id and both files.
pub fn check_unique(parts: &[(&Path, &[Item])]) -> Result<(), LoadError> {
    let mut seen: HashSet<&str> = HashSet::with_capacity(parts.iter().map(|p| p.1.len()).sum());
    for (path, items) in parts {
        let Some(item) = items.iter().find(|item| !seen.insert(&item.id)) else {
            continue;
        };
        let first = parts
            .iter()
            .find(|(_, items)| items.iter().any(|other| other.id == item.id))
            .map_or(*path, |(first, _)| *first);
        let id = &item.id;
        return Err(LoadError::content(
            path,
            if first == *path {
                format!("id `{id}` occurs twice; ids must be unique")
            } else {
                format!(
                    "id `{id}` is also in `{}`; an item may be in one part only, else the gate \
                     would judge with items that were trained on",
                    first.display()
                )
            },
        ));
    }
    Ok(())
}

/// Returns a name for an item's folder: letters, digits, `-`, `_` and inner dots stay, every other
/// byte becomes `%XX`. Two ids never share a name: an over-long one ends in `%~` and its whole hash.
#[must_use]
pub fn safe_folder_name(id: &str) -> String {
    use std::fmt::Write;
    let mut name = String::with_capacity(id.len());
    for (i, byte) in id.bytes().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            b'.' if i > 0 => name.push('.'),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(name, "%{byte:02X}");
            }
        }
    }
    if name.is_empty() {
        return "%".to_owned();
    }
    if name.len() > FOLDER_BYTES_MAX {
        name.truncate(FOLDER_BYTES_MAX - 66);
        let _ = write!(name, "%~{}", Hash::of(id.as_bytes()));
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_checked_with_file_and_number() {
        let check = |row: Value, want: &str| match Item::new(row, Path::new("f.json"), 2) {
            Ok(item) => {
                assert_eq!(item.id, want);
                assert_eq!(item.value["id"], want, "rows take it from there");
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("f.json") && text.contains("item 3"), "{text}");
                assert!(text.contains(want), "{text}");
            }
        };
        check(json!({"id": "a/../b"}), "a/../b");
        check(json!({"id": 7}), "7");
        check(json!({"id": ""}), "empty `id`");
        check(json!({"id": "  "}), "empty `id`");
        check(json!({"q": 1}), "no `id`");
        check(json!({"id": null}), "null as `id`");
        check(json!({"id": "x".repeat(10_000)}), "10000 bytes");
        check(json!({"id": "a\u{0}b"}), "control characters");
        check(json!(["id"]), "is a list");
    }

    #[test]
    fn folder_names_are_safe_and_distinct() {
        let long = "x".repeat(400);
        let ids = [
            "plain-id_1.txt",
            "..",
            ".",
            "../x",
            "a/b",
            "a%2Fb",
            "a\\b",
            "é",
            "e\u{301}",
            "202511:1",
            " ",
            "%~",
            &long,
            &long[1..],
        ];
        let names: Vec<String> = ids.iter().map(|id| safe_folder_name(id)).collect();
        assert_eq!(names[0], "plain-id_1.txt");
        for (i, name) in names.iter().enumerate() {
            assert!(
                name.len() <= FOLDER_BYTES_MAX && !name.starts_with('.'),
                "{name}"
            );
            assert!(!name.contains(['/', '\\']) && name.is_ascii(), "{name}");
            assert!(!names[..i].contains(name), "{name}");
        }
    }

    #[test]
    fn the_same_id_twice_is_refused() {
        let item = |id: &str| Item {
            id: id.to_owned(),
            value: Value::Null,
        };
        let (a, b) = (Path::new("train.json"), Path::new("val.json"));
        let check = |left: &[Item], right: &[Item]| {
            check_unique(&[(a, left), (b, right)]).map_err(|e| e.to_string())
        };
        assert_eq!(check(&[item("1")], &[item("2")]), Ok(()));
        assert!(
            check(&[item("1"), item("1")], &[])
                .unwrap_err()
                .contains("occurs twice")
        );
        assert!(
            check(&[item("1")], &[item("1")])
                .unwrap_err()
                .contains("also in `train.json`")
        );
    }
}
