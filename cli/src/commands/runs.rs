//! `skillopt runs`: the runs below a folder.

mod remote;

use std::path::{Path, PathBuf};

use serde_json::json;
use skillopt_coordinator::read_model::{EvaluationRow, RunRow, points, share};

use crate::args::RunsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::{Found, is_run};
use crate::output::Out;
use crate::output::table::table;
use crate::output::words::number;

/// Where runs are if nobody says so.
const BELOW: &str = "outputs";
/// Folders below folders that are looked into.
const DEPTH_MAX: usize = 4;
/// Runs that are listed.
const RUNS_MAX: usize = 10_000;

pub(crate) fn run(args: &RunsArgs, out: &Out) -> Result<Exit, Failure> {
    // A folder that is named is on this machine.
    if args.dir.is_none() && args.remote.coordinator.is_some() {
        return remote::run(args, out);
    }
    let dir = args.dir.as_deref().unwrap_or(Path::new(BELOW));
    if !dir.is_dir() {
        return Err(
            Failure::usage(format!("`{}` is no folder", dir.display())).hint(
                "`skillopt train` and `skillopt demo` write to `outputs` unless told otherwise",
            ),
        );
    }
    let mut dirs = Vec::new();
    collect(dir, DEPTH_MAX, &mut dirs);
    let head = ["run", "state", "steps", "initial", "best", "test", "lift"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let head = ["evaluation", "state", "split", "items", "exact", "partial"];
    let mut evaluations = vec![head.map(str::to_owned).to_vec()];
    for dir in &dirs {
        match Found::read(dir, None) {
            Ok(found) if out.json => tell(dir, &found, out),
            Ok(found) => match &found.view.evaluation {
                Some(evaluation) => evaluations.push(evaluation_row(dir, evaluation)),
                None => rows.push(row(dir, &found.view.run)),
            },
            // One damaged run must not hide the others.
            Err(failure) => {
                let why = failure
                    .errors
                    .first()
                    .map(|e| e.message.clone())
                    .unwrap_or_default();
                out.note(format!("{}: {why}", dir.display()));
            }
        }
    }
    if out.json {
        return Ok(Exit::Done);
    }
    if dirs.is_empty() {
        out.chat(format!("no runs below `{}`", dir.display()));
        return Ok(Exit::Done);
    }
    tables([rows, evaluations], out);
    Ok(Exit::Done)
}

/// Shows those tables that have rows below their head.
fn tables<const N: usize>(all: [Vec<Vec<String>>; N], out: &Out) {
    let with_rows = all.into_iter().filter(|t| t.len() > 1);
    for (i, rows) in with_rows.enumerate() {
        if i > 0 {
            out.line("");
        }
        for line in table(&rows) {
            out.line(line);
        }
    }
}

fn tell(dir: &Path, found: &Found, out: &Out) {
    let notice = &found.notice;
    match &found.view.evaluation {
        Some(row) => out.object(
            "evaluation",
            json!({"dir": dir, "evaluation": row, "notice": notice}),
        ),
        None => out.object(
            "run",
            json!({"dir": dir, "run": found.view.run, "notice": notice}),
        ),
    }
}

pub(crate) fn collect(dir: &Path, depth: usize, runs: &mut Vec<PathBuf>) {
    if runs.len() >= RUNS_MAX {
        return;
    }
    if is_run(dir) {
        runs.push(dir.to_owned());
        return;
    }
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let mut below: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            entry
                .ok()
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        })
        .map(|entry| entry.path())
        .collect();
    below.sort();
    for dir in below {
        collect(&dir, depth, runs);
    }
}

fn row(dir: &Path, run: &RunRow) -> Vec<String> {
    let mut cells = vec![dir.display().to_string(), run.state.clone()];
    cells.extend(numbers(run));
    cells
}

/// The numbers of a run's row.
fn numbers(run: &RunRow) -> Vec<String> {
    vec![
        format!("{} of {}", run.steps_done, number(run.steps_total)),
        share(run.baseline),
        share(run.best),
        share(run.test.best),
        run.lift
            .map_or_else(|| "—".to_owned(), |lift| points(lift.mean)),
    ]
}

fn evaluation_row(dir: &Path, row: &EvaluationRow) -> Vec<String> {
    vec![
        dir.display().to_string(),
        row.state.clone(),
        row.split.clone(),
        number(row.n),
        share(row.hard),
        share(row.soft),
    ]
}
