//! Writing a split folder, so that a crash never leaves half a file.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use skillopt_runtime::files;

use super::{Item, Part, Splits};
use crate::error::LoadError;

/// Writes `<part>/items.json` for every part, then `split_manifest.json`. Files that already hold
/// the same bytes are left alone.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn split(folder: &Path, splits: &Splits, manifest: &Value) -> Result<(), LoadError> {
    for part in Part::ALL {
        let rows: Vec<&Value> = splits.part(part).iter().map(value).collect();
        json(&folder.join(part.folder()).join("items.json"), &rows)?;
    }
    json(&folder.join("split_manifest.json"), manifest)
}

fn value(item: &Item) -> &Value {
    &item.value
}

fn json<T: Serialize>(path: &Path, content: &T) -> Result<(), LoadError> {
    let mut bytes =
        serde_json::to_vec_pretty(content).map_err(|e| LoadError::io("write", path, e.into()))?;
    bytes.push(b'\n');
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    Ok(files::write_atomic(path, &bytes)?)
}
