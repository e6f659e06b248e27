//! Runs one job, and decides what a failure means for it.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use skillopt_backends::policy::next_wait;
use skillopt_backends::{CallError, Disposition, Message, Role};
use skillopt_benchmarks::{RolloutError, Task, registry};
use skillopt_core::Hash;
use skillopt_core::job::{
    Answer, ChatRecord, ChatWork, Ending, Envelope, Failure, FailureClass, Limits, NO_ANSWER,
    RolloutRecord, RolloutWork, Work,
};
use skillopt_runtime::Retry;

use crate::blobs::Blobs;
use crate::calls::Calls;
use crate::meter::Instead;
use crate::stop::{Blame, Stop};
use crate::target::{Memory, SlotTarget, request};

/// How one delivery of a job ended.
pub(crate) enum Delivery {
    /// With a result to store.
    Done(Bytes),
    /// Without one; try again later.
    Later { wait: Duration, failure: Failure },
    /// Without one, for its calls could not be made now; nothing is counted against it.
    Postponed { wait: Duration, failure: Failure },
    /// For good; its run pauses.
    Lost(Failure),
    /// Without one, and it is this worker's fault: others may do better.
    Fault(String),
    /// Without one, for this machine failed it: others may do better; where there are none, it is as
    /// `alone` says.
    Ours { cause: String, alone: Box<Self> },
    /// Without one: this worker may not call the server. Another one may, or nobody.
    Elsewhere { endpoint: String, failure: Failure },
}

impl Delivery {
    /// Returns whether a fault of this machine may have caused it.
    pub(crate) fn may_be_ours(&self) -> bool {
        match self {
            Self::Done(_)
            | Self::Fault(_)
            | Self::Ours { .. }
            | Self::Postponed { .. }
            | Self::Elsewhere { .. } => false,
            Self::Later { failure, .. } | Self::Lost(failure) => {
                failure.class == FailureClass::Infrastructure
            }
        }
    }
}

enum Trouble {
    Stop(Stop),
    Call(CallError),
    Rollout(RolloutError),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// Runs the job of `calls`; `retries` is how often it was tried before.
pub(crate) async fn execute(blobs: &Blobs, calls: Calls<'_>, retries: u32) -> Delivery {
    let envelope = calls.envelope;
    let unit = unit(envelope, retries);
    let delivery = attempt(blobs, calls, retries, unit).await;
    // A call that was not made is no failure of the job, and no success either.
    match calls.noted.take() {
        None => delivery,
        Some(Instead::Later { wait, failure }) => Delivery::Postponed {
            // Jobs that wait for the same thing do not come back at the same moment.
            wait: wait.mul_f64(1.0 + unit / 4.0),
            failure,
        },
        Some(Instead::Refused(failure)) => Delivery::Lost(failure),
    }
}

async fn attempt(blobs: &Blobs, calls: Calls<'_>, retries: u32, unit: f64) -> Delivery {
    let envelope = calls.envelope;
    let result = match &envelope.job.work {
        Work::Rollout(work) => rollout(blobs, calls, work).await.and_then(|r| encode(&r)),
        Work::Chat(work) => chat(blobs, calls, work).await.and_then(|r| encode(&r)),
    };
    match result {
        Ok(bytes) => Delivery::Done(bytes),
        Err(trouble) => judge(trouble, envelope, retries, unit),
    }
}

fn encode(record: &impl serde::Serialize) -> Result<Bytes, Trouble> {
    let bytes = serde_json::to_vec(record);
    bytes
        .map(Bytes::from)
        .map_err(|e| Stop::infrastructure(e.to_string()).into())
}

/// Decides what a failed try means. The waits of different jobs and tries are spread by `unit`.
fn judge(trouble: Trouble, envelope: &Envelope, retries: u32, unit: f64) -> Delivery {
    let is_machine = matches!(
        &trouble,
        Trouble::Call(CallError::Machine { .. })
            | Trouble::Rollout(RolloutError::Call(CallError::Machine { .. }))
    );
    let (disposition, class, cause) = match trouble {
        Trouble::Stop(Stop { failure, blame }) => {
            let wait = policy(envelope.limits).wait(retries + 1, None, unit);
            return match (blame, wait) {
                (Blame::Here, _) => Delivery::Fault(failure.cause),
                (Blame::Elsewhere(endpoint), _) => Delivery::Elsewhere { endpoint, failure },
                (Blame::Passing, Some(wait)) => Delivery::Later { wait, failure },
                (Blame::Passing, None) | (Blame::Lasting, _) => Delivery::Lost(failure),
            };
        }
        Trouble::Call(e) | Trouble::Rollout(RolloutError::Call(e)) if is_ours(&e) => {
            return Delivery::Fault(e.to_string());
        }
        Trouble::Call(e) => (e.disposition(), class(&e), e.to_string()),
        Trouble::Rollout(e) => {
            let class = match &e {
                RolloutError::Call(e) => class(e),
                RolloutError::Judge { .. } => FailureClass::Infrastructure,
                RolloutError::Data { .. } => FailureClass::Data,
            };
            (e.disposition(), class, e.to_string())
        }
    };
    let wait = next_wait(disposition, &policy(envelope.limits), retries + 1, unit);
    let said = is_machine.then(|| cause.clone());
    let delivery = match wait {
        Some(wait) => Delivery::Later {
            wait,
            failure: Failure { class, cause },
        },
        None => {
            let tries = retries + 1;
            let times = if tries > 1 {
                format!(" ({tries} tries)")
            } else {
                String::new()
            };
            let cause = format!("{}: {cause}{times}", envelope.job.label());
            Delivery::Lost(Failure { class, cause })
        }
    };
    match said {
        Some(cause) => Delivery::Ours {
            cause,
            alone: Box::new(delivery),
        },
        None => delivery,
    }
}

/// Returns whose failure a failed call is.
const fn class(error: &CallError) -> FailureClass {
    match error {
        CallError::Machine { .. } => FailureClass::Infrastructure,
        _ => FailureClass::Provider,
    }
}

/// Returns whether a call failed because this process may open no more sockets.
fn is_ours(error: &CallError) -> bool {
    let detail = match error {
        CallError::Connection { detail, .. } => detail,
        CallError::SignIn(error) => return is_ours(error),
        _ => return false,
    };
    ["(os error 23)", "(os error 24)"]
        .iter()
        .any(|code| detail.contains(code))
}

fn policy(limits: Limits) -> Retry {
    Retry {
        attempts: limits.attempts,
        base: Duration::from_millis(limits.retry_base_ms),
        cap: Duration::from_millis(limits.retry_cap_ms),
    }
}

/// Derives a number in [0, 1) from the job and the try.
fn unit(envelope: &Envelope, retries: u32) -> f64 {
    let key = envelope.job.key().0;
    let hash = Hash::of_parts([key.as_bytes().as_slice(), &retries.to_le_bytes()]);
    let [a, b, c, d, ..] = *hash.as_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

async fn chat(blobs: &Blobs, calls: Calls<'_>, work: &ChatWork) -> Result<ChatRecord, Trouble> {
    let limits = calls.envelope.limits;
    let model = blobs.model(work.model).await?;
    let prompt = blobs.prompt(work.prompt).await?;
    let messages = vec![
        Message::text(Role::System, prompt.system),
        Message::text(Role::User, prompt.user),
    ];
    let timeout = Duration::from_millis(limits.call_timeout_ms);
    let mut call = request(&model, messages, work.max_tokens, timeout, &work.stage);
    call.schema = prompt.schema;
    if work.reasoning_effort.is_some() {
        call.reasoning_effort.clone_from(&work.reasoning_effort);
    }
    match calls.ask(&model, &call, 0).await {
        Ok(reply) => Ok(ChatRecord {
            answer: Answer::Text(reply.text),
            usage: reply.usage,
        }),
        Err(e) if e.disposition() == Disposition::GiveUp => Ok(ChatRecord {
            usage: e.usage().unwrap_or_default(),
            answer: Answer::Refused(e.to_string()),
        }),
        Err(e) => Err(Trouble::Call(e)),
    }
}

async fn rollout(
    blobs: &Blobs,
    calls: Calls<'_>,
    work: &RolloutWork,
) -> Result<RolloutRecord, Trouble> {
    let Envelope { job, limits, .. } = calls.envelope;
    let benchmark =
        registry::find(&work.benchmark).map_err(|e| Stop::infrastructure(e.to_string()))?;
    if benchmark.version() != work.benchmark_version {
        return Err(Stop::infrastructure(format!(
            "benchmark `{}` is at version `{}` here, the job wants `{}`; use one release everywhere",
            work.benchmark,
            benchmark.version(),
            work.benchmark_version
        ))
        .into());
    }
    let model = blobs.model(work.target).await?;
    let item = blobs.value(work.item).await?;
    let settings = blobs.value(work.settings).await?;
    let skill = blobs.skill(work.skill).await?;
    let target = SlotTarget {
        model: &model,
        calls,
        timeout: Duration::from_millis(limits.call_timeout_ms),
        answered: AtomicU32::new(0),
        memory: benchmark.keeps_answers(&settings).then(|| Memory {
            blobs,
            base: Hash::of_parts([
                work.target.as_bytes().as_slice(),
                job.scope.as_bytes(),
                &job.repeat.to_le_bytes(),
                work.item.as_bytes(),
            ]),
        }),
    };
    let task = Task {
        item: &item,
        skill: &skill.text,
        skill_files: &skill.files,
        settings: &settings,
    };
    match benchmark.rollout(task, &target).await {
        Ok(record) => Ok(record),
        Err(RolloutError::Call(e)) if e.disposition() == Disposition::GiveUp => {
            Ok(withheld(&work.item_id, &e))
        }
        Err(e) => Err(Trouble::Rollout(e)),
    }
}

/// The record of a rollout whose very prompt can never be answered (too long for the model, or
/// the answer is withheld): the agent, skill included, failed on this item.
fn withheld(item_id: &str, error: &CallError) -> RolloutRecord {
    let reason = format!("{NO_ANSWER}{error}");
    let row: Map<String, Value> = [
        ("id", Value::from(item_id)),
        ("hard", Value::from(0)),
        ("soft", Value::from(0.0)),
        ("fail_reason", Value::from(reason.clone())),
        ("agent_ok", Value::from(false)),
        ("outcome", Value::from("agent_failed")),
        ("n_turns", Value::from(0)),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v))
    .collect();
    RolloutRecord {
        ending: Ending::AgentFailed,
        row,
        conversation: vec![serde_json::json!({"role": "system", "content": reason})],
        files: Map::new(),
        usage: error.usage().unwrap_or_default(),
    }
}
