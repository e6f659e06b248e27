//! The reason of one job, or of jobs that have everything in common.

use skillopt_queue::queue::RunStats;
use skillopt_queue::rates::Account;
use skillopt_queue::{Lane, RunId, Timestamp};

use super::code::Code;
use super::facts::{Facts, JobFacts, Place, RunState};
use crate::scheduler::{Hold, Line};

/// From this many failures in ten minutes on, a paused account counts as down.
const DOWN_FAILURES: u64 = 5;

/// What helps against a rate.
const OTHER_QUOTA: &str = "a higher quota, or another account";
/// Longest cause that is shown, in bytes.
const CAUSE_BYTES_MAX: usize = 160;

/// A reason with what is particular to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) code: Code,
    pub(super) words: String,
    pub(super) help: String,
    /// When it goes on by itself, if that is known.
    pub(super) until: Option<Timestamp>,
}

impl Reason {
    fn new(code: Code, words: impl Into<String>, help: impl Into<String>) -> Self {
        let (words, help) = (words.into(), help.into());
        Self {
            code,
            words,
            help,
            until: None,
        }
    }

    const fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }
}

/// Returns why jobs of a line wait.
pub(super) fn of_line(facts: &Facts, line: &Line) -> Reason {
    let around = || around(facts, &line.run, &line.lane);
    let own = || match line.hold {
        Hold::Paused => Reason::new(
            Code::Paused,
            format!("run {} is paused", line.run),
            resume(&line.run),
        ),
        Hold::Own { out } => Reason::new(
            Code::Barrier,
            format!("{out} earlier jobs of run {} are out", line.run),
            "nothing: they are worked off in order; more slots make it faster",
        ),
        Hold::Others => Reason::new(
            Code::FairShare,
            "other runs go first",
            "a higher weight or priority for this run, or more slots",
        ),
    };
    let is_paused = line.hold == Hold::Paused;
    of_run(facts, &line.run).unwrap_or_else(|| {
        if is_paused {
            own()
        } else {
            around().unwrap_or_else(own)
        }
    })
}

/// Returns why a job in the queue waits; `None` if a worker runs it.
pub(super) fn of_job(facts: &Facts, job: &JobFacts) -> Option<Reason> {
    if is_running(facts, job) {
        return None;
    }
    let reason = of_run(facts, &job.run);
    let reason = reason.or_else(|| of_place(facts, &job.place));
    let reason = reason.or_else(|| around(facts, &job.run, &job.lane));
    Some(reason.unwrap_or_else(|| busy(&job.lane)))
}

/// Returns why jobs wait that are in the queue for a run of which no coordinator tells.
pub(super) fn of_left(facts: &Facts, left: &RunStats) -> Reason {
    let reason = of_run(facts, &left.run);
    let reason = reason.or_else(|| around(facts, &left.run, &left.lane));
    reason.unwrap_or_else(|| busy(&left.lane))
}

fn busy(lane: &Lane) -> Reason {
    Reason::new(
        Code::SlotsBusy,
        format!("all workers that offer `{lane}` are busy"),
        "more workers, or more slots for each",
    )
}

fn is_running(facts: &Facts, job: &JobFacts) -> bool {
    matches!(&job.place, Place::Leased { expires_at, .. } if *expires_at > facts.now)
}

fn of_run(facts: &Facts, run: &RunId) -> Option<Reason> {
    match &facts.runs.get(run)?.state {
        RunState::Running => None,
        RunState::Orphaned { takeover_ms } => Some(Reason::new(
            Code::NoCoordinator,
            format!("no coordinator holds run {run}"),
            format!(
                "one with room for another run takes it over within {}; if none has room, start \
                 another coordinator, or one with a larger --runs-max",
                seconds(*takeover_ms)
            ),
        )),
        RunState::Paused { by } => Some(Reason::new(
            Code::Paused,
            format!("run {run} is paused by {by}"),
            resume(run),
        )),
        RunState::OutOfBudget { cap } => Some(Reason::new(
            Code::Budget,
            format!("the cap is reached: {}", brief(cap)),
            "raise the cap, then resume the run",
        )),
    }
}

fn of_place(facts: &Facts, place: &Place) -> Option<Reason> {
    match place {
        Place::Dead { tries, cause } => Some(Reason::new(
            Code::SetAside,
            format!("failed {}, set aside: {}", times(*tries), brief(cause)),
            "look at its evidence, remove the cause, then resume the run: it is tried anew",
        )),
        Place::Delayed {
            until,
            cause: Some(cause),
        } => {
            if let Some(reason) = of_held(facts, cause) {
                return Some(reason.until(*until));
            }
            let words = format!("is tried again after: {}", brief(cause));
            let help = "nothing, unless the cause stays";
            Some(Reason::new(Code::RetryBackoff, words, help).until(*until))
        }
        Place::Delayed { until, cause: None } => {
            let words = "was asked for at a later time";
            Some(Reason::new(Code::RetryBackoff, words, "nothing").until(*until))
        }
        Place::Leased { worker, .. } => Some(Reason::new(
            Code::LeaseExpired,
            format!("worker `{worker}` stopped answering"),
            "nothing: it is given to another worker at once; look at the worker if it happens again",
        )),
        Place::Queued { losses } if *losses > 0 => Some(Reason::new(
            Code::LeaseExpired,
            format!(
                "back from workers that stopped answering, {}",
                times(*losses)
            ),
            "nothing: the next free worker takes it; look at the workers if it happens again",
        )),
        Place::Queued { .. } => None,
    }
}

/// Returns why a job was put off before its call was made; a worker says so beginning with
/// "`ACCOUNT` is not called now".
fn of_held(facts: &Facts, cause: &str) -> Option<Reason> {
    let (name, why) = cause.strip_prefix('`')?.split_once("` is not called now")?;
    let account = facts.accounts.iter().find(|account| account.name == name);
    let reason = account.and_then(|account| of_account(facts.now, account));
    Some(reason.unwrap_or_else(|| {
        let words = format!("account `{name}`{}", brief(why));
        Reason::new(Code::RateLimited, words, OTHER_QUOTA)
    }))
}

/// Returns what stands in the way of a lane's jobs outside of the scheduler.
fn around(facts: &Facts, run: &RunId, lane: &Lane) -> Option<Reason> {
    let account = facts.runs.get(run).and_then(|run| run.accounts.get(lane));
    let account = account.and_then(|name| facts.accounts.iter().find(|a| a.name == *name));
    if let Some(reason) = account.and_then(|account| of_account(facts.now, account)) {
        return Some(reason);
    }
    if !facts.lanes.contains(lane) {
        return Some(Reason::new(
            Code::NoCapability,
            format!("no live worker offers `{lane}`"),
            "start a worker that does: `skillopt worker`",
        ));
    }
    if let Some(away) = &facts.values_away {
        let help = "the place itself, or its credentials; nothing is lost meanwhile";
        return Some(Reason::new(Code::StorePressure, away, help));
    }
    let pressure = facts.store_pressure.as_ref()?;
    Some(Reason::new(
        Code::StorePressure,
        format!("the store is above its limit: {pressure}"),
        "more memory for it, or a shorter retention",
    ))
}

fn of_account(now: Timestamp, account: &Account) -> Option<Reason> {
    let name = &account.name;
    let until = Timestamp::from_ms(account.paused_until_ms);
    let is_paused = until > now;
    if is_paused && account.failed >= DOWN_FAILURES && account.failed > account.throttled {
        let words = format!("account `{name}`: its circuit is open");
        let help = format!(
            "{} failures in ten minutes: look at the provider",
            account.failed
        );
        return Some(Reason::new(Code::ProviderDown, words, help).until(until));
    }
    let is_full = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used >= limit);
    let limits = &account.limits;
    let what = if is_paused {
        "the provider asked to wait"
    } else if is_full(account.requests, limits.requests_per_minute) {
        "requests a minute are used up"
    } else if is_full(account.tokens, limits.tokens_per_minute) {
        "tokens a minute are used up"
    } else if is_full(account.in_flight, account.allowed.or(limits.concurrency)) {
        "calls at once are used up"
    } else {
        return None;
    };
    let words = format!("account `{name}`: {what}");
    let reason = Reason::new(Code::RateLimited, words, OTHER_QUOTA);
    Some(if is_paused {
        reason.until(until)
    } else {
        reason
    })
}

/// Returns the beginning of a cause, on one line.
fn brief(cause: &str) -> &str {
    let line = cause.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(CAUSE_BYTES_MAX)]
}

fn resume(run: &RunId) -> String {
    format!("`skillopt resume {run}`")
}

fn times(n: u32) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// Says how far ahead a time is.
pub(super) fn soon(now: Timestamp, until: Timestamp) -> String {
    match until.as_ms().saturating_sub(now.as_ms()) {
        0 => "now".to_owned(),
        ms => format!("in {}", seconds(ms)),
    }
}

/// Names a reason without anything particular.
pub(super) const fn in_general(code: Code) -> &'static str {
    match code {
        Code::NoCoordinator => "no coordinator holds their runs",
        Code::Paused => "their runs are paused",
        Code::Budget => "caps are reached",
        Code::SetAside => "failed too often, set aside",
        Code::RetryBackoff => "are tried again later",
        Code::LeaseExpired => "their workers stopped answering",
        Code::ProviderDown => "the circuits of accounts are open",
        Code::RateLimited => "the rates of accounts are used up",
        Code::NoCapability => "no live worker offers what they need",
        Code::StorePressure => "the store is above its limit, or large values cannot be stored",
        Code::Barrier => "earlier jobs of their runs are out",
        Code::FairShare => "other runs go first",
        Code::SlotsBusy => "all fitting workers are busy",
    }
}

fn seconds(ms: u64) -> String {
    let seconds = ms.div_ceil(1_000);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3_600)),
    }
}
