//! The worker's loop: room first, then a job; leases renewed while jobs run; drained in stages.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use skillopt_core::job::{Envelope, Failure, FailureClass};
use skillopt_queue::{Leased, Ticket, Want, queue};
use skillopt_runtime::Shutdown;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Worker;
use crate::calls::Calls;
use crate::execute::{Delivery, execute};

/// A completion that the store refuses is tried again this often before the job goes back.
const COMPLETE_TRIES: u32 = 3;

type Held = Arc<Mutex<BTreeSet<Ticket>>>;

impl Worker {
    /// Runs jobs until `shutdown` drains, then waits for those under way; `shutdown.now` hands
    /// them back at once.
    ///
    /// # Errors
    /// The queue cannot be used any more; jobs under way were finished or handed back.
    pub async fn run(self: Arc<Self>, shutdown: Shutdown) -> Result<(), queue::Error> {
        let held = Held::default();
        let mut renewal = JoinSet::new();
        renewal.spawn(renew(Arc::clone(&self), Arc::clone(&held)));
        let result = self.take_jobs(&shutdown, &held).await;
        renewal.shutdown().await;
        result
    }

    async fn take_jobs(
        self: &Arc<Self>,
        shutdown: &Shutdown,
        held: &Held,
    ) -> Result<(), queue::Error> {
        let slots = Arc::new(Semaphore::new(self.settings.slots.values().sum()));
        let mut running = JoinSet::new();
        let mut outcome = Ok(());
        while let Some(Ok(permit)) = shutdown
            .drain
            .run_until_cancelled(slots.clone().acquire_owned())
            .await
        {
            let want = Want {
                worker: Arc::clone(&self.settings.name),
                lanes: self.settings.lanes.clone(),
                max: 1 + slots.available_permits(),
                ttl: self.settings.lease_ttl,
            };
            // Never race `lease` in a select: a granted lease that was dropped would block its job.
            let leases = match self.queue.lease(want, &shutdown.drain).await {
                Ok(leases) => leases,
                Err(e) => {
                    outcome = Err(e);
                    break;
                }
            };
            let mut permit = Some(permit);
            for leased in leases {
                let permit = permit
                    .take()
                    .or_else(|| slots.clone().try_acquire_owned().ok());
                lock(held).insert(leased.ticket);
                let (worker, held, now) =
                    (Arc::clone(self), Arc::clone(held), shutdown.now.clone());
                running.spawn(async move {
                    let ticket = leased.ticket;
                    let run = worker.deliver_safely(&leased);
                    if now.run_until_cancelled(run).await.is_none() {
                        drop(worker.queue.hand_back(&[ticket]).await);
                    }
                    lock(&held).remove(&ticket);
                    drop(permit);
                });
            }
            while running.try_join_next().is_some() {}
        }
        while running.join_next().await.is_some() {}
        outcome
    }

    /// Runs one leased job; a fault of ours in it ends the job, with its name, not the worker.
    async fn deliver_safely(&self, leased: &Leased) {
        let run = AssertUnwindSafe(self.deliver(leased)).catch_unwind();
        if run.await.is_err() {
            let failure = Failure {
                class: FailureClass::Infrastructure,
                cause: "a job met a fault in this program; please report it with the lines above"
                    .to_owned(),
            };
            self.give_up(leased.ticket, &failure).await;
        }
    }

    /// Runs one leased job and reports how it ended. A stale lease is nobody's fault: another
    /// worker has the job, or its result is there.
    async fn deliver(&self, leased: &Leased) {
        let envelope: Envelope = match serde_json::from_slice(&leased.job) {
            Ok(envelope) => envelope,
            Err(e) => {
                let failure = Failure {
                    class: FailureClass::Infrastructure,
                    cause: format!("a job cannot be read: {e}; use one release everywhere"),
                };
                self.give_up(leased.ticket, &failure).await;
                return;
            }
        };
        let calls = Calls {
            envelope: &envelope,
            ticket: leased.ticket,
            metrics: &self.metrics,
        };
        let work = execute(&self.blobs, calls, leased.retries);
        let Some(delivery) = leased.cancelled.run_until_cancelled(work).await else {
            drop(self.queue.hand_back(&[leased.ticket]).await);
            return;
        };
        match delivery {
            Delivery::Done(result) => self.complete(leased.ticket, result).await,
            Delivery::Later { wait, cause } => {
                drop(self.queue.retry(leased.ticket, wait, &cause).await);
            }
            Delivery::Lost(failure) => {
                self.give_up(leased.ticket, &failure).await;
            }
        }
    }

    /// Ends a job without a result; its run reads the failure from the notice.
    async fn give_up(&self, ticket: Ticket, failure: &Failure) {
        let detail = serde_json::to_vec(failure).unwrap_or_default();
        let dead = queue::Failure {
            cause: failure.cause.clone(),
            detail: detail.into(),
        };
        // A stale lease is nobody's fault, see `deliver`.
        drop(self.queue.give_up(ticket, dead).await);
    }

    /// Stores a paid result; a store that cannot take it pauses the run with the cause.
    async fn complete(&self, ticket: Ticket, result: bytes::Bytes) {
        for attempt in 1..=COMPLETE_TRIES {
            match self.queue.complete(ticket, result.clone()).await {
                Err(queue::Error::Store(e)) if attempt == COMPLETE_TRIES => {
                    let cause = format!("a result could not be stored: {e}");
                    let failure = Failure {
                        class: FailureClass::Infrastructure,
                        cause,
                    };
                    self.give_up(ticket, &failure).await;
                }
                Err(queue::Error::Store(_)) => {
                    tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
                }
                _ => return,
            }
        }
    }
}

/// Renews all held leases, three times per lease time.
async fn renew(worker: Arc<Worker>, held: Held) {
    let ttl = worker.settings.lease_ttl;
    loop {
        tokio::time::sleep(ttl / 3).await;
        let tickets: Vec<Ticket> = lock(&held).iter().copied().collect();
        if !tickets.is_empty() {
            // A lease that cannot be renewed runs out; its late result is then refused.
            drop(worker.queue.renew(&tickets, ttl).await);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No section under this lock can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
