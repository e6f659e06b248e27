//! Streams that agent CLIs printed, each with what a reader must make of it. One CLI is one folder.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use skillopt_agents::cli;
use skillopt_agents::streams::{Dialect, End, Stream};

use super::{Report, same, vectors_dir};

/// Facts of the capture that no reader can see.
const CAPTURE: &[&str] = &["file", "scenario", "exit_code", "http_requests", "events"];

/// Runs the streams of every CLI.
pub(super) fn run() -> anyhow::Result<Vec<Report>> {
    let dir = vectors_dir().join("exec-streams");
    let known = cli::ALL.iter().map(|cli| cli.dialect);
    let found = known.filter(|dialect| dir.join(dialect.name).is_dir());
    let reports: Vec<Report> = found
        .map(|dialect| run_folder(dialect, &dir.join(dialect.name)))
        .collect::<anyhow::Result<_>>()?;
    anyhow::ensure!(!reports.is_empty(), "no streams in {}", dir.display());
    Ok(reports)
}

fn run_folder(dialect: Dialect, dir: &Path) -> anyhow::Result<Report> {
    let list = dir.join("expected.json");
    let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let cases: Vec<Value> = serde_json::from_str(&text)?;
    let mut report = Report {
        file: format!("exec-streams/{}", dialect.name),
        passed: 0,
        failed: Vec::new(),
        left_out: Vec::new(),
    };
    for case in &cases {
        let file = case["file"].as_str().unwrap_or_default();
        let bytes = std::fs::read(dir.join(file)).with_context(|| file.to_owned())?;
        match judge(dialect, case, &bytes)? {
            Ok(()) => report.passed += 1,
            Err(why) => report.failed.push((file.to_owned(), why)),
        }
    }
    Ok(report)
}

fn judge(dialect: Dialect, case: &Value, bytes: &[u8]) -> anyhow::Result<Result<(), String>> {
    let mut stream = Stream::new(dialect);
    for line in bytes.split(|byte| *byte == b'\n') {
        stream.line(line);
    }
    let exit_code = case["exit_code"]
        .as_i64()
        .and_then(|code| i32::try_from(code).ok());
    // That a signal was sent is known to whoever sent it, not to the stream.
    let scenario = case["scenario"].as_str().unwrap_or_default();
    let account = stream.end(End {
        exit_code,
        was_told_to_go: scenario.contains("SIGTERM"),
    });
    let seen = serde_json::to_value(&account)?;
    let mut want = case.clone();
    if let Some(want) = want.as_object_mut() {
        want.retain(|key, _| !CAPTURE.contains(&key.as_str()));
    }
    if same(&want, &seen, false) {
        Ok(Ok(()))
    } else {
        Ok(Err(format!("got {seen}, wanted {want}")))
    }
}
