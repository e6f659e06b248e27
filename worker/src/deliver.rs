//! One delivery of a job, from its lease to the word that the queue gets about it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use skillopt_core::job::{Envelope, Failure, FailureClass};
use skillopt_queue::queue::{self, Renewal};
use skillopt_queue::{Leased, Ticket};
use skillopt_runtime::clock::Stopwatch;

use crate::Place;
use crate::calls::Calls;
use crate::execute::{Delivery, execute};
use crate::health::Trial;
use crate::held::HeldJob;
use crate::meter::Noted;
use crate::metrics::Outcome;
use crate::patience::{Patience, may_pass};
use crate::shift::{Shift, Way};

/// A completion that a store in this process refuses is tried again this often before the job is
/// given up.
const ALONE_TRIES: u32 = 3;
/// How long an answer that is there may still take to be stored when everything has to stop.
const LAST_WORD_MAX: Duration = Duration::from_secs(2);
/// A job that was handed out so often without a try that counts fails for good at the next fault
/// of a worker: it may be the job that brings workers down.
const FAULTS_MAX: u32 = 20;
/// The same for a fault of this program, which is rather met by a job than by a machine.
const PANICS_MAX: u32 = 3;

/// How long a job that another worker may do waits, and the slot that it came to: whoever cannot do
/// such jobs must not be the first to take them, time and again.
const ELSEWHERE: Duration = Duration::from_millis(500);

/// How a delivery ended.
enum End {
    /// The queue knows.
    Told(Outcome),
    /// Nothing happened; the job has to be handed back.
    Untouched,
}

/// Runs one leased job and tells the queue how it ended. Returns its ticket if the worker leaves
/// and the job has to be handed back, with others.
pub(crate) async fn deliver(
    shift: &Shift,
    leased: &Leased,
    held: &HeldJob,
    trial: Option<Trial>,
) -> Option<Ticket> {
    let metrics = &shift.worker.metrics;
    metrics.begun(held.kind);
    let end = tokio::select! {
        biased;
        () = held.lost.cancelled() => {
            let_go(shift, leased.ticket).await;
            End::Told(Outcome::Lost)
        }
        end = run(shift, leased, held, trial.is_some()) => end,
    };
    match end {
        End::Told(outcome) => {
            metrics.ended(held.kind, outcome);
            None
        }
        End::Untouched => {
            metrics.ended(held.kind, Outcome::HandedBack);
            Some(leased.ticket)
        }
    }
}

async fn run(shift: &Shift, leased: &Leased, held: &HeldJob, is_trial: bool) -> End {
    // A fault of ours in a job ends the job, with its name, not the worker.
    let work = AssertUnwindSafe(work(shift, leased)).catch_unwind();
    let delivery = tokio::select! {
        biased;
        () = shift.stop.now.cancelled() => return End::Untouched,
        () = held.cancelled.cancelled() => {
            let_go(shift, leased.ticket).await;
            return End::Told(Outcome::HandedBack);
        }
        delivery = work => delivery,
    };
    let faults_max = match (&delivery, is_trial) {
        // It is the worker that is on trial.
        (Ok(_), true) => u32::MAX,
        (Ok(_), false) => FAULTS_MAX,
        (Err(_), _) => PANICS_MAX,
    };
    let delivery = delivery.unwrap_or_else(|_| {
        let cause = "a job met a fault in this program; please report it with the lines above";
        Delivery::Fault(cause.to_owned())
    });
    let is_for_others = matches!(delivery, Delivery::Elsewhere { .. });
    let faults = leased.deliveries.saturating_sub(leased.retries);
    let delivery = match delivery {
        Delivery::Fault(cause) => {
            shift.note(Some(&cause), is_trial);
            if shift.place() == Place::Alone || faults >= faults_max {
                Delivery::Lost(infrastructure(cause))
            } else {
                Delivery::Fault(cause)
            }
        }
        Delivery::Elsewhere { endpoint, failure } => {
            shift.note(None, is_trial);
            elsewhere(shift, &endpoint, failure)
        }
        other => {
            shift.note(None, is_trial);
            other
        }
    };
    let told = tell(shift, leased, held, delivery);
    let end = tokio::select! {
        biased;
        outcome = told => End::Told(outcome),
        () = last_word(shift) => End::Untouched,
    };
    if is_for_others {
        let drain = &shift.stop.drain;
        drain
            .run_until_cancelled(tokio::time::sleep(ELSEWHERE))
            .await;
    }
    end
}

/// Leaves a job to a worker that may call its server; if there is none, its run has to say so.
fn elsewhere(shift: &Shift, endpoint: &str, mut failure: Failure) -> Delivery {
    failure.cause = format!("worker `{}`: {}", shift.worker.settings.name, failure.cause);
    if shift.place() == Place::Alone || shift.lacks.nobody_may_call(endpoint) {
        return Delivery::Lost(failure);
    }
    Delivery::Postponed {
        wait: ELSEWHERE,
        failure,
    }
}

/// Hands a job back that nobody wants from us: nobody minds if this fails, the lease runs out.
async fn let_go(shift: &Shift, ticket: Ticket) {
    let tickets = [ticket];
    let handed = shift.worker.queue.hand_back(&tickets);
    drop(tokio::time::timeout(LAST_WORD_MAX, handed).await);
}

async fn last_word(shift: &Shift) {
    shift.stop.now.cancelled().await;
    tokio::time::sleep(LAST_WORD_MAX).await;
}

async fn work(shift: &Shift, leased: &Leased) -> Delivery {
    let worker = &shift.worker;
    let envelope: Envelope = match serde_json::from_slice(&leased.job) {
        Ok(envelope) => envelope,
        Err(e) => {
            return Delivery::Lost(Failure {
                class: FailureClass::Infrastructure,
                cause: format!("a job cannot be read: {e}; use one release everywhere"),
            });
        }
    };
    let noted = Noted::default();
    let calls = Calls {
        envelope: &envelope,
        ticket: leased.ticket,
        metrics: &worker.metrics,
        meter: worker.meter.as_ref(),
        noted: &noted,
    };
    let delivery = match execute(&worker.blobs, calls, leased.retries).await {
        Delivery::Ours { alone, .. } if shift.place() == Place::Alone => return *alone,
        Delivery::Ours { cause, .. } => {
            let name = &worker.settings.name;
            return Delivery::Fault(format!("worker `{name}`: {cause}"));
        }
        other => other,
    };
    if shift.place() == Place::Alone || !delivery.may_be_ours() {
        return delivery;
    }
    // A judge that cannot run, for instance: is it the job's fault, or this machine's?
    match shift.look().await {
        Some(fault) => Delivery::Fault(fault),
        None => delivery,
    }
}

/// Tells the queue how a delivery ended.
async fn tell(shift: &Shift, leased: &Leased, held: &HeldJob, delivery: Delivery) -> Outcome {
    let (queue, ticket) = (&shift.worker.queue, leased.ticket);
    match delivery {
        Delivery::Done(result) => {
            let stored = persist(shift, ticket, held, || {
                queue.complete(ticket, result.clone())
            });
            match stored.await {
                Err(e) => {
                    let cause = format!("a result could not be stored: {e}");
                    give_up(shift, ticket, held, infrastructure(cause)).await
                }
                Ok(known) => known.map_or(Outcome::Refused, |_| Outcome::Done),
            }
        }
        Delivery::Later { wait, failure } => {
            let cause = failure.cause.as_str();
            let told = persist(shift, ticket, held, || queue.retry(ticket, wait, cause)).await;
            known(told, Outcome::Retried)
        }
        Delivery::Postponed { wait, failure } => {
            let cause = failure.cause.as_str();
            let told = persist(shift, ticket, held, || queue.postpone(ticket, wait, cause)).await;
            known(told, Outcome::Postponed)
        }
        Delivery::Lost(failure) | Delivery::Elsewhere { failure, .. } => {
            give_up(shift, ticket, held, failure).await
        }
        // What is nobody else's was turned into one of the others.
        Delivery::Fault(_) | Delivery::Ours { .. } => {
            let tickets = [ticket];
            let told = persist(shift, ticket, held, || queue.hand_back(&tickets)).await;
            known(told, Outcome::Fault)
        }
    }
}

fn known<T>(told: Result<Option<T>, queue::Error>, outcome: Outcome) -> Outcome {
    match told {
        Ok(Some(_)) => outcome,
        // A stale lease is nobody's fault: another worker has the job, or its result is there.
        // Where the queue cannot be told, the lease runs out.
        Ok(None) | Err(_) => Outcome::Refused,
    }
}

fn infrastructure(cause: String) -> Failure {
    Failure {
        class: FailureClass::Infrastructure,
        cause,
    }
}

/// Ends a job without a result; its run reads the failure from the notice.
async fn give_up(shift: &Shift, ticket: Ticket, held: &HeldJob, failure: Failure) -> Outcome {
    let detail = serde_json::to_vec(&failure).unwrap_or_default();
    let dead = queue::Failure {
        cause: failure.cause,
        detail: detail.into(),
    };
    let queue = &shift.worker.queue;
    let told = persist(shift, ticket, held, || queue.give_up(ticket, dead.clone())).await;
    known(told, Outcome::GivenUp)
}

/// Asks the queue until it answers; `None` if the lease is gone. An answer of a model that is
/// there is kept in memory meanwhile.
///
/// Whoever was stopped for longer than the lease asks first whether it is still there: nothing
/// large is sent for nothing, and nothing is told in a name that is not ours any more.
async fn persist<T, F: Future<Output = Result<T, queue::Error>>>(
    shift: &Shift,
    ticket: Ticket,
    held: &HeldJob,
    ask: impl Fn() -> F,
) -> Result<Option<T>, queue::Error> {
    let ttl = shift.worker.settings.lease_ttl;
    let mut patience = Patience::default();
    for tries in 1.. {
        let answer = if held.unconfirmed() > ttl && !is_ours(shift, ticket, held).await? {
            return Ok(None);
        } else {
            ask().await
        };
        match answer {
            Ok(answer) => {
                if tries > 1 {
                    shift.reached(Way::Work);
                }
                return Ok(Some(answer));
            }
            Err(queue::Error::Refused(_)) => return Ok(None),
            Err(queue::Error::Store(e)) if may_wait(shift, &e, tries) => {
                if shift.place() == Place::Cluster {
                    shift.unreached(Way::Work, &e);
                }
                patience.wait().await;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

fn may_wait(shift: &Shift, error: &skillopt_queue::store::Error, tries: u32) -> bool {
    match shift.place() {
        Place::Alone => tries < ALONE_TRIES,
        Place::Cluster => may_pass(error),
    }
}

/// Asks whether a lease is still ours.
async fn is_ours(shift: &Shift, ticket: Ticket, held: &HeldJob) -> Result<bool, queue::Error> {
    let ttl = shift.worker.settings.lease_ttl;
    let mut patience = Patience::default();
    loop {
        let asked = Stopwatch::start();
        match shift.worker.queue.renew(&[ticket], ttl).await {
            Ok(answers) => {
                let answer = answers.first().copied().unwrap_or(Renewal::Lost);
                return Ok(held.renewed(answer, asked));
            }
            Err(queue::Error::Store(e)) if shift.place() == Place::Cluster && may_pass(&e) => {
                shift.unreached(Way::Work, &e);
                patience.wait().await;
            }
            Err(e) => return Err(e),
        }
    }
}
