//! YAML 1.1 on top of an event parser.
//!
//! The events tell plain from quoted scalars, so that `"yes"` stays text. Limits keep a hostile
//! file from costing more than a moment: nesting, and the number of values after aliases are
//! filled in.

mod build;
pub mod scalar;

use std::sync::Arc;

use saphyr_parser::{Parser, ScanError};

use crate::node::{Mapping, Node};

/// Deepest nesting that is read.
pub const MAX_DEPTH: usize = 64;
/// Most values of one file, those that aliases bring in included.
pub const MAX_NODES: usize = 20_000;

/// A file that is not YAML we can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}:{column}: {reason}")]
pub struct YamlError {
    /// The file.
    pub path: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column.
    pub column: usize,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Reads one document whose root is a mapping; an empty file is an empty mapping.
///
/// # Errors
/// A syntax error, a second document, a root that is no mapping, or a limit.
pub fn parse(text: &str, path: &str) -> Result<Mapping, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let path: Arc<str> = Arc::from(path);
    let mut builder = build::Builder::new(Arc::clone(&path));
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| from_scan(&path, &error))?;
        builder.take(event, &span)?;
    }
    match builder.finish() {
        None => Ok(Mapping::new()),
        Some(Node {
            data: crate::node::Data::Null,
            ..
        }) => Ok(Mapping::new()),
        Some(Node {
            data: crate::node::Data::Map(map),
            ..
        }) => Ok(map),
        Some(other) => Err(YamlError {
            path: path.to_string(),
            line: 1,
            column: 1,
            reason: format!(
                "the file holds {} where a mapping of keys is needed",
                other.show()
            ),
        }),
    }
}

fn from_scan(path: &str, error: &ScanError) -> YamlError {
    YamlError {
        path: path.to_owned(),
        line: error.marker().line(),
        column: error.marker().col() + 1,
        reason: format!("this is not valid YAML: {}", error.info()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<serde_json::Value, String> {
        parse(text, "a.yaml")
            .map(|map| serde_json::Value::Object(map.to_json()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn values() {
        for (text, want) in [
            ("", json!({})),
            ("# nothing\n", json!({})),
            ("---\n", json!({})),
            ("a: yes\nb: 'yes'\n", json!({"a": true, "b": "yes"})),
            ("a: 1\r\nb: two\r\n", json!({"a": 1, "b": "two"})),
            ("\u{feff}a: 1", json!({"a": 1})),
            ("a: 1\na: 2\n", json!({"a": 2})),
            (
                "a: &x [1, {b: c}]\nd: *x\n",
                json!({"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}),
            ),
            (
                "base: &b {x: 1, y: 2}\nc:\n  <<: *b\n  y: 3\n",
                json!({"base": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3}}),
            ),
            (
                "p: &p {x: 1}\nq: &q {x: 2, z: 9}\nc: {<<: [*p, *q]}\n",
                json!({"p": {"x": 1}, "q": {"x": 2, "z": 9}, "c": {"x": 1, "z": 9}}),
            ),
            ("a: |\n  one\n  two\n", json!({"a": "one\ntwo\n"})),
            ("a: !!str 5\nb: !!int '5'\n", json!({"a": "5", "b": 5})),
            ("a:\nb: ''\n", json!({"a": null, "b": ""})),
            ("yes: 1\n2: b\n", json!({"yes": 1, "2": "b"})),
        ] {
            assert_eq!(read(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn faults_name_their_place() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
            + &('b'..='h')
                .map(|c| {
                    let p = char::from(c as u8 - 1);
                    format!("{c}: &{c} [*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p}]\n")
                })
                .collect::<String>();
        let deep = format!("a: {}", "[".repeat(5000));
        for (text, want) in [
            ("a: [1, 2\nb: 3\n", "a.yaml:2"),
            ("train:\n  seed: 1\n batch: 2\n", "a.yaml:3"),
            ("a: 1\n---\nb: 2\n", "a.yaml:2"),
            ("- a\n", "mapping"),
            ("a: &x [*x]\n", "a.yaml:1:8"),
            ("a: !!python/object:os.system x\n", "tag"),
            ("? [a]\n: b\n", "a.yaml:1"),
            ("a: {<<: 5}\n", "<<"),
            (&bomb, "20000"),
            (&deep, "a.yaml:1"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(want), "{error} for {text:.60}");
        }
    }

    #[test]
    fn places_are_kept() {
        let map = parse("a: 1\nb:\n  c: x\n", "f.yaml").expect("valid");
        let c = map.get("b").and_then(|b| b.as_map()?.get("c")).expect("c");
        assert_eq!(c.origin.to_string(), "f.yaml:3:6");
    }
}
