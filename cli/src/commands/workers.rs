//! `skillopt workers`: who runs jobs, and how they are.

use serde_json::json;
use skillopt_coordinator::read_model::WorkerRow;
use skillopt_proto::v1::{DrainWorkerRequest, ListWorkersRequest, Worker};
use skillopt_runtime::clock::unix_ms;

use crate::args::{DrainArgs, WorkersArgs, WorkersCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::table::table;
use crate::output::words::{count, harmless, span};
use crate::output::{Out, Tone};
use crate::remote;

pub(crate) fn run(args: &WorkersArgs, out: &Out) -> Result<Exit, Failure> {
    if let Some(WorkersCommand::Drain(args)) = &args.command {
        return drain(args, out);
    }
    let answer = remote::ask(&args.remote, out, async |remote| {
        remote
            .call(async |clients| clients.cluster().list_workers(ListWorkersRequest {}).await)
            .await
    })?;
    let now = unix_ms();
    let workers: Vec<WorkerRow> = answer.workers.into_iter().map(|w| row_of(w, now)).collect();
    if out.json {
        for worker in &workers {
            out.object("worker", json!(worker));
        }
        return Ok(Exit::Done);
    }
    if workers.is_empty() {
        out.chat("no worker; start one with `skillopt worker --redis URL`");
        return Ok(Exit::Done);
    }
    let head = [
        "worker", "state", "age", "slots", "done", "failed", "version", "jobs",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(workers.iter().map(|worker| cells(worker, now)));
    for line in table(&rows) {
        out.line(line);
    }
    for worker in &workers {
        if let Some(cause) = &worker.cause {
            let name = out.paint.of(Tone::Warn, &harmless(&worker.worker));
            out.line(format!("{name}: {}", harmless(cause)));
        }
    }
    Ok(Exit::Done)
}

fn drain(args: &DrainArgs, out: &Out) -> Result<Exit, Failure> {
    let asked = DrainWorkerRequest {
        id: args.name.clone(),
    };
    let answer = remote::ask(&args.remote, out, async |remote| {
        remote
            .call(async |clients| clients.cluster().drain_worker(asked.clone()).await)
            .await
    })?;
    let worker = row_of(answer.worker.unwrap_or_default(), unix_ms());
    if out.json {
        out.object("worker", json!(worker));
    } else {
        out.line(format!(
            "worker {} {}",
            harmless(&worker.worker),
            worker.state
        ));
    }
    Ok(Exit::Done)
}

/// Returns the row that all views of a worker show.
fn row_of(worker: Worker, now: u64) -> WorkerRow {
    WorkerRow {
        worker: worker.id,
        state: worker.state,
        cause: Some(worker.cause).filter(|cause| !cause.is_empty()),
        version: worker.version,
        started_unix_ms: worker.started_ms,
        silent_ms: now.saturating_sub(worker.seen_ms),
        slots: worker.slots.into_iter().collect(),
        busy: worker.busy.into_iter().collect(),
        lanes: worker.lanes,
        jobs_done: worker.jobs_done,
        jobs_failed: worker.jobs_failed,
        jobs: worker.jobs,
    }
}

fn cells(worker: &WorkerRow, now: u64) -> Vec<String> {
    vec![
        harmless(&worker.worker),
        worker.state.clone(),
        span(now.saturating_sub(worker.started_unix_ms)),
        slots(worker),
        count(worker.jobs_done),
        count(worker.jobs_failed),
        harmless(&worker.version),
        jobs(&worker.jobs),
    ]
}

/// Says how many slots of each kind are busy: `chat 12/256, exec 0/4`.
fn slots(worker: &WorkerRow) -> String {
    let of_kind = |(kind, n): (&String, &u32)| {
        let busy = worker.busy.get(kind).copied().unwrap_or(0);
        format!("{kind} {busy}/{n}")
    };
    let parts: Vec<String> = worker.slots.iter().map(of_kind).collect();
    if parts.is_empty() {
        "—".to_owned()
    } else {
        parts.join(", ")
    }
}

/// Jobs that are named in the table.
const JOBS_SHOWN: usize = 3;

fn jobs(jobs: &[String]) -> String {
    let named: Vec<&str> = jobs
        .iter()
        .take(JOBS_SHOWN)
        .map(|job| job.get(..12).unwrap_or(job))
        .collect();
    let more = jobs.len().saturating_sub(JOBS_SHOWN);
    match (named.is_empty(), more) {
        (true, _) => "—".to_owned(),
        (false, 0) => named.join(" "),
        (false, more) => format!("{} and {more} more", named.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_jobs_in_words() {
        let worker = WorkerRow {
            slots: [("exec".to_owned(), 4), ("chat".to_owned(), 256)].into(),
            busy: [("chat".to_owned(), 12)].into(),
            ..WorkerRow::default()
        };
        assert_eq!(slots(&worker), "chat 12/256, exec 0/4");
        assert_eq!(slots(&WorkerRow::default()), "—");
        let names = |n: usize| (0..n).map(|i| format!("{i:064}")).collect::<Vec<_>>();
        assert_eq!(jobs(&names(0)), "—");
        assert_eq!(jobs(&names(1)), "000000000000");
        assert!(jobs(&names(5)).ends_with(" and 2 more"));
    }
}
