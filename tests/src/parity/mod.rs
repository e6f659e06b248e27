//! Runs the golden vectors: cases made by running the reference, read from the folder that
//! `SKILLOPT_VECTORS` names, else from `tests/vectors`.
//!
//! One file of cases is one [`Report`]. How a case is judged is written in the vectors' README:
//! `accept_any_of` first, then `right` (only the keys it names), then `expected`.

mod backends;
mod benchmarks;
mod config;
mod edits;
mod exec_streams;
mod gate;
mod splits;
mod stages;
mod train_loop;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// What our code did with a case: a value, or an error with its text.
pub type Outcome = Result<Value, String>;

/// The areas that have cases.
pub const AREAS: &[&str] = &["training", "benchmarks", "exec-streams", "backends"];

/// The result of one file of cases.
#[derive(Debug)]
pub struct Report {
    /// Path below the vectors' folder.
    pub file: String,
    /// Number of cases that pass.
    pub passed: usize,
    /// Ids of the cases that fail, with what was seen.
    pub failed: Vec<(String, String)>,
    /// Ids of the cases that cannot be run yet, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Returns the folder of the vectors.
#[must_use]
pub fn vectors_dir() -> PathBuf {
    std::env::var_os("SKILLOPT_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors"),
        PathBuf::from,
    )
}

/// Returns how many cases the folder of `area` holds, whether anybody runs them or not.
///
/// # Errors
/// The area has no folder, or a file of it cannot be read.
pub fn case_count(area: &str) -> anyhow::Result<usize> {
    let dir = vectors_dir().join(area);
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(&dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            lists.push(path);
        } else if area == "exec-streams" && path.is_dir() {
            lists.push(path.join("expected.json"));
        }
    }
    let counts = lists.iter().map(|path| Ok(cases_of(path)?.len()));
    counts.sum()
}

/// Reads the cases of a file.
fn cases_of(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(path).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
    let parsed: Value = serde_json::from_str(&text)?;
    list(&parsed).ok_or_else(|| anyhow::anyhow!("{}: not a list of cases", path.display()))
}

/// Runs every file of `area`.
///
/// # Errors
/// The area has no folder, or a file cannot be read.
pub fn run_area(area: &str) -> anyhow::Result<Vec<Report>> {
    if area == "exec-streams" {
        return exec_streams::run();
    }
    files(area)?
        .iter()
        .map(|path| run_file(area, path))
        .collect()
}

fn files(area: &str) -> anyhow::Result<Vec<PathBuf>> {
    let dir = vectors_dir().join(area);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .map_err(|e| anyhow::anyhow!("no vectors for area `{area}` in {}: {e}", dir.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    Ok(files)
}

/// Runs one file of cases.
///
/// # Errors
/// The file cannot be read or is not a list of cases.
pub fn run_file(area: &str, path: &Path) -> anyhow::Result<Report> {
    let stem = path
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default()
        .to_owned();
    let cases = cases_of(path)?;
    let mut report = Report {
        file: format!("{area}/{stem}.json"),
        passed: 0,
        failed: Vec::new(),
        left_out: Vec::new(),
    };
    for case in &cases {
        let id = id_of(case);
        if let Some(why) = left_out(area, &stem) {
            report.left_out.push((id, why.to_owned()));
            continue;
        }
        let judged = std::panic::catch_unwind(|| {
            if area == "backends" {
                return backends::run(&stem, case);
            }
            let function = case["fn"].as_str().unwrap_or("?");
            judge(case, &call(area, &stem, function, case))
        });
        match judged.unwrap_or_else(|_| Err("panicked".to_owned())) {
            Ok(()) => report.passed += 1,
            Err(why) => report.failed.push((id, why)),
        }
    }
    Ok(report)
}

/// Returns the cases of a file: a list, one under `cases`, or samples with checks of flags.
fn list(parsed: &Value) -> Option<Vec<Value>> {
    if parsed["samples"].is_array() {
        let parts = ["samples", "flag_checks"];
        let parts = parts.iter().filter_map(|part| parsed[*part].as_array());
        return Some(parts.flatten().cloned().collect());
    }
    parsed.get("cases").unwrap_or(parsed).as_array().cloned()
}

/// Returns what names a case.
fn id_of(case: &Value) -> String {
    let id = case["id"].as_str().or(case["flag"].as_str());
    id.unwrap_or("?").to_owned()
}

/// Returns why a case cannot be run yet.
fn left_out(area: &str, stem: &str) -> Option<&'static str> {
    let is_covered = match area {
        "benchmarks" => matches!(stem, "searchqa" | "splits"),
        "backends" => backends::FILES.contains(&stem),
        _ => true,
    };
    (!is_covered).then_some("what its file is about is a later part")
}

/// Calls our counterpart of the reference's function. The whole case is handed over, so that a
/// case with extra fields (`encoding`, `files`) can be read; most look at `case["input"]` only.
fn call(area: &str, stem: &str, function: &str, case: &Value) -> Outcome {
    match (area, stem) {
        (
            "training",
            "edit_apply" | "patch_apply" | "protected_fields" | "json_extract" | "skill_hash",
        ) => edits::call(function, case),
        ("training", "gate" | "lr_schedules") => gate::call(function, case),
        ("training", "config" | "role_backends") => config::call(function, case),
        ("training", "train_loop") => train_loop::call(function, case),
        ("training", "splits") | ("benchmarks", "splits") => splits::call(area, function, case),
        ("training", _) => stages::call(function, case),
        ("benchmarks", _) => benchmarks::call(stem, function, case),
        _ => Err(format!("no counterpart for `{function}` of {area}/{stem}")),
    }
}

/// Compares what we saw with what the case wants.
fn judge(case: &Value, seen: &Outcome) -> Result<(), String> {
    if let Some(options) = case.get("accept_any_of").and_then(Value::as_array) {
        if options.iter().any(|want| matches(want, seen, false)) {
            return Ok(());
        }
        return Err(format!("got {}, wanted any of {options:?}", show(seen)));
    }
    let (want, partial) = match case.get("right") {
        // A sentence is a rule to follow, nothing to compare: the case's expectation stands.
        Some(Value::String(_)) | None => (&case["expected"], false),
        Some(right) => (right, true),
    };
    if matches(want, seen, partial) {
        Ok(())
    } else {
        Err(format!("got {}, wanted {want}", show(seen)))
    }
}

fn show(seen: &Outcome) -> String {
    match seen {
        Ok(value) => value.to_string(),
        Err(error) => format!("error `{error}`"),
    }
}

fn matches(want: &Value, seen: &Outcome, partial: bool) -> bool {
    let wants_error = want.get("raises").is_some();
    match seen {
        // A missing counterpart must never pass for a wanted error.
        Err(error) => wants_error && !error.starts_with("no counterpart"),
        Ok(value) => !wants_error && same(want, value, partial),
    }
}

/// Compares values: numbers within 1e-12, keys in any order, lists in order; `partial` looks only
/// at the keys that `want` names.
#[must_use]
pub fn same(want: &Value, seen: &Value, partial: bool) -> bool {
    match (want, seen) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a == b || (a - b).abs() <= 1e-12 * a.abs().max(1.0),
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, partial))
        }
        (Value::Object(a), Value::Object(b)) => {
            (partial || a.len() == b.len())
                && a.iter()
                    .all(|(k, a)| b.get(k).is_some_and(|b| same(a, b, partial)))
        }
        _ => want == seen,
    }
}
