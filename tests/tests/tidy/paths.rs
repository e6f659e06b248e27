//! Finding the files of the repository.

use std::path::{Path, PathBuf};

use crate::manifest::root;

/// Folders that are built, downloaded or made by running something.
const SKIPPED: &[&str] = &["target", "outputs", "vectors"];

/// Hidden folders that belong to the repository.
const HIDDEN: &[&str] = &[".cargo", ".ci", ".config", ".github"];

/// Returns the files below `dir`, sorted; what is made by building or running is left out.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for path in entries.filter_map(|entry| entry.ok().map(|e| e.path())) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let is_hidden = name.starts_with('.') && !HIDDEN.contains(&name.as_str());
            if path.is_dir() {
                if !is_hidden && !SKIPPED.contains(&name.as_str()) {
                    open.push(path);
                }
            } else if !is_hidden || name == ".gitignore" {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the files below `dir` whose names end in `.extension`.
pub(crate) fn with_extension(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = files(dir);
    found.retain(|path| path.extension().is_some_and(|e| e == extension));
    found
}

/// Returns a path as people write it: below the root, with slashes.
pub(crate) fn shown(path: &Path) -> String {
    let root = root();
    let short = path.strip_prefix(&root).unwrap_or(path);
    short.to_string_lossy().replace('\\', "/")
}
