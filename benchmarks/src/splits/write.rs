//! Writing a split folder, so that a crash never leaves half a file.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

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
    replace(path, &bytes).map_err(|e| LoadError::io("write", path, e))
}

/// Writes aside, syncs and renames. The name aside holds the process id, so that two runs that
/// make the same split do not disturb each other.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let aside = path.with_extension(format!("tmp-{}", std::process::id()));
    let written = std::fs::File::create(&aside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&aside, path));
    if done.is_err() {
        // The error that matters is the first one.
        let _ = std::fs::remove_file(&aside);
        return done;
    }
    std::fs::File::open(folder)?.sync_all()
}
