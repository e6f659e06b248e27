//! Run folders and how they differ: `diff -r` without what may differ.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What may differ between equal runs: durations, and our own files (lock, status, store).
const MAY_DIFFER: &[&str] = &["timings.json", ".skillopt"];
/// Differences that are told.
const TOLD_MAX: usize = 8;

/// Reads all files below a folder by their path, without those that may differ.
///
/// # Panics
/// A file cannot be read.
#[must_use]
pub fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    // Also those of the cells of a sweep.
    read(root, &|name| !MAY_DIFFER.contains(&name))
}

/// Reads all files below a folder by their path, each and every one.
///
/// # Panics
/// A file cannot be read.
#[must_use]
pub fn all_files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    read(root, &|_| true)
}

/// Reads those below a folder whose names, and those of the folders above them, are `wanted`.
fn read(root: &Path, wanted: &dyn Fn(&str) -> bool) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}")) {
            let path = entry.expect("an entry of a folder").path();
            let name = path.strip_prefix(root).expect("it is below the folder");
            let name = name.to_string_lossy().into_owned();
            let own = path.file_name().unwrap_or_default().to_string_lossy();
            if !wanted(&own) {
                continue;
            }
            if path.is_dir() {
                // Empty folders count too.
                files.insert(format!("{name}/"), Vec::new());
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                files.insert(name, bytes);
            }
        }
    }
    files
}

/// Checks that two folders hold the same.
///
/// # Panics
/// They do not; the message names the first differences.
#[track_caller]
pub fn same(left: &Path, right: &Path) {
    same_but(left, right, &[]);
}

/// Checks that two folders hold the same but for some files, which both of them have.
///
/// # Panics
/// They do not; the message names the first differences.
#[track_caller]
pub fn same_but(left: &Path, right: &Path, but: &[&str]) {
    let (mut mine, mut other) = (files(left), files(right));
    for name in but {
        let is_there = mine.remove(*name).is_some() && other.remove(*name).is_some();
        assert!(is_there, "`{name}` is not in both");
    }
    assert!(!mine.is_empty(), "{} is empty", left.display());
    let mut told = Vec::new();
    for (name, bytes) in &mine {
        match other.get(name) {
            None => told.push(format!("only in the first: {name}")),
            Some(others) if others != bytes => told.push(line(name, bytes, others)),
            Some(_) => {}
        }
    }
    let new = other.keys().filter(|name| !mine.contains_key(*name));
    told.extend(new.map(|name| format!("only in the second: {name}")));
    let n = told.len();
    told.truncate(TOLD_MAX);
    assert!(
        n == 0,
        "{} and {} differ in {n} places:\n{}",
        left.display(),
        right.display(),
        told.join("\n")
    );
}

/// Tells the first line that differs.
fn line(name: &str, left: &[u8], right: &[u8]) -> String {
    let (left, right) = (
        String::from_utf8_lossy(left),
        String::from_utf8_lossy(right),
    );
    let mut pair = left.lines().zip(right.lines()).enumerate();
    match pair.find(|(_, (a, b))| a != b) {
        Some((at, (a, b))) => {
            let cut = |s: &str| s.chars().take(300).collect::<String>();
            format!("{name}:{}\n  - {}\n  + {}", at + 1, cut(a), cut(b))
        }
        None => format!("{name}: one is longer"),
    }
}

/// Returns the lines of every `results.jsonl` below a folder, by path.
#[must_use]
pub fn rows(root: &Path) -> BTreeMap<String, Vec<String>> {
    let is_rows = |name: &str| name.ends_with("results.jsonl");
    files(root)
        .into_iter()
        .filter(|(name, _)| is_rows(name))
        .map(|(name, bytes)| {
            let text = String::from_utf8_lossy(&bytes);
            (name, text.lines().map(str::to_owned).collect())
        })
        .collect()
}

/// Checks that every scored row of a run that stopped is a row of the whole run: no failure of a
/// provider or of ours has become a number.
///
/// # Panics
/// A row of `part` is not in `whole`.
#[track_caller]
pub fn rows_are_real(part: &BTreeMap<String, Vec<String>>, whole: &Path) {
    let whole = rows(whole);
    for (file, lines) in part {
        for line in lines {
            let known = whole.get(file).is_some_and(|all| all.contains(line));
            assert!(
                known,
                "`{file}` has a row that the whole run has not: {line}"
            );
        }
    }
}

/// Returns the files below a folder that hold a text, our own included.
///
/// # Panics
/// The folder cannot be read.
#[must_use]
pub fn holding(root: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap_or_else(|e| panic!("{root:?}: {e}")) {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            found.extend(holding(&path, text));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let mut parts = bytes.windows(text.len());
        if parts.any(|part| part == text.as_bytes()) {
            found.push(path);
        }
    }
    found
}
