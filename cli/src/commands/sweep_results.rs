//! What a sweep came to: shown, and written to a folder.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use skillopt_coordinator::read_model::{count, is_over};
use skillopt_coordinator::sweep::folder;
use skillopt_coordinator::sweep::observed::Observed;
use skillopt_coordinator::sweep::results::Results;
use skillopt_coordinator::sweep::table as tables;
use skillopt_proto::v1::{Cell, GetSweepRequest, Sweep};
use skillopt_runtime::files;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::table::table;
use crate::output::words::{amount, plural};
use crate::output::{Out, Tone};
use crate::remote::{self, Remote, Wanted, run_json};

/// A sweep with its results.
pub(crate) struct Shown {
    pub(crate) state: String,
    pub(crate) results: Results,
    sweep: Sweep,
    observed: Observed,
}

#[derive(Deserialize)]
struct Both {
    results: Results,
    observed: Observed,
}

/// Asks for a sweep.
///
/// # Errors
/// Nobody answers, there is no such sweep, or its results cannot be read.
pub(crate) async fn fetch(remote: &Remote, id: &str) -> Result<Shown, Failure> {
    let asked = GetSweepRequest { id: id.to_owned() };
    let answer = remote
        .call(async |clients| clients.sweeps().get_sweep(asked.clone()).await)
        .await?;
    read(answer.sweep.unwrap_or_default())
}

/// Asks for a sweep; nothing if there is none.
///
/// # Errors
/// As [`fetch`].
pub(crate) async fn find(remote: &Remote, id: &str) -> Result<Option<Shown>, Failure> {
    let asked = GetSweepRequest { id: id.to_owned() };
    let answer = remote
        .find(async |clients| clients.sweeps().get_sweep(asked.clone()).await)
        .await?;
    answer.and_then(|answer| answer.sweep).map(read).transpose()
}

fn read(sweep: Sweep) -> Result<Shown, Failure> {
    let both: Both = serde_json::from_str(&sweep.results_json).map_err(|e| {
        Failure::usage(format!(
            "the results of sweep {} cannot be read: {e}",
            sweep.id
        ))
        .hint("the coordinator is of another release; use the same one on both sides")
    })?;
    Ok(Shown {
        state: sweep.state.clone(),
        results: both.results,
        observed: both.observed,
        sweep,
    })
}

/// Shows the results.
///
/// # Errors
/// They cannot be turned into JSON.
pub(crate) fn print(shown: &Shown, out: &Out) -> Result<(), Failure> {
    let unexpected = |e: serde_json::Error| Failure::new(Exit::Unexpected, e);
    if out.json {
        let results = serde_json::to_value(&shown.results).map_err(unexpected)?;
        let observed = serde_json::to_value(&shown.observed).map_err(unexpected)?;
        let sweep = json!({"id": shown.sweep.id, "name": shown.sweep.name, "state": shown.state,
            "cause": Some(&shown.sweep.cause).filter(|cause| !cause.is_empty())});
        out.object(
            "sweep",
            json!({"sweep": sweep, "results": results, "observed": observed}),
        );
        return Ok(());
    }
    let results = &shown.results;
    out.line(out.paint.of(Tone::Strong, &results.headline));
    for line in words(results, Some(&shown.observed)).iter().skip(1) {
        out.line(line);
    }
    if shown.state != "completed" {
        out.line("");
        let cause = match shown.sweep.cause.as_str() {
            "" => String::new(),
            cause => format!(": {cause}"),
        };
        out.line(format!(
            "sweep {} is {}{cause}",
            shown.sweep.id, shown.state
        ));
    }
    let counts = &results.counts;
    if counts.failed + counts.cancelled > 0 && is_over_or_ended(&shown.state) {
        out.chat(format!(
            "run failed and cancelled cells again with `skillopt retry {}`",
            shown.sweep.id
        ));
    }
    Ok(())
}

fn is_over_or_ended(state: &str) -> bool {
    state == "completed" || is_over(state)
}

/// The results in words; without `observed` they depend on the results alone.
fn words(results: &Results, observed: Option<&Observed>) -> Vec<String> {
    let mut lines = vec![
        results.headline.clone(),
        results.second.clone(),
        results.chance.clone(),
        String::new(),
    ];
    lines.extend(table(&tables::cells(results, observed)));
    lines.push(String::new());
    lines.extend(table(&tables::matrix(results)));
    let transfers = tables::transfers(results);
    if !transfers.is_empty() {
        lines.push(String::new());
        lines.extend(table(&transfers));
    }
    lines.push(String::new());
    let tokens = results.tokens;
    let cost = if results.counts.finished == 0 {
        "—".to_owned()
    } else {
        skillopt_coordinator::read_model::money(results.cost_usd)
    };
    lines.push(format!(
        "answers used: {} calls, {} tokens sent, {} received, {cost}",
        count(tokens.calls),
        amount(tokens.prompt_tokens),
        amount(tokens.completion_tokens)
    ));
    if let Some(observed) = observed {
        lines.extend(paid(observed));
    }
    lines
}

fn paid(observed: &Observed) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(paid) = observed.paid.filter(|paid| paid.requests > 0) {
        lines.push(format!(
            "paid for: {}, {} tokens, {}",
            plural(paid.requests, "call"),
            amount(paid.prompt_tokens + paid.completion_tokens),
            skillopt_coordinator::read_model::money(paid.cost_usd)
        ));
    }
    if let Some(wall) = observed.wall_s {
        lines.push(format!("took {}", tables::wall_words(wall)));
    }
    lines
}

/// Writes `sweep.json`, `sweep.csv` and `sweep.txt`, which are equal for equal sweeps, and
/// `timings.json`.
///
/// # Errors
/// The file system refuses.
pub(crate) fn write(shown: &Shown, dir: &Path) -> Result<(), Failure> {
    let words = words(&shown.results, None).join("\n") + "\n";
    let mut files = folder::files(&shown.results, &shown.observed)
        .map_err(|e| Failure::new(Exit::Unexpected, e))?;
    files.push(("sweep.txt", words.into_bytes()));
    for (name, bytes) in files {
        files::write_atomic(&dir.join(name), &bytes)?;
    }
    Ok(())
}

/// Fetches the run folders of all cells that have one.
///
/// # Errors
/// Nobody answers, a refusal, or the file system refuses.
pub(crate) async fn fetch_cells(
    remote: &Remote,
    shown: &Shown,
    dir: &Path,
    out: &Out,
) -> Result<(), Failure> {
    let wanted = Wanted {
        store: false,
        only: &[],
        keep: &|path| path != ".skillopt/lock",
    };
    let mut fetched = 0;
    for cell in &shown.sweep.cells {
        let Some(run) = cell.run.as_ref().filter(|run| !run.id.is_empty()) else {
            continue;
        };
        // Names have three plain parts; see the rules of sweep files.
        let folder = dir.join("cells").join(&cell.name);
        match remote::download(remote, &run.id, &folder, wanted).await {
            Ok(_) => fetched += 1,
            // A cell that failed may have no folder; that must not hide the others.
            Err(failure) if run.state == "failed" && failure.exit == Exit::Usage => {
                let why = failure.errors.first().map_or("", |e| e.message.as_str());
                out.note(format!(
                    "the folder of {} cannot be fetched: {why}",
                    cell.name
                ));
            }
            Err(failure) => return Err(failure),
        }
    }
    out.chat(format!(
        "{} are in {}",
        plural(fetched, "run folder"),
        dir.join("cells").display()
    ));
    Ok(())
}

/// A cell for programs.
pub(crate) fn cell_json(cell: &Cell) -> Value {
    json!({
        "cell": cell.name,
        "model": cell.model,
        "benchmark": cell.benchmark,
        "harness": cell.harness,
        "run": cell.run.as_ref().map(run_json),
    })
}
