//! `skillopt workers`: who runs jobs, and how they are.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use skillopt_proto::v1::{DrainWorkerRequest, ListWorkersRequest, Worker};
use skillopt_runtime::clock::unix_ms;

use crate::args::{DrainArgs, WorkersArgs, WorkersCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::table::table;
use crate::output::words::{age, count};
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
    if out.json {
        for worker in &answer.workers {
            out.object("worker", json(worker));
        }
        return Ok(Exit::Done);
    }
    if answer.workers.is_empty() {
        out.chat("no worker; start one with `skillopt worker --redis URL`");
        return Ok(Exit::Done);
    }
    let now = unix_ms();
    let head = [
        "worker", "state", "age", "slots", "done", "failed", "version", "jobs",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(answer.workers.iter().map(|worker| row(worker, now)));
    for line in table(&rows) {
        out.line(line);
    }
    for worker in answer.workers.iter().filter(|w| !w.cause.is_empty()) {
        out.line(format!(
            "{}: {}",
            out.paint.of(Tone::Warn, &worker.id),
            worker.cause
        ));
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
    let worker = answer.worker.unwrap_or_default();
    if out.json {
        out.object("worker", json(&worker));
    } else {
        out.line(format!("worker {} {}", worker.id, worker.state));
    }
    Ok(Exit::Done)
}

fn row(worker: &Worker, now: u64) -> Vec<String> {
    vec![
        worker.id.clone(),
        worker.state.clone(),
        age(now.saturating_sub(worker.started_ms)),
        slots(worker),
        count(worker.jobs_done),
        count(worker.jobs_failed),
        worker.version.clone(),
        jobs(&worker.jobs),
    ]
}

/// Says how many slots of each kind are busy: `chat 12/256, exec 0/4`.
fn slots(worker: &Worker) -> String {
    let sorted: BTreeMap<&String, &u32> = worker.slots.iter().collect();
    let parts: Vec<String> = sorted
        .into_iter()
        .map(|(kind, n)| format!("{kind} {}/{n}", worker.busy.get(kind).copied().unwrap_or(0)))
        .collect();
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

fn json(worker: &Worker) -> Value {
    let sorted = |map: &std::collections::HashMap<String, u32>| -> BTreeMap<String, u32> {
        map.iter().map(|(kind, n)| (kind.clone(), *n)).collect()
    };
    let cause = (!worker.cause.is_empty()).then_some(&worker.cause);
    json!({
        "id": worker.id,
        "state": worker.state,
        "cause": cause,
        "version": worker.version,
        "started_unix_ms": worker.started_ms,
        "seen_unix_ms": worker.seen_ms,
        "slots": sorted(&worker.slots),
        "busy": sorted(&worker.busy),
        "lanes": worker.lanes,
        "jobs_done": worker.jobs_done,
        "jobs_failed": worker.jobs_failed,
        "jobs": worker.jobs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_jobs_in_words() {
        let worker = Worker {
            slots: [("exec".to_owned(), 4), ("chat".to_owned(), 256)].into(),
            busy: [("chat".to_owned(), 12)].into(),
            ..Worker::default()
        };
        assert_eq!(slots(&worker), "chat 12/256, exec 0/4");
        assert_eq!(slots(&Worker::default()), "—");
        let names = |n: usize| (0..n).map(|i| format!("{i:064}")).collect::<Vec<_>>();
        assert_eq!(jobs(&names(0)), "—");
        assert_eq!(jobs(&names(1)), "000000000000");
        assert!(jobs(&names(5)).ends_with(" and 2 more"));
    }
}
