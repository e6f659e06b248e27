//! Reading rows from JSON, JSONL and CSV files, with errors that name file, line and column.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::LoadError;

/// Reads the rows of a `.csv` file, or of a JSON or JSONL file.
///
/// # Errors
/// The file cannot be read or is not what its name says.
pub fn rows(path: &Path) -> Result<Vec<Value>, LoadError> {
    let bytes = bytes(path)?;
    if has_extension(path, "csv") {
        csv_rows(&bytes, path)
    } else {
        parse_rows(&bytes, path)
    }
}

/// Reads a file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, LoadError> {
    std::fs::read(path).map_err(|e| LoadError::io("read", path, e))
}

/// Reads a file whose whole content must be a JSON array.
///
/// # Errors
/// It cannot be read, is empty or half written, or is something else.
pub fn array(path: &Path) -> Result<Vec<Value>, LoadError> {
    let bytes = bytes(path)?;
    let text = utf8(&bytes, path)?;
    if text.trim().is_empty() {
        return Err(LoadError::content(
            path,
            "the file is empty; expected a JSON array of items (`[]` for none)",
        ));
    }
    match serde_json::from_str(text) {
        Ok(Value::Array(rows)) => Ok(rows),
        Ok(other) => Err(LoadError::content(
            path,
            format!(
                "expected a JSON array of items, found {}; one item per line belongs into a \
                 `.jsonl` file",
                kind(&other)
            ),
        )),
        Err(error) => Err(json_error(path, &error, 0)),
    }
}

/// Reads rows from text that is JSON (array; object with a list under `data`; an object of rows;
/// one row) or JSONL. Blank text has no rows.
///
/// # Errors
/// It is neither.
pub fn parse_rows(bytes: &[u8], path: &Path) -> Result<Vec<Value>, LoadError> {
    let text = utf8(bytes, path)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Array(rows)) => Ok(rows),
        Ok(Value::Object(object)) => Ok(object_rows(object)),
        Ok(other) => Ok(vec![other]),
        Err(whole) => {
            let first = text.trim_start().as_bytes().first();
            let lines = lines(text, path);
            // An array that does not parse is a broken array, not bad JSONL.
            if lines.is_err() && (first == Some(&b'[') || is_multi_line(text)) {
                return Err(json_error(path, &whole, 0));
            }
            lines
        }
    }
}

/// Whether the first line alone is no JSON value, so that the text was meant as one document.
fn is_multi_line(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| serde_json::from_str::<serde::de::IgnoredAny>(line).is_err())
}

/// The rows an object stands for. `data` marks a wrapper. Else an object that holds objects is a
/// table of rows by name, and an object of plain values is itself a row: a JSONL file with a
/// single line keeps its keys (W-1.13).
fn object_rows(mut object: Map<String, Value>) -> Vec<Value> {
    if let Some(Value::Array(rows)) = object.get_mut("data") {
        return std::mem::take(rows);
    }
    let is_table = object.contains_key("data") || object.values().all(Value::is_object);
    if is_table {
        object.into_iter().map(|(_, row)| row).collect()
    } else {
        vec![Value::Object(object)]
    }
}

fn lines(text: &str, path: &Path) -> Result<Vec<Value>, LoadError> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| json_error(path, &error, number))
        })
        .collect()
}

/// Reads rows from CSV with a header row; every cell is text.
fn csv_rows(bytes: &[u8], path: &Path) -> Result<Vec<Value>, LoadError> {
    let text = utf8(bytes, path)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|e| csv_error(path, &e))?.clone();
    if let Some(name) = first_repeat(headers.iter()) {
        return Err(LoadError::content(
            path,
            format!("two columns are called `{name}`; rename one"),
        ));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| csv_error(path, &e))?;
        let row: Map<String, Value> = headers
            .iter()
            .map(|header| header.trim().to_owned())
            .zip(record.iter().map(Value::from))
            .collect();
        rows.push(Value::Object(row));
    }
    Ok(rows)
}

fn first_repeat<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(name.trim()))
}

/// Returns the first file of `folder` in name order with the first of `extensions` that any has.
///
/// # Errors
/// The folder cannot be read, or has no such file.
pub fn first_file(folder: &Path, extensions: &[&str]) -> Result<PathBuf, LoadError> {
    let files = files(folder)?;
    extensions
        .iter()
        .find_map(|extension| files.iter().find(|path| has_extension(path, extension)))
        .cloned()
        .ok_or_else(|| {
            LoadError::content(
                folder,
                format!("no `*.{}` file in this folder", extensions.join("` or `*.")),
            )
        })
}

/// Returns the files of `folder` in name order.
///
/// # Errors
/// The folder cannot be read.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let entries = std::fs::read_dir(folder).map_err(|e| LoadError::io("read", folder, e))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| LoadError::io("read", folder, e))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether the file's name ends with `.extension`.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Names the kind of a JSON value in an error.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the text without a byte order mark.
pub(crate) fn utf8<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a str, LoadError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (before, _) = bytes.split_at(error.valid_up_to());
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        LoadError::Content {
            path: path.to_owned(),
            place: format!(", line {line}, column {column}"),
            problem: "this is not UTF-8; save the file as UTF-8".to_owned(),
        }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

pub(crate) fn json_error(path: &Path, error: &serde_json::Error, lines_before: usize) -> LoadError {
    let problem = if error.is_eof() {
        format!("the JSON ends too early ({error}); is the file half written?")
    } else {
        format!("not valid JSON: {error}")
    };
    // The library appends its own idea of the place, relative to the line in JSONL.
    let tail = format!(" at line {} column {}", error.line(), error.column());
    LoadError::Content {
        path: path.to_owned(),
        place: format!(
            ", line {}, column {}",
            lines_before + error.line(),
            error.column()
        ),
        problem: problem.replace(&tail, ""),
    }
}

fn csv_error(path: &Path, error: &csv::Error) -> LoadError {
    let place = error
        .position()
        .map(|position| format!(", line {}", position.line()));
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("this row has {len} cells, the header has {expected_len}"),
        _ => format!("not valid CSV: {error}"),
    };
    LoadError::Content {
        path: path.to_owned(),
        place: place.unwrap_or_default(),
        problem,
    }
}
