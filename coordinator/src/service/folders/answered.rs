//! A queue without workers: jobs are answered from a store, and the answers copied into another.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use skillopt_core::job::Key;
use skillopt_queue::notice::Mailbox;
use skillopt_queue::queue::{
    Completed, DeadLetter, Error, Failure, JobState, LaneStats, Renewal, Stats, Which, Withdrawn,
};
use skillopt_queue::{Ended, Enqueue, Leased, Notices, Queue, RunId, Store, Ticket, Want, store};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The queue.
pub(super) struct Answered {
    from: Arc<dyn Store>,
    to: Arc<dyn Store>,
    /// Whether every answer must be there; else a job without one is waited for, since the loop
    /// may stop before it needs it.
    is_whole: bool,
    still: Mutex<Still>,
}

struct Still {
    /// When the loop last moved.
    since: Instant,
    /// The first answer that is not there.
    missing: Option<Key>,
}

impl Answered {
    pub(super) fn new(from: Arc<dyn Store>, to: Arc<dyn Store>, is_whole: bool) -> Self {
        Self {
            from,
            to,
            is_whole,
            still: Mutex::new(Still {
                since: Instant::now(),
                missing: None,
            }),
        }
    }

    /// Notes that the loop moved.
    pub(super) fn stir(&self) {
        self.still().since = Instant::now();
    }

    /// Waits until the loop has not moved for `long`, and returns the first answer that is not
    /// there. For ever if all are.
    pub(super) async fn stands_still(&self, long: Duration) -> Key {
        loop {
            let (since, missing) = {
                let still = self.still();
                (still.since, still.missing)
            };
            match missing {
                Some(key) if since.elapsed() >= long => return key,
                Some(_) => sleep_until(since + long).await,
                None => tokio::time::sleep(long).await,
            }
        }
    }

    fn still(&self) -> MutexGuard<'_, Still> {
        // No section under this lock can panic half-way.
        self.still.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nobody() -> Error {
    store::Error::Closed {
        place: "a queue of stored answers".to_owned(),
    }
    .into()
}

#[async_trait]
impl Queue for Answered {
    async fn submit(&self, jobs: Vec<Enqueue>) -> Result<Notices, Error> {
        let mut seen = HashSet::new();
        let keys = jobs.iter().map(|job| job.key);
        let keys: Vec<Key> = keys.filter(|key| seen.insert(*key)).collect();
        let mailbox = Mailbox::new(keys.len());
        self.stir();
        let found = self.from.results(&keys).await?;
        let mut answered = Vec::with_capacity(keys.len());
        for (key, result) in keys.into_iter().zip(found) {
            match result {
                Some(result) => answered.push((key, result)),
                None if self.is_whole => {
                    let what = format!("the answer `{key}`");
                    return Err(store::Error::Lost { what }.into());
                }
                None => {
                    self.still().missing.get_or_insert(key);
                }
            }
        }
        // All at once, so that they share a commit.
        let put = |(key, result): &(Key, Bytes)| self.to.put_result(*key, result.clone());
        try_join_all(answered.iter().map(put)).await?;
        for (key, result) in answered {
            mailbox.put(key, Ended::Result(result));
        }
        self.stir();
        Ok(Notices::new(mailbox, Arc::clone(&self.to)))
    }

    async fn lease(&self, _: Want, _: &CancellationToken) -> Result<Vec<Leased>, Error> {
        Err(nobody())
    }

    async fn renew(&self, _: &[Ticket], _: Duration) -> Result<Vec<Renewal>, Error> {
        Err(nobody())
    }

    async fn complete(&self, _: Ticket, _: Bytes) -> Result<Completed, Error> {
        Err(nobody())
    }

    async fn retry(&self, _: Ticket, _: Duration, _: &str) -> Result<(), Error> {
        Err(nobody())
    }

    async fn hand_back(&self, _: &[Ticket]) -> Result<usize, Error> {
        Err(nobody())
    }

    async fn give_up(&self, _: Ticket, _: Failure) -> Result<(), Error> {
        Err(nobody())
    }

    async fn cancel(&self, _: &RunId, _: Which<'_>) -> Result<Withdrawn, Error> {
        Ok(Withdrawn::default())
    }

    async fn dead_letters(&self, _: usize) -> Result<Vec<Arc<DeadLetter>>, Error> {
        Ok(Vec::new())
    }

    async fn stats(&self) -> Result<Stats, Error> {
        Ok(Stats::default())
    }

    async fn states(&self, keys: &[Key]) -> Result<Vec<JobState>, Error> {
        Ok(keys.iter().map(|_| JobState::Unknown).collect())
    }

    async fn lanes(&self) -> Result<Vec<LaneStats>, Error> {
        Ok(Vec::new())
    }
}
