//! What a run says of a job that the queue set aside because workers died over it.

use std::collections::BTreeSet;

use skillopt_core::job::Envelope;
use skillopt_queue::queue::DeadLetter;

/// Returns what people call the job; nothing if it is of another release.
pub(crate) fn label(dead: &DeadLetter) -> Option<String> {
    let envelope: Envelope = serde_json::from_slice(&dead.job).ok()?;
    Some(envelope.job.label())
}

/// Names the job, the workers that had it, and where the rest is told.
pub(super) fn cause(dead: &DeadLetter) -> String {
    let key = dead.key.0.short();
    let job = label(dead).map_or_else(
        || format!("job `{key}`"),
        |label| format!("{label} (job `{key}`)"),
    );
    let workers: BTreeSet<&str> = dead.evidence.iter().map(|e| &*e.worker).collect();
    let workers: Vec<String> = workers.iter().map(|name| format!("`{name}`")).collect();
    let held_by = match workers.as_slice() {
        [] => String::new(),
        workers => format!(" (held by {})", workers.join(", ")),
    };
    format!(
        "{job} was set aside: {}{held_by}; `skillopt why {key}` shows what happened",
        dead.failure.cause
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use skillopt_core::Hash;
    use skillopt_core::job::{ChatWork, Job, Key, Limits, VERSION, Work};
    use skillopt_queue::Timestamp;
    use skillopt_queue::queue::{Evidence, Failure};

    use super::*;

    fn letter(job: Bytes, workers: &[&str]) -> DeadLetter {
        let evidence = |(at, worker): (u64, &&str)| Evidence {
            at: Timestamp::from_ms(at),
            worker: (*worker).into(),
            what: "the lease ran out".to_owned(),
        };
        DeadLetter {
            key: Key(Hash::of(b"job")),
            job,
            runs: Vec::new(),
            deliveries: 3,
            retries: 0,
            losses: 3,
            evidence: (0..).zip(workers).map(evidence).collect(),
            failure: Failure {
                cause: "3 workers lost it".to_owned(),
                detail: Bytes::new(),
            },
        }
    }

    #[test]
    fn job_and_workers_are_named_each_once() {
        let work = ChatWork {
            stage: "merge".to_owned(),
            prompt: Hash::of(b"prompt"),
            model: Hash::of(b"model"),
            max_tokens: 10,
            reasoning_effort: None,
        };
        let envelope = Envelope {
            job: Job {
                version: VERSION,
                work: Work::Chat(work),
                repeat: 0,
                scope: String::new(),
            },
            limits: Limits {
                call_timeout_ms: 1_000,
                attempts: 1,
                retry_base_ms: 1,
                retry_cap_ms: 1,
                hedge_permille: 0,
            },
            payer: None,
        };
        let job = serde_json::to_vec(&envelope).unwrap();
        let key = Hash::of(b"job").short();
        assert_eq!(
            cause(&letter(job.into(), &["w-1", "w-2", "w-1"])),
            format!(
                "`merge` call (job `{key}`) was set aside: 3 workers lost it (held by `w-1`, \
                 `w-2`); `skillopt why {key}` shows what happened"
            )
        );
    }

    #[test]
    fn a_job_of_another_release_has_its_key_at_least() {
        let key = Hash::of(b"job").short();
        assert_eq!(
            cause(&letter("of another release".into(), &[])),
            format!(
                "job `{key}` was set aside: 3 workers lost it; `skillopt why {key}` shows what \
                 happened"
            )
        );
    }
}
