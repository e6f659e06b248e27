//! The queue as one run sees it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::job::Key;
use skillopt_queue::notice::Mailbox;
use skillopt_queue::queue::{
    Asked, Completed, DeadLetter, Error, Failure, JobState, LaneStats, Renewal, RunStats, Stats,
    Which, Withdrawn,
};
use skillopt_queue::{Ended, Enqueue, Leased, Notices, Queue, RunId, Ticket, Want};
use tokio_util::sync::CancellationToken;

use super::shared::{Shared, closed};

/// Results looked up at a time while jobs are submitted.
const CHECK_CHUNK: usize = 256;

/// Submits and cancels jobs of one run through the scheduler. What workers do goes straight to the
/// queue.
pub(super) struct Handle {
    pub(super) run: RunId,
    pub(super) shared: Arc<Shared>,
}

impl Handle {
    /// Answers what is stored already, which needs no place in the window, and returns the rest.
    async fn missing(&self, jobs: Vec<Enqueue>, mailbox: &Mailbox) -> Result<Vec<Enqueue>, Error> {
        let mut missing = Vec::with_capacity(jobs.len());
        let mut jobs = jobs.into_iter();
        loop {
            let chunk: Vec<Enqueue> = jobs.by_ref().take(CHECK_CHUNK).collect();
            if chunk.is_empty() {
                return Ok(missing);
            }
            let keys: Vec<_> = chunk.iter().map(|job| job.key).collect();
            let results = self.shared.store.results(&keys).await?;
            for (job, result) in chunk.into_iter().zip(results) {
                match result {
                    Some(result) => mailbox.put(job.key, Ended::Result(result)),
                    None => missing.push(job),
                }
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.step(|inner, _| inner.machine.close(&self.run));
    }
}

#[async_trait]
impl Queue for Handle {
    async fn submit(&self, mut jobs: Vec<Enqueue>) -> Result<Notices, Error> {
        let mut seen = HashSet::with_capacity(jobs.len());
        jobs.retain(|job| seen.insert(job.key));
        let mailbox = Mailbox::new(jobs.len());
        let notices = Notices::new(mailbox.clone(), self.shared.store.clone());
        let missing = self.missing(jobs, &mailbox).await?;
        self.shared.step(|inner, now| {
            // Under the lock, so that nothing is added that nobody fetches any more.
            if self.shared.closed.is_cancelled() {
                return Err(closed());
            }
            inner.machine.submit(now, &self.run, missing, &mailbox)
        })?;
        Ok(notices)
    }

    async fn cancel(&self, run: &RunId, which: Which<'_>) -> Result<Withdrawn, Error> {
        let cancelled = self
            .shared
            .step(|inner, _| inner.machine.cancel(run, which));
        for (mailbox, key) in cancelled.told {
            mailbox.put(key, Ended::Cancelled);
        }
        let in_queue = self.shared.withdraw(cancelled.in_queue).await?;
        Ok(Withdrawn {
            removed: cancelled.removed + in_queue.removed,
            signalled: in_queue.signalled,
            shared: cancelled.shared + in_queue.shared,
        })
    }

    async fn lease(&self, want: Want, drain: &CancellationToken) -> Result<Vec<Leased>, Error> {
        self.shared.queue.lease(want, drain).await
    }

    async fn renew(&self, tickets: &[Ticket], ttl: Duration) -> Result<Vec<Renewal>, Error> {
        self.shared.queue.renew(tickets, ttl).await
    }

    async fn complete(&self, ticket: Ticket, result: Bytes) -> Result<Completed, Error> {
        self.shared.queue.complete(ticket, result).await
    }

    async fn retry(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        self.shared.queue.retry(ticket, delay, cause).await
    }

    async fn postpone(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        self.shared.queue.postpone(ticket, delay, cause).await
    }

    async fn hand_back(&self, tickets: &[Ticket]) -> Result<usize, Error> {
        self.shared.queue.hand_back(tickets).await
    }

    async fn give_up(&self, ticket: Ticket, failure: Failure) -> Result<(), Error> {
        self.shared.queue.give_up(ticket, failure).await
    }

    async fn dead_letters(&self, max: usize) -> Result<Vec<Arc<DeadLetter>>, Error> {
        self.shared.queue.dead_letters(max).await
    }

    async fn states(&self, keys: &[Key]) -> Result<Vec<JobState>, Error> {
        self.shared.queue.states(keys).await
    }

    async fn lanes(&self) -> Result<Vec<LaneStats>, Error> {
        self.shared.queue.lanes().await
    }

    async fn stats(&self) -> Result<Stats, Error> {
        self.shared.queue.stats().await
    }

    async fn asked(&self, keys: &[Key]) -> Result<Vec<Option<Asked>>, Error> {
        self.shared.queue.asked(keys).await
    }

    async fn runs(&self, but: &[RunId]) -> Result<Vec<RunStats>, Error> {
        self.shared.queue.runs(but).await
    }
}
