//! A queue inside this process.
//!
//! The shell around [`State`]: it locks, lets time pass, takes a step and carries out the effects.
//! It starts no task: waiting leasers watch the clock. Jobs do not survive the process; a run that
//! is resumed submits them again, and those with a stored result end at once.

mod wait;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::job::Key;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::backing::Backing;
use crate::clock::{Clock, Timestamp};
use crate::commit::Commit;
use crate::message::{Enqueue, Lane, Leased, RunId, Ticket, Want};
use crate::notice::{Ended, Mailbox, Notices};
use crate::queue::{
    Asked, Completed, DeadLetter, EVIDENCE_BYTES_MAX, Error, FAILURE_BYTES_MAX, Failure, JobState,
    LaneStats, Limits, Queue, Renewal, RunStats, Stats, Which, Withdrawn,
};
use crate::state::{Effects, End, State};
use crate::store::{self, RESULT_BYTES_MAX, check_size};

/// Results looked up at a time while jobs are submitted; the first ones can be leased meanwhile.
const CHECK_CHUNK: usize = 256;

/// A queue inside this process, on a store that keeps its results. Clones share it.
#[derive(Clone)]
pub struct EmbeddedQueue {
    backing: Backing,
    store: Arc<dyn store::Store>,
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    /// Wakes all leasers when they have to look at the clock again.
    rearm: Notify,
}

struct Inner {
    state: State<Mail>,
    /// Who waits for work in a lane. There is one entry per lane that was ever waited for.
    lanes: HashMap<Lane, Arc<Notify>>,
}

/// Where the end of a job is told; two are equal if they belong to the same submission.
#[derive(Clone)]
struct Mail(Arc<Mailbox>);

impl PartialEq for Mail {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl EmbeddedQueue {
    /// Makes an empty queue.
    #[must_use]
    pub fn new(store: impl Into<Backing>, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let backing = store.into();
        let inner = Inner {
            state: State::new(limits),
            lanes: HashMap::new(),
        };
        let shared = Shared {
            clock,
            inner: Mutex::new(inner),
            rearm: Notify::new(),
        };
        Self {
            store: backing.to_store(),
            backing,
            shared: Arc::new(shared),
        }
    }

    /// Looks up the results of newly submitted jobs and lets the others go.
    async fn check(&self, keys: &[Key]) -> Result<(), store::Error> {
        for chunk in keys.chunks(CHECK_CHUNK) {
            let results = self.store.results(chunk).await?;
            let told = self.shared.step(|state, now, fx| {
                let check = |(key, result): (&Key, Option<Bytes>)| {
                    let waiters = state.checked(now, *key, result.is_some(), fx);
                    result.map(|result| (*key, result, waiters))
                };
                chunk
                    .iter()
                    .zip(results)
                    .filter_map(check)
                    .collect::<Vec<_>>()
            });
            for (key, result, waiters) in told {
                for Mail(mailbox) in waiters {
                    mailbox.put(key, Ended::Result(result.clone()));
                }
            }
        }
        Ok(())
    }
}

impl Shared {
    /// Lets time pass, takes a step, and carries out the effects of both.
    fn step<T>(
        &self,
        step: impl FnOnce(&mut State<Mail>, Timestamp, &mut Effects<Mail>) -> T,
    ) -> T {
        let now = self.clock.now();
        let mut fx = Effects::default();
        let (answer, woken) = {
            let mut inner = self.lock();
            inner.state.tick(now, &mut fx);
            let answer = step(&mut inner.state, now, &mut fx);
            let woken: Vec<Arc<Notify>> = fx
                .woken
                .iter()
                .filter_map(|lane| inner.lanes.get(lane).cloned())
                .collect();
            (answer, woken)
        };
        for (Mail(mailbox), key, end) in fx.ended {
            mailbox.put(
                key,
                match end {
                    End::Failed(letter) => Ended::Failed(letter),
                    End::Cancelled => Ended::Cancelled,
                },
            );
        }
        for signal in fx.signals {
            signal.cancel();
        }
        // One leaser per lane is enough: if it leaves work behind it wakes the next one.
        for lane in woken {
            lane.notify_one();
        }
        if fx.is_deadline_earlier {
            self.rearm.notify_waiters();
        }
        answer
    }

    /// Ends a completion, from where the store has committed it or failed to.
    fn committed(&self, ticket: Ticket, result: &Bytes, answer: &Result<bool, store::Error>) {
        let is_stored = answer.is_ok();
        let waiters = self.step(|state, _, fx| state.committed(ticket, is_stored, fx));
        for Mail(mailbox) in waiters {
            if matches!(answer, Ok(true)) {
                mailbox.put(ticket.key, Ended::Result(result.clone()));
            } else {
                // The key had a result already: that one counts.
                mailbox.put_stored(ticket.key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A broken invariant inside a step panics its caller only; the others go on with what
        // there is, which at worst delivers a job once more.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a submission back unless it was finished, also when its future is dropped.
struct Submission<'a> {
    shared: &'a Shared,
    mail: Option<Mail>,
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        if let Some(mail) = self.mail.take() {
            self.shared
                .step(|state, now, fx| state.abandon(now, &mail, fx));
        }
    }
}

#[async_trait]
impl Queue for EmbeddedQueue {
    async fn submit(&self, mut jobs: Vec<Enqueue>) -> Result<Notices, Error> {
        let mut seen = HashSet::with_capacity(jobs.len());
        jobs.retain(|job| seen.insert(job.key));
        let mailbox = Mailbox::new(jobs.len());
        let notices = Notices::new(mailbox.clone(), self.store.clone());
        let mail = Mail(mailbox);
        let to_check = self
            .shared
            .step(|state, now, fx| state.submit(now, jobs, &mail, fx))?;
        let mut submission = Submission {
            shared: &self.shared,
            mail: Some(mail),
        };
        self.check(&to_check).await?;
        submission.mail = None;
        Ok(notices)
    }

    async fn lease(&self, want: Want, drain: &CancellationToken) -> Result<Vec<Leased>, Error> {
        if want.max == 0 || want.lanes.is_empty() {
            return Ok(Vec::new());
        }
        Ok(wait::lease(&self.shared, &want, drain).await)
    }

    async fn renew(&self, tickets: &[Ticket], ttl: Duration) -> Result<Vec<Renewal>, Error> {
        Ok(self.shared.step(|state, now, fx| {
            tickets
                .iter()
                .map(|ticket| state.renew(now, *ticket, ttl, fx))
                .collect()
        }))
    }

    async fn complete(&self, ticket: Ticket, result: Bytes) -> Result<Completed, Error> {
        check_size("result", result.len(), RESULT_BYTES_MAX)?;
        let permit = self.backing.reserve().await?;
        self.shared.step(|state, _, _| state.begin_commit(ticket))?;
        // No pause from here to the end of the commit: it happens even if this call is dropped.
        let (done, answer) = oneshot::channel();
        let (shared, told) = (self.shared.clone(), result.clone());
        let then = Box::new(move |answer| {
            shared.committed(ticket, &told, &answer);
            // Nobody listens any more if the caller was dropped.
            drop(done.send(answer));
        });
        permit.send(Commit {
            key: ticket.key,
            result,
            then,
        });
        let closed = store::Error::Closed {
            place: "this process's store".into(),
        };
        let is_first = answer.await.unwrap_or(Err(closed))?;
        Ok(Completed { is_first })
    }

    async fn retry(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        Ok(self
            .shared
            .step(|state, now, fx| state.retry(now, ticket, delay, cause, fx))?)
    }

    async fn postpone(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        Ok(self
            .shared
            .step(|state, now, fx| state.postpone(now, ticket, delay, cause, fx))?)
    }

    async fn hand_back(&self, tickets: &[Ticket]) -> Result<usize, Error> {
        Ok(self.shared.step(|state, now, fx| {
            tickets
                .iter()
                .filter(|ticket| state.hand_back(now, **ticket, fx).is_ok())
                .count()
        }))
    }

    async fn give_up(&self, ticket: Ticket, mut failure: Failure) -> Result<(), Error> {
        failure
            .cause
            .truncate(failure.cause.floor_char_boundary(EVIDENCE_BYTES_MAX));
        if failure.detail.len() > FAILURE_BYTES_MAX {
            failure.detail = Bytes::new();
        }
        Ok(self
            .shared
            .step(|state, now, fx| state.give_up(now, ticket, failure, fx))?)
    }

    async fn cancel(&self, run: &RunId, which: Which<'_>) -> Result<Withdrawn, Error> {
        Ok(self
            .shared
            .step(|state, _, fx| state.cancel(run, which, fx)))
    }

    async fn dead_letters(&self, max: usize) -> Result<Vec<Arc<DeadLetter>>, Error> {
        Ok(self.shared.step(|state, _, _| state.dead_letters(max)))
    }

    async fn stats(&self) -> Result<Stats, Error> {
        Ok(self.shared.step(|state, now, _| state.stats(now)))
    }

    async fn states(&self, keys: &[Key]) -> Result<Vec<JobState>, Error> {
        Ok(self
            .shared
            .step(|state, _, _| keys.iter().map(|key| state.state_of(key)).collect()))
    }

    async fn lanes(&self) -> Result<Vec<LaneStats>, Error> {
        Ok(self.shared.step(|state, now, _| state.lanes(now)))
    }

    async fn asked(&self, keys: &[Key]) -> Result<Vec<Option<Asked>>, Error> {
        Ok(self
            .shared
            .step(|state, _, _| keys.iter().map(|key| state.asked(key)).collect()))
    }

    async fn runs(&self, but: &[RunId]) -> Result<Vec<RunStats>, Error> {
        Ok(self.shared.step(|state, now, _| state.runs(now, but)))
    }
}
