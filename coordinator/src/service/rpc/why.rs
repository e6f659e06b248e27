//! Why something is not moving.

use std::collections::BTreeSet;

use skillopt_core::Hash;
use skillopt_core::job::Key;
use skillopt_proto::v1;
use skillopt_queue::queue::JobState;

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
/// Shortest beginning of a job's key that is looked for.
const BEGINNING_MIN: usize = 4;

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
        if !caller.is_global && mine(desk, caller, id).await?.is_empty() {
            return Err(not_asked_for(caller, id));
        }
        return job(desk, key).await;
    }
    let unknown = match desk.table.find(caller.limit(), id).await {
        Ok(stored) => return run(desk, &stored.run).await,
        Err(error @ Error::NotFound(_)) => error,
        Err(error) => return Err(error),
    };
    match desk.sweep(caller, id).await? {
        Some(one) => sweep(desk, &one).await,
        None => match beginning(desk, caller, id).await? {
            Some(key) => job(desk, key).await,
            None => Err(unknown),
        },
    }
}

/// Returns the job whose key begins with `id`.
async fn beginning(desk: &Desk, caller: &Caller, id: &str) -> Result<Option<Key>, Error> {
    let is_key = id.len() >= BEGINNING_MIN && id.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_key {
        return Ok(None);
    }
    let mut keys = if caller.is_global {
        desk.teller.beginning(&id.to_ascii_lowercase()).await?
    } else {
        mine(desk, caller, id).await?
    };
    match (keys.pop_first(), keys.pop_first()) {
        (Some(a), Some(b)) => Err(Error::Invalid(format!(
            "`{id}` is the beginning of several jobs: `{a}`, `{b}`; type more of it"
        ))),
        (first, _) => Ok(first),
    }
}

/// Returns the jobs whose keys begin with `id` and that runs of the caller wait for here.
async fn mine(desk: &Desk, caller: &Caller, id: &str) -> Result<BTreeSet<Key>, Error> {
    let mut keys = BTreeSet::new();
    for (key, runs) in desk.teller.wanted(&id.to_ascii_lowercase()) {
        for run in runs {
            if is_mine(desk, caller, run.as_str()).await? {
                keys.insert(key);
                break;
            }
        }
    }
    Ok(keys)
}

fn not_asked_for(caller: &Caller, id: &str) -> Error {
    Error::NotFound(format!(
        "no run of tenant `{}` at this coordinator waits for job `{id}`; ask `skillopt why RUN`, or \
         with a token of the whole cluster",
        caller.tenant
    ))
}

async fn is_mine(desk: &Desk, caller: &Caller, run: &str) -> Result<bool, Error> {
    let Some(tenant) = caller.limit() else {
        return Ok(true);
    };
    let stored = desk.table.get(run).await?;
    Ok(stored.is_some_and(|stored| stored.run.tenant == tenant))
}

/// Answers for all runs that the caller may see.
async fn cluster(desk: &Desk, caller: &Caller) -> Result<v1::WhyResponse, Error> {
    let told = desk.teller.told().await?;
    let mut mine = Vec::new();
    for (id, jobs) in told.iter().flat_map(|told| &told.runs) {
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
    let told = desk.teller.told().await?;
    let jobs = told.iter().find_map(|told| told.runs.get(&run.id));
    let path = RunRecord::path(&run.id);
    let is_held = desk.parts.board.holder(&path).await?.is_some();
    let words = match run.state {
        State::Running if is_held => match desk.teller.values_away().await? {
            // Jobs under way wait for it as well, and so does what gives out new ones.
            Some(away) => away,
            None => moving(jobs, &run.coordinator),
        },
        State::Queued | State::Running => {
            let help =
                "see `skillopt runs`: the others of it may be full; start another coordinator";
            format!(
                "no coordinator holds it now; one takes it within {} s if it has room\n{help}",
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
        State::Running => jobs.cloned().unwrap_or_default(),
        // Its jobs have been taken back: none is counted.
        State::Paused => RunJobs {
            waits: vec![paused(run)],
            ..RunJobs::default()
        },
        _ => RunJobs::default(),
    };
    Ok(response(words, jobs))
}

fn paused(run: &RunRecord) -> WaitReason {
    let code = match run.cause_class.as_str() {
        "budget" => Code::Budget,
        _ => Code::Paused,
    };
    WaitReason {
        code: code.to_string(),
        words: format!("run {} is paused ({})", run.id, run.cause_class),
        help: format!("`skillopt resume {}`, once the cause is gone", run.id),
        ..WaitReason::default()
    }
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
    let told = desk.teller.told().await?;
    let of = |run: &RunRecord| told.iter().find_map(|told| told.runs.get(&run.id));
    let jobs = teller::sum(runs.iter().filter_map(|stored| of(&stored.run)));
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

async fn job(desk: &Desk, key: Key) -> Result<v1::WhyResponse, Error> {
    if let Some(jobs) = desk.teller.job(key).await? {
        let first = jobs.waits.first();
        if let Some(words) = first.map(|wait| format!("{}\n{}", wait.words, wait.help)) {
            return Ok(response(words, jobs));
        }
    }
    // It runs, or another coordinator has asked for it.
    let states = desk.parts.queue.states(&[key]).await;
    let states = states.map_err(|e| Error::Unavailable(e.to_string()))?;
    let now = desk.parts.board.now().await?;
    let one = |code: Code, words: String, help: &str, oldest_ms| RunJobs {
        waits: vec![WaitReason {
            code: code.to_string(),
            words,
            help: help.to_owned(),
            count: 1,
            oldest_ms,
        }],
        waiting: 1,
        running: 0,
    };
    let seconds = |ms: u64| ms / 1_000;
    let jobs = match states.into_iter().next().unwrap_or(JobState::Unknown) {
        JobState::Unknown => {
            let found = desk.parts.store.results(&[key]).await?.pop().flatten();
            let words = if found.is_some() {
                "it is answered"
            } else {
                "the queue does not have it: it was not asked for yet, or was taken back"
            };
            return Ok(response(words.to_owned(), RunJobs::default()));
        }
        JobState::Leased { worker, since, .. } => {
            let age = now.since(since).as_secs();
            let words = format!("worker `{worker}` has run it for {age} s");
            let jobs = RunJobs {
                running: 1,
                ..RunJobs::default()
            };
            return Ok(response(words, jobs));
        }
        JobState::Waiting { since, losses } => {
            let age = u64::try_from(now.since(since).as_millis()).unwrap_or(0);
            let (code, words) = if losses > 0 {
                let words = "the worker that had it stopped answering; another one takes it";
                (Code::LeaseExpired, words)
            } else {
                (Code::SlotsBusy, "all fitting workers are busy")
            };
            one(code, words.to_owned(), "start more workers", age)
        }
        JobState::Delayed { until, cause } => {
            let wait = until.as_ms().saturating_sub(now.as_ms());
            let words = format!(
                "it is tried again in {} s: {}",
                seconds(wait),
                cause.unwrap_or_default()
            );
            one(Code::RetryBackoff, words, "wait", 0)
        }
        JobState::Dead(letter) => {
            let words = format!(
                "it was set aside after {} tries: {}",
                letter.deliveries, letter.failure.cause
            );
            one(Code::SetAside, words, "`skillopt resume` tries it again", 0)
        }
    };
    let words = jobs.waits.first().map(|w| w.words.clone());
    Ok(response(words.unwrap_or_default(), jobs))
}

fn response(words: String, jobs: RunJobs) -> v1::WhyResponse {
    let wait = |wait: WaitReason| v1::Wait {
        code: wait.code,
        words: wait.words,
        count: wait.count,
        oldest_ms: wait.oldest_ms,
        help: wait.help,
    };
    v1::WhyResponse {
        words,
        waits: jobs.waits.into_iter().map(wait).collect(),
        waiting: jobs.waiting,
        running: jobs.running,
    }
}
