//! What handles, the pump and the scheduler itself share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skillopt_core::job::Key;
use skillopt_queue::notice::Mailbox;
use skillopt_queue::queue::{Error, Withdrawn};
use skillopt_queue::{Clock, Ended, Queue, RunId, Store, Timestamp, store};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::machine::Machine;

pub(super) struct Shared {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    /// Tells the pump that there may be something to do.
    pub(super) news: Notify,
    pub(super) closed: CancellationToken,
}

pub(super) struct Inner {
    pub(super) machine: Machine<Arc<Mailbox>>,
    /// What is to be withdrawn from the queue, after what was released before.
    pub(super) withdrawals: Vec<Withdrawal>,
}

/// Jobs that one run withdraws from the queue.
pub(super) struct Withdrawal {
    /// By the run that the queue knows them under.
    pub(super) jobs: Vec<(RunId, Key)>,
    /// Who waits for it to be done.
    pub(super) done: oneshot::Sender<Result<Withdrawn, Error>>,
}

impl Shared {
    pub(super) fn new(
        queue: Arc<dyn Queue>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        machine: Machine<Arc<Mailbox>>,
    ) -> Self {
        let inner = Inner {
            machine,
            withdrawals: Vec::new(),
        };
        Self {
            queue,
            store,
            clock,
            inner: Mutex::new(inner),
            news: Notify::new(),
            closed: CancellationToken::new(),
        }
    }

    /// Takes a step and wakes the pump.
    pub(super) fn step<T>(&self, step: impl FnOnce(&mut Inner, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let answer = step(&mut self.lock(), now);
        self.news.notify_one();
        answer
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A broken invariant inside a step panics its caller only; the others go on with what
        // there is, which at worst asks the queue for a job once more.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes nothing more, and tells whoever waits.
    pub(super) fn close(&self) {
        let told = self.step(|inner, _| {
            self.closed.cancel();
            inner.withdrawals.clear();
            inner.machine.abandon()
        });
        for (mailbox, key) in told {
            mailbox.put(key, Ended::Cancelled);
        }
    }

    /// Withdraws jobs from the queue, after all that was released before.
    pub(super) async fn withdraw(&self, jobs: Vec<(RunId, Key)>) -> Result<Withdrawn, Error> {
        if jobs.is_empty() {
            return Ok(Withdrawn::default());
        }
        let (done, answer) = oneshot::channel();
        self.step(|inner, _| {
            // Under the lock, so that nothing is added that nobody fetches any more.
            if !self.closed.is_cancelled() {
                inner.withdrawals.push(Withdrawal { jobs, done });
            }
        });
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

pub(super) fn closed() -> Error {
    let place = "scheduler of this coordinator".to_owned();
    store::Error::Closed { place }.into()
}
