//! Why something is not moving.

mod asked;
mod job;
mod reply;

use skillopt_core::Hash;
use skillopt_core::job::Key;
use skillopt_proto::v1;

use self::asked::{beginning, is_asked_for, is_mine, not_asked_for};
use self::job::job;
use self::reply::response;
use super::super::auth::Caller;
use super::super::error::Error;
use super::super::record::{RunRecord, State};
use super::super::runner::LEASE;
use super::super::table::Filter;
use super::super::teller::{self, RunJobs};
use super::Desk;
use crate::read_model::{WaitReason, plural};
use crate::sweep::record::Sweep;
use crate::waits::Code;

/// Runs of a sweep that are looked at.
const RUNS_MAX: usize = 1_000;

/// Answers for a run, a sweep or a job, or for all that the caller may see.
pub(super) async fn answer(
    desk: &Desk,
    caller: &Caller,
    id: &str,
) -> Result<v1::WhyResponse, Error> {
    let id = id.trim();
    if id.is_empty() {
        return cluster(desk, caller).await;
    }
    if let Ok(hash) = id.parse::<Hash>() {
        let key = Key(hash);
        // Whose it is cannot be told from its key: tenants with equal inputs share it.
        if !caller.is_global && !is_asked_for(desk, caller, key, id).await? {
            return Err(not_asked_for(caller, id));
        }
        return job(desk, caller, key).await;
    }
    let unknown = match desk.table.find(caller.limit(), id).await {
        Ok(stored) => return run(desk, &stored.run).await,
        Err(error @ Error::NotFound(_)) => error,
        Err(error) => return Err(error),
    };
    match desk.sweep(caller, id).await? {
        Some(one) => sweep(desk, &one).await,
        None => match beginning(desk, caller, id).await? {
            Some(key) => job(desk, caller, key).await,
            None => Err(unknown),
        },
    }
}

/// Answers for all runs that the caller may see.
async fn cluster(desk: &Desk, caller: &Caller) -> Result<v1::WhyResponse, Error> {
    let told = desk.teller.runs().await?;
    let mut mine = Vec::new();
    for (id, jobs) in &told {
        if is_mine(desk, caller, id).await? {
            mine.push(jobs);
        }
    }
    let mut jobs = teller::sum(mine);
    jobs.waits.sort_by_key(|wait| std::cmp::Reverse(wait.count));
    // Jobs under way wait for it without being counted.
    let away = match jobs.waits.first() {
        None => desk.teller.values_away().await?,
        Some(_) => None,
    };
    let words = match jobs.waits.first() {
        None if away.is_some() => away.unwrap_or_default(),
        None if jobs.running == 0 => "the cluster has nothing to do".to_owned(),
        None => format!("no job waits, {} under way", plural(jobs.running, "job")),
        Some(wait) => most(wait, jobs.waiting),
    };
    Ok(response(words, jobs))
}

fn most(wait: &WaitReason, waiting: u64) -> String {
    format!(
        "{} of {} waiting: {}\n{}",
        wait.count,
        plural(waiting, "job"),
        wait.words,
        wait.help
    )
}

async fn run(desk: &Desk, run: &RunRecord) -> Result<v1::WhyResponse, Error> {
    let told = desk.teller.runs().await?;
    let jobs = told.get(&run.id);
    let path = RunRecord::path(&run.id);
    let is_held = desk.parts.board.holder(&path).await?.is_some();
    let words = match run.state {
        State::Running if is_held => match desk.teller.values_away().await? {
            // Jobs under way wait for it as well, and so does what gives out new ones.
            Some(away) => away,
            None => moving(jobs, &run.coordinator),
        },
        State::Queued | State::Running => {
            let help = "if none has room, it waits until a run of theirs ends: start another \
                        coordinator, or one with a larger --runs-max";
            format!(
                "no coordinator works on it now; one with room for another run takes it within {} s\n{help}",
                LEASE.as_secs()
            )
        }
        State::Paused if run.cause.is_empty() => {
            format!(
                "it was paused by hand\n`skillopt resume {}` goes on",
                run.id
            )
        }
        State::Paused => format!(
            "it is paused ({}): {}\n`skillopt resume {}` goes on once the cause is gone",
            run.cause_class, run.cause, run.id
        ),
        over if run.cause.is_empty() => format!("it has ended: {}", over.word()),
        over => format!("it has ended: {}: {}", over.word(), run.cause),
    };
    let jobs = match run.state {
        State::Queued | State::Running => jobs.cloned().unwrap_or_default(),
        State::Paused => paused(run, jobs),
        _ => RunJobs::default(),
    };
    Ok(response(words, jobs))
}

/// Returns what is left of a paused run's jobs. Mostly that is none, for they were taken back; that it
/// is paused is said all the same.
fn paused(run: &RunRecord, left: Option<&RunJobs>) -> RunJobs {
    let code = match run.cause_class.as_str() {
        "budget" => Code::Budget,
        _ => Code::Paused,
    };
    let mut jobs = left.cloned().unwrap_or_default();
    if jobs.waiting == 0 {
        jobs.waits = vec![WaitReason {
            code: code.to_string(),
            words: format!("run {} is paused ({})", run.id, run.cause_class),
            help: format!("`skillopt resume {}`, once the cause is gone", run.id),
            ..WaitReason::default()
        }];
    }
    jobs
}

fn moving(jobs: Option<&RunJobs>, coordinator: &str) -> String {
    let Some(jobs) = jobs.filter(|jobs| jobs.waiting + jobs.running > 0) else {
        return format!("it has no jobs in the queue: coordinator `{coordinator}` is thinking");
    };
    let most = jobs.waits.iter().max_by_key(|wait| wait.count);
    match most {
        None => format!("it moves: {} under way", plural(jobs.running, "job")),
        Some(wait) => self::most(wait, jobs.waiting),
    }
}

async fn sweep(desk: &Desk, sweep: &Sweep) -> Result<v1::WhyResponse, Error> {
    let filter = Filter {
        sweep: sweep.id.clone(),
        ..Filter::default()
    };
    let runs = desk.table.list(&filter, "", RUNS_MAX).await?.runs;
    let told = desk.teller.runs().await?;
    let jobs = teller::sum(runs.iter().filter_map(|stored| told.get(&stored.run.id)));
    let count = |state: State| runs.iter().filter(|s| s.run.state == state).count() as u64;
    let over = runs.iter().filter(|s| s.run.state.is_over()).count();
    let mut words = format!(
        "{over} of {} have ended, {} at work, {} waiting for a coordinator, {} paused",
        plural(runs.len() as u64, "run"),
        count(State::Running),
        count(State::Queued),
        count(State::Paused),
    );
    let paused = runs
        .iter()
        .find(|s| s.run.state == State::Paused && !s.run.cause.is_empty());
    if let Some(stored) = paused {
        words.push_str(&format!("\nrun `{}`: {}", stored.run.id, stored.run.cause));
    }
    Ok(response(words, jobs))
}
