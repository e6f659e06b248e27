//! Waits for a run of the cluster as if it ran here: the same words, the same folder.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use skillopt_config::RunConfig;
use skillopt_coordinator::prepare::Prepared;
use skillopt_coordinator::progress::Progress;
use skillopt_coordinator::read_model::{RunRow, RunView, is_over};
use skillopt_proto::v1::{Progress as Reach, Run, WhyRequest};
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::Stopwatch;

use super::order::Order;
use super::send;
use crate::advice::Roles;
use crate::commands::train::{kept, stopped};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::progress::Reporter;
use crate::output::words::harmless;
use crate::process;
use crate::remote::{self, News, Patience, Remote, Wanted, halt, run_state};
use crate::status::Status;

/// Time without news after which it is said why, and how often that is looked at.
const STILL: Duration = Duration::from_secs(5);

/// Our own files, which are the local program's, not the coordinator's.
const OURS: &[&str] = &[
    ".skillopt/lock",
    ".skillopt/store.sqlite.lock",
    ".skillopt/run.json",
    ".skillopt/status.json",
    ".skillopt/cluster.json",
];

/// Submits the run, follows it to its end and fetches its folder. `show` says what it will need.
///
/// # Errors
/// What stopped the run, or the waiting.
pub(super) fn wait(order: &Order, show: impl Fn(&Prepared), out: &Out) -> Result<RunView, Failure> {
    let prepared = &order.placed.prepared;
    let _claim = order.claim()?;
    write_status(order, "running", None)?;
    let shutdown = Shutdown::new();
    let reporter = Reporter::new(out, prepared.common.run.as_str(), &shutdown);
    let id = Arc::<OnceLock<String>>::default();
    let stop = shutdown.clone();
    let work = async {
        show(prepared);
        let remote = Remote::new(&order.address, Patience::WHOLE_RUN, out);
        let follow = async {
            let (run, _) = send::submit(order, &remote, out).await?;
            drop(id.set(run.id.clone()));
            let moved = Cell::new(Stopwatch::start());
            let asked = run.id.clone();
            let run = tokio::select! {
                biased;
                run = follow(&remote, run, &reporter, &moved) => run?,
                never = tell_waits(&remote, &asked, &reporter, &moved) => never,
            };
            reporter.finish();
            fetch(order, &remote, &run, out).await?;
            Ok(run)
        };
        tokio::select! {
            biased;
            ended = follow => ended,
            () = stop.drain.cancelled() => Err(left(id.get(), order)),
        }
    };
    let outcome = process::block_on(&shutdown, told(out, &id), work)?;
    reporter.finish();
    let run = outcome?;
    let view = reporter.view();
    conclude(order, &run, view)
}

/// Follows the run until it has ended or is paused; returns it as it is then.
async fn follow(
    remote: &Remote,
    run: Run,
    reporter: &Reporter,
    moved: &Cell<Stopwatch>,
) -> Result<Run, Failure> {
    let id = run.id.clone();
    let mut last = run;
    let mut reach: HashMap<String, u64> = HashMap::new();
    remote::watch(remote, &id, |news| {
        if !matches!(news, News::Run(_)) {
            moved.set(Stopwatch::start());
        }
        match news {
            News::Event(event) => reporter.tell(&Progress::Committed(&event)),
            News::Progress(progress) => rolled(&progress, &mut reach, reporter),
            News::Run(run) => last = *run,
        }
        // After the end of a run the rest of its log comes, then the stream ends by itself. A paused
        // one may stay so: all that there is of it is enough.
        !(last.state == "paused" && reporter.view().run.steps_done >= steps_done(&last))
    })
    .await?;
    Ok(last)
}

/// Says why nothing moves, once, and again when the reason is another.
async fn tell_waits<T>(
    remote: &Remote,
    id: &str,
    reporter: &Reporter,
    moved: &Cell<Stopwatch>,
) -> T {
    let mut told = String::new();
    loop {
        tokio::time::sleep(STILL).await;
        if moved.get().elapsed() < STILL {
            continue;
        }
        let request = WhyRequest { id: id.to_owned() };
        let answer = remote
            .call_once(async |clients| clients.cluster().why(request).await)
            .await;
        // It is a courtesy: whoever follows the run says what is wrong with the connection.
        let Ok(answer) = answer else { continue };
        let words = answer.words.lines().next().unwrap_or_default();
        if !words.is_empty() && words != told {
            reporter.say(&harmless(words));
            words.clone_into(&mut told);
        }
    }
}

/// Tells what came in since the last time.
fn rolled(progress: &Reach, reach: &mut HashMap<String, u64>, reporter: &Reporter) {
    let before = reach.insert(progress.stage.clone(), progress.done);
    let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    reporter.tell(&Progress::Rolled {
        stage: &progress.stage,
        n: whole(progress.done.saturating_sub(before.unwrap_or(0))),
        of: whole(progress.total),
    });
}

/// Steps that the coordinator knows of; none of a run without a row.
fn steps_done(run: &Run) -> u64 {
    let row: Option<RunRow> = serde_json::from_str(&run.row_json).ok();
    row.map_or(0, |row| row.steps_done)
}

/// Fetches the folder, as far as there is one.
async fn fetch(order: &Order, remote: &Remote, run: &Run, out: &Out) -> Result<(), Failure> {
    let root = order.folder().root().to_owned();
    let wanted = Wanted {
        store: true,
        only: &[],
        keep: &|path| !OURS.contains(&path),
    };
    let fetched = remote::download(remote, &run.id, &root, wanted).await;
    match fetched {
        Ok(_) => Ok(()),
        // What stopped the run is told first; the folder is only a picture of it.
        Err(failure) if run.state == "paused" || run.state == "cancelled" => {
            let why = failure.errors.first().map(|e| e.message.clone());
            out.chat(format!(
                "the folder could not be fetched: {}",
                why.unwrap_or_default()
            ));
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Turns the end of the run into the end of the command.
fn conclude(order: &Order, run: &Run, view: RunView) -> Result<RunView, Failure> {
    let state = run_state(run);
    let command = process::same_command(&order.placed.extra);
    let cause = (!run.cause.is_empty()).then_some(run.cause.as_str());
    write_status(order, &state, cause)?;
    if run.state == "paused" && run.cause_class == "person" {
        return Err(
            Failure::new(Exit::Paused, format!("run {} was paused by hand", run.id)).hint(format!(
                "{} are kept; `skillopt resume {}` goes on",
                kept(&view.run),
                run.id
            )),
        );
    }
    if let Some(halt) = halt(run) {
        let row: RunRow = serde_json::from_str(&run.row_json).unwrap_or(view.run);
        let roles = Roles::of(&order.config);
        return Err(stopped(halt, &row, &roles, &resume(run, &order.config)));
    }
    if run.state == "cancelled" {
        let kept = kept(&view.run);
        return Err(
            Failure::new(Exit::Cancelled, format!("run {} was cancelled", run.id))
                .hint(format!("{kept} are kept; begin again with `{command}`")),
        );
    }
    if !is_over(&run.state) {
        return Err(Failure::new(
            Exit::Unexpected,
            format!(
                "the coordinator stopped telling of run {}, which is {state}",
                run.id
            ),
        )
        .hint(format!("wait for it again with `{command}`")));
    }
    Ok(view)
}

/// Returns what goes on with a paused run: the same submission would only set the same limit again.
fn resume(run: &Run, config: &RunConfig) -> String {
    let resume = format!("skillopt resume {}", run.id);
    let twice = |n: u64| n.saturating_mul(2).to_string();
    let caps = [
        ("requests", config.budget_requests.map(twice)),
        ("tokens", config.budget_tokens.map(twice)),
        ("usd", config.budget_usd.map(|usd| (usd * 2.0).to_string())),
    ];
    for (flag, more) in caps {
        let what = if flag == "usd" { "dollars" } else { flag };
        if run
            .cause
            .contains(&format!("the cap of {what} of `run/{}`", run.id))
        {
            return format!("{resume} --{flag} {}", more.as_deref().unwrap_or("N"));
        }
    }
    resume
}

/// The person has gone; the run has not.
fn left(id: Option<&String>, order: &Order) -> Failure {
    let failure = Failure::new(Exit::Interrupted, "interrupted");
    let command = process::same_command(&order.placed.extra);
    match id {
        Some(id) => failure.hint(format!(
            "run {id} goes on in the cluster; wait for it again with `{command}`, or end it with \
             `skillopt cancel {id}`"
        )),
        None => failure.hint(format!("go on with `{command}`")),
    }
}

/// Says what Ctrl-C does.
fn told(out: &Out, id: &Arc<OnceLock<String>>) -> impl Fn(u32) + Send + Sync + 'static {
    let (out, id) = (out.clone(), Arc::clone(id));
    move |count| {
        if count == 1 && id.get().is_some() {
            out.note("leaving; the run goes on in the cluster");
        }
    }
}

fn write_status(order: &Order, state: &str, cause: Option<&str>) -> Result<(), Failure> {
    let status = Status {
        state: state.to_owned(),
        cause: cause.map(str::to_owned),
        ..Status::default()
    };
    Ok(status.write(&order.folder())?)
}
