//! `skillopt runs --coordinator`: the runs of a cluster.

use serde_json::json;
use skillopt_coordinator::read_model::{EvaluationRow, RunRow, share};
use skillopt_proto::v1::{GetSweepRequest, ListRunsRequest, ListSweepsRequest, Run, Sweep};

use super::{numbers, tables};
use crate::args::RunsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::words::{harmless, number};
use crate::process::date;
use crate::remote::{self, Remote, run_json, run_state};

/// Sweeps that are shown, newest first.
const SWEEPS: u32 = 20;
/// Runs of one page.
const PAGE: u32 = 200;

pub(super) fn run(args: &RunsArgs, out: &Out) -> Result<Exit, Failure> {
    let (runs, sweeps) = remote::ask(&args.remote, out, async |remote| {
        let runs = list(remote, args).await?;
        let sweeps = match args.sweep {
            Some(_) => Vec::new(),
            None => list_sweeps(remote).await?,
        };
        Ok((runs, sweeps))
    })?;
    if out.json {
        for sweep in &sweeps {
            out.object(
                "sweep",
                json!({
                    "id": sweep.id,
                    "name": sweep.name,
                    "state": sweep.state,
                    "cells": sweep.cells_total,
                    "cells_ended": sweep.cells_over,
                    "cells_lost": sweep.cells_lost,
                }),
            );
        }
        for run in &runs {
            let kind = if run.kind == "eval" {
                "evaluation"
            } else {
                "run"
            };
            let row = row_of(run);
            let mut value = run_json(run);
            value[kind] = match &row {
                Row::Run(row) => json!(row),
                Row::Evaluation(row) => json!(row),
            };
            out.object(kind, value);
        }
        return Ok(Exit::Done);
    }
    if runs.is_empty() && sweeps.is_empty() {
        out.chat("no runs; `skillopt submit train CONFIG` begins one");
        return Ok(Exit::Done);
    }
    let head = [
        "run", "name", "state", "steps", "initial", "best", "test", "lift",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let head = [
        "evaluation",
        "name",
        "state",
        "split",
        "items",
        "exact",
        "partial",
    ];
    let mut evaluations = vec![head.map(str::to_owned).to_vec()];
    for run in &runs {
        let mut cells = vec![run.id.clone(), harmless(&run.name), run_state(run)];
        match row_of(run) {
            Row::Run(row) => {
                cells.extend(numbers(&row));
                rows.push(cells);
            }
            Row::Evaluation(row) => {
                cells.extend([
                    row.split.clone(),
                    number(row.n),
                    share(row.hard),
                    share(row.soft),
                ]);
                evaluations.push(cells);
            }
        }
    }
    let head = ["sweep", "name", "state", "cells ended", "submitted"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(sweeps.iter().map(|sweep| {
        vec![
            sweep.id.clone(),
            harmless(&sweep.name),
            sweep.state.clone(),
            cells(sweep),
            date(sweep.submitted_ms),
        ]
    }));
    tables([table, rows, evaluations], out);
    Ok(Exit::Done)
}

/// Says how far a sweep is: `30 of 52, 2 lost`.
fn cells(sweep: &Sweep) -> String {
    if sweep.cells_total == 0 {
        // A coordinator of an earlier release does not say.
        return "—".to_owned();
    }
    let lost = match sweep.cells_lost {
        0 => String::new(),
        n => format!(", {n} lost"),
    };
    format!("{} of {}{lost}", sweep.cells_over, sweep.cells_total)
}

enum Row {
    Run(Box<RunRow>),
    Evaluation(EvaluationRow),
}

/// Reads the row; one that is not there yet has no numbers.
fn row_of(run: &Run) -> Row {
    if run.kind == "eval" {
        Row::Evaluation(serde_json::from_str(&run.row_json).unwrap_or_default())
    } else {
        Row::Run(serde_json::from_str(&run.row_json).unwrap_or_default())
    }
}

/// Lists the newest sweeps.
async fn list_sweeps(remote: &Remote) -> Result<Vec<Sweep>, Failure> {
    let request = ListSweepsRequest {
        page_size: SWEEPS,
        ..ListSweepsRequest::default()
    };
    let page = remote
        .call(async |clients| clients.sweeps().list_sweeps(request.clone()).await)
        .await?;
    Ok(page.sweeps)
}

/// Returns the whole id of the sweep that was asked for, perhaps by its first characters.
async fn sweep_id(remote: &Remote, args: &RunsArgs) -> Result<String, Failure> {
    let Some(id) = &args.sweep else {
        return Ok(String::new());
    };
    let asked = GetSweepRequest { id: id.clone() };
    let answer = remote
        .find(async |clients| clients.sweeps().get_sweep(asked.clone()).await)
        .await?;
    let sweep = answer.and_then(|answer| answer.sweep).ok_or_else(|| {
        Failure::usage(format!("there is no sweep `{id}`"))
            .hint("`skillopt runs` without --sweep lists what there is")
    })?;
    Ok(sweep.id)
}

/// Lists the newest runs, page by page.
async fn list(remote: &Remote, args: &RunsArgs) -> Result<Vec<Run>, Failure> {
    let last = args.last as usize;
    let mut runs = Vec::new();
    let mut after = String::new();
    let sweep = sweep_id(remote, args).await?;
    loop {
        let request = ListRunsRequest {
            after: after.clone(),
            page_size: PAGE.min(u32::try_from(last - runs.len()).unwrap_or(PAGE)),
            sweep: sweep.clone(),
            ..ListRunsRequest::default()
        };
        let page = remote
            .call(async |clients| clients.runs().list_runs(request.clone()).await)
            .await?;
        runs.extend(page.runs);
        runs.truncate(last);
        if page.next.is_empty() || page.next == after || runs.len() == last {
            return Ok(runs);
        }
        after = page.next;
    }
}
