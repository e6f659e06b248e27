//! `skillopt runs --coordinator`: the runs of a cluster.

use serde_json::json;
use skillopt_coordinator::read_model::{EvaluationRow, RunRow, share};
use skillopt_proto::v1::{ListRunsRequest, Run};

use super::{numbers, tables};
use crate::args::RunsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::words::{harmless, number};
use crate::remote::{self, Remote, run_json, run_state};

/// Runs of one page.
const PAGE: u32 = 200;

pub(super) fn run(args: &RunsArgs, out: &Out) -> Result<Exit, Failure> {
    let runs = remote::ask(&args.remote, out, async |remote| list(remote, args).await)?;
    if out.json {
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
    if runs.is_empty() {
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
    tables([rows, evaluations], out);
    Ok(Exit::Done)
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

/// Lists the newest runs, page by page.
async fn list(remote: &Remote, args: &RunsArgs) -> Result<Vec<Run>, Failure> {
    let last = args.last as usize;
    let mut runs = Vec::new();
    let mut after = String::new();
    loop {
        let request = ListRunsRequest {
            after: after.clone(),
            page_size: PAGE.min(u32::try_from(last - runs.len()).unwrap_or(PAGE)),
            sweep: args.sweep.clone().unwrap_or_default(),
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
