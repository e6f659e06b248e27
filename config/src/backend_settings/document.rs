//! Settings that name a file: what is in it is the value, so that it travels with the run and is part
//! of what a job is known by.

use serde_json::Value as Json;

use crate::node::{Data, Node};
use crate::setting::scalar_text;
use crate::yaml;

/// Longest file that is read, in bytes: it becomes part of every job's model.
const BYTES_MAX: u64 = 64 * 1024;

/// Reads the file that a node names, as YAML or JSON. A mapping is the content itself, and so is a
/// text of several lines.
///
/// # Errors
/// There is no such file, or it holds no mapping; in words.
pub(super) fn read(node: &Node) -> Result<Json, String> {
    if let Data::Map(_) = &node.data {
        return Ok(node.to_json());
    }
    let Some(named) = scalar_text(node) else {
        return Err("is no path of a file".to_owned());
    };
    let named = named.trim();
    if named.contains('\n') || named.starts_with('{') {
        return parse(named, "the text");
    }
    let wrong = |why: String| format!("names `{named}`, which {why}");
    let size = std::fs::metadata(named).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    if !size.is_file() {
        return Err(wrong("is no file".to_owned()));
    }
    if size.len() > BYTES_MAX {
        let size = size.len();
        return Err(wrong(format!(
            "has {size} bytes; at most {BYTES_MAX} are read"
        )));
    }
    let text = std::fs::read_to_string(named).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    parse(&text, named)
}

fn parse(text: &str, path: &str) -> Result<Json, String> {
    let mapping = yaml::parse(text, path).map_err(|e| format!("holds no mapping: {e}"))?;
    Ok(Json::Object(mapping.to_json()))
}
