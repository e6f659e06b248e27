//! `skillopt show --coordinator`: a run of a cluster, shown as one of this machine.

use std::path::Path;

use serde_json::Map;
use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::read_model::{RunView, is_over};
use skillopt_proto::v1::{GetRunRequest, GetRunResponse, Run};
use skillopt_queue::RunId;

use super::show;
use crate::advice::{Roles, advice};
use crate::args::ShowArgs;
use crate::commands::sweep_results;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::{Found, Notice};
use crate::output::Out;
use crate::remote::{self, Remote, Wanted, run_state};

pub(super) fn run(args: &ShowArgs, out: &Out) -> Result<Exit, Failure> {
    let id = args.run.to_string_lossy().into_owned();
    let scratch = tempfile::tempdir()?;
    let found = remote::ask(&args.remote, out, async |remote| {
        // A sweep has an id of its own.
        if let Some(sweep) = sweep_results::find(remote, &id).await? {
            return Ok(Either::Sweep(Box::new(sweep)));
        }
        let run = find(remote, &id, args.step, scratch.path()).await?;
        Ok(Either::Run(Box::new(run)))
    })?;
    match found {
        Either::Run(found) => show(&found, args, out),
        Either::Sweep(sweep) => {
            sweep_results::print(&sweep, out)?;
            Ok(Exit::Done)
        }
    }
}

/// What an id stands for.
enum Either {
    Run(Box<Found>),
    Sweep(Box<sweep_results::Shown>),
}

/// Asks for a run, and for those files of its folder that are shown.
async fn find(
    remote: &Remote,
    id: &str,
    step: Option<u64>,
    scratch: &Path,
) -> Result<Found, Failure> {
    let request = GetRunRequest { id: id.to_owned() };
    let answer = remote
        .call(async |clients| clients.runs().get_run(request.clone()).await)
        .await?;
    let found = found(&answer, scratch)?;
    let run = &found.view.run;
    let has_texts = step.is_some() || run.best_step.is_some_and(|step| step > 0);
    if has_texts && found.view.evaluation.is_none() {
        let only = ["best_skill.md", "skills/", "steps/"];
        let is_text = |path: &str| {
            path == only[0] || path.starts_with(only[1]) || path.ends_with("/candidate_skill.md")
        };
        let wanted = Wanted {
            store: false,
            only: &only,
            keep: &is_text,
        };
        let id = found.cluster_run.as_deref().unwrap_or(id);
        remote::download(remote, id, scratch, wanted).await?;
    }
    Ok(found)
}

fn found(answer: &GetRunResponse, folder: &Path) -> Result<Found, Failure> {
    let run = answer.run.clone().unwrap_or_default();
    let damaged = |e: serde_json::Error| {
        Failure::usage(format!("a row of run {} cannot be read: {e}", run.id))
            .hint("the coordinator is of another release; use the same one on both sides")
    };
    let is_evaluation = run.kind == "eval";
    let mut view = RunView::new(&run.id);
    if is_evaluation {
        view.evaluation = Some(serde_json::from_str(&run.row_json).map_err(damaged)?);
    } else if !run.row_json.is_empty() {
        view.run = serde_json::from_str(&run.row_json).map_err(damaged)?;
        for row in &answer.step_json {
            view.steps.push(serde_json::from_str(row).map_err(damaged)?);
        }
    }
    let state = run_state(&run);
    let baseline_in = view.run.baseline_in;
    view.stands(&state, baseline_in);
    let notice = notice(&run, &state);
    Ok(Found {
        folder: RunFolder::new(folder),
        run: RunId::new(&view.run.run),
        facts: Map::new(),
        command: run.kind.clone(),
        store: RunFolder::new(folder).store(),
        events: Vec::new(),
        view,
        notice,
        cluster_run: Some(run.id),
    })
}

/// Says why a run is not going on.
fn notice(run: &Run, state: &str) -> Option<Notice> {
    let stands = state.starts_with("paused") || state == "failed";
    stands.then(|| Notice {
        state: state.to_owned(),
        cause: Some(run.cause.clone()).filter(|cause| !cause.is_empty()),
        at_unix_ms: Some(run.ended_ms).filter(|ms| *ms > 0 && is_over(state)),
        fix: advice(&run.cause, &Roles::default()),
    })
}
