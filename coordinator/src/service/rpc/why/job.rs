//! Why one job is not moving, and what became of it.

use skillopt_core::job::Key;
use skillopt_proto::v1;
use skillopt_queue::Timestamp;
use skillopt_queue::queue::{DeadLetter, JobState};

use super::super::super::auth::Caller;
use super::super::super::error::Error;
use super::super::super::teller::RunJobs;
use super::super::Desk;
use super::asked::is_mine;
use super::reply::response;
use crate::read_model::{WaitReason, span};
use crate::session::set_aside::label;
use crate::waits::Code;

pub(super) async fn job(desk: &Desk, caller: &Caller, key: Key) -> Result<v1::WhyResponse, Error> {
    let states = desk.parts.queue.states(&[key]).await;
    let states = states.map_err(|e| Error::Unavailable(e.to_string()))?;
    let now = desk.parts.board.now().await?;
    let state = states.into_iter().next().unwrap_or(JobState::Unknown);
    match &state {
        JobState::Unknown => {
            let found = desk.parts.store.results(&[key]).await?.pop().flatten();
            let words = if found.is_some() {
                "it is answered"
            } else {
                "the queue does not have it: it was not asked for yet, or was taken back"
            };
            Ok(response(words.to_owned(), RunJobs::default()))
        }
        JobState::Leased {
            worker,
            since,
            expires_at,
        } if *expires_at > now => {
            let age = now.since(*since).as_secs();
            let words = format!("worker `{worker}` has run it for {age} s");
            let jobs = RunJobs {
                running: 1,
                ..RunJobs::default()
            };
            Ok(response(words, jobs))
        }
        JobState::Dead(letter) => set_aside(desk, caller, letter, now).await,
        JobState::Waiting { .. } | JobState::Delayed { .. } | JobState::Leased { .. } => {
            let jobs = desk.teller.job(key, &state).await?.unwrap_or_default();
            let words = jobs.waits.first().map_or_else(
                || "it has just left the queue; ask again".to_owned(),
                |wait| format!("{}\n{}", wait.words, wait.help),
            );
            Ok(response(words, jobs))
        }
    }
}

/// Tells of a job that was set aside, with all that happened to it.
async fn set_aside(
    desk: &Desk,
    caller: &Caller,
    letter: &DeadLetter,
    now: Timestamp,
) -> Result<v1::WhyResponse, Error> {
    let mut resume = Vec::new();
    for run in &letter.runs {
        // Others may have asked for it, too.
        if is_mine(desk, caller, run.as_str()).await? {
            resume.push(format!("`skillopt resume {run}`"));
        }
    }
    let resume = match resume.as_slice() {
        [] => "resume its run".to_owned(),
        resume => resume.join(", "),
    };
    let died = letter.evidence.last().map_or(now, |evidence| evidence.at);
    let jobs = RunJobs {
        waits: vec![WaitReason {
            code: Code::SetAside.to_string(),
            words: headline(letter),
            help: format!(
                "look at what happened and at the logs of these workers, and remove the cause; \
                 then {resume}: it is tried anew"
            ),
            count: 1,
            oldest_ms: ms(now, died),
        }],
        waiting: 1,
        ..RunJobs::default()
    };
    Ok(response(account(letter, now), jobs))
}

fn headline(letter: &DeadLetter) -> String {
    let job = label(letter).unwrap_or_else(|| "it".to_owned());
    let tries = match letter.deliveries {
        1 => "one try".to_owned(),
        n => format!("{n} tries"),
    };
    let cause = &letter.failure.cause;
    format!("{job} was set aside after {tries}: {cause}")
}

/// Tells what happened to a job, oldest first, a line for each.
fn account(letter: &DeadLetter, now: Timestamp) -> String {
    let mut words = headline(letter);
    for evidence in &letter.evidence {
        let age = span(ms(now, evidence.at));
        // It may be of several lines.
        let what = evidence.what.lines().collect::<Vec<_>>().join("\n    ");
        words.push_str(&format!(
            "\n  {age} ago, worker `{}`: {what}",
            evidence.worker
        ));
    }
    words
}

fn ms(now: Timestamp, then: Timestamp) -> u64 {
    u64::try_from(now.since(then).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use skillopt_core::Hash;
    use skillopt_queue::queue::{Evidence, Failure};

    use super::*;

    #[test]
    fn what_happened_to_a_job_is_told_oldest_first() {
        let evidence = |at: u64, worker: &str, what: &str| Evidence {
            at: Timestamp::from_ms(at),
            worker: worker.into(),
            what: what.to_owned(),
        };
        let letter = DeadLetter {
            key: Key(Hash::of(b"job")),
            job: Bytes::new(),
            runs: Vec::new(),
            deliveries: 2,
            retries: 1,
            losses: 1,
            evidence: vec![
                evidence(1_000, "w-1", "503\nfrom afar"),
                evidence(9_000, "w-2", "the lease ran out"),
            ],
            failure: Failure {
                cause: "1 worker lost it".to_owned(),
                detail: Bytes::new(),
            },
        };
        assert_eq!(
            account(&letter, Timestamp::from_ms(10_000)),
            "it was set aside after 2 tries: 1 worker lost it\n  \
             9 s ago, worker `w-1`: 503\n    from afar\n  \
             1 s ago, worker `w-2`: the lease ran out"
        );
    }
}
