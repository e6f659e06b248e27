//! The task that moves jobs from the scheduler to the queue and ends from the queue to the runs.
//!
//! Calls to the queue happen one after the other, so that a withdrawal comes after the release that
//! it takes back; notices are read meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use skillopt_core::job::{self, FailureClass, Key};
use skillopt_queue::notice::Post;
use skillopt_queue::queue::{DeadLetter, Error, Failure, Which, Withdrawn};
use skillopt_queue::{Ended, Notice, Notices, RunId, store};
use skillopt_runtime::Retry;
use tokio::time::{Instant, sleep_until};

use super::machine::Batch;
use super::shared::{Shared, Withdrawal};
use super::stall;

/// Notices that are taken together from one batch.
const NOTICES: usize = 256;
/// Batches that are read before the window is filled again.
const READS: usize = 256;
/// Tries of a call to a queue that cannot be reached, over about two minutes; then the jobs' runs
/// pause. Only one asks, so that nothing is gained by spreading its waits.
const RETRY: Retry = Retry {
    attempts: 30,
    base: Duration::from_millis(100),
    cap: Duration::from_secs(5),
};

/// Time without a word from the queue after which it is asked whether it can hand out jobs at all;
/// short in our own tests, which wait for it.
const QUIET: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 5_000 });

/// What came of waiting for one batch's notices.
struct Read {
    batch: u64,
    notices: Notices,
    news: Result<Vec<Notice>, store::Error>,
    failures: u32,
}

/// What came of a call to the queue.
enum Called {
    Submitted {
        batch: u64,
        notices: Notices,
        rest: Option<Order>,
    },
    Refused(Order, Error),
    Done,
}

/// Jobs that are to be submitted.
struct Order {
    batch: Batch,
    /// How many at a time: fewer after the queue had no room for as many.
    at_once: usize,
    /// Tries that have failed.
    failures: u32,
}

struct Pump {
    shared: Arc<Shared>,
    reads: FuturesUnordered<BoxFuture<'static, Read>>,
    call: Option<BoxFuture<'static, Called>>,
    /// What could not be submitted yet; nothing else is released meanwhile.
    rest: Option<Order>,
    /// When the queue last said something of a job.
    heard: Instant,
}

/// Closes the scheduler when the pump ends, however it does: without it nobody would be told.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs until the scheduler is closed.
///
/// # Cancel safety
/// Dropping it closes the scheduler.
pub(super) async fn run(shared: Arc<Shared>) {
    let closed = shared.closed.clone();
    let _closing = Closing(Arc::clone(&shared));
    let pump = Pump {
        shared,
        reads: FuturesUnordered::new(),
        call: None,
        rest: None,
        heard: Instant::now(),
    };
    closed.run_until_cancelled(pump.run()).await;
}

impl Pump {
    async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            if self.call.is_none() {
                self.call = self.next_call();
            }
            let is_idle = self.call.is_none();
            let quiet = sleep_until(self.heard + QUIET);
            let call = async {
                match &mut self.call {
                    Some(call) => call.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                called = call => {
                    self.call = None;
                    self.called(called);
                }
                Some(read) = self.reads.next() => self.read(read),
                () = shared.news.notified() => {}
                () = quiet, if is_idle => self.ask(),
            }
        }
    }

    /// Returns what the queue is to be asked next. Withdrawals come first: what they name has been
    /// submitted, or is not going to be.
    fn next_call(&mut self) -> Option<BoxFuture<'static, Called>> {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let mut inner = self.shared.lock();
        if !inner.withdrawals.is_empty() {
            let withdrawals = std::mem::take(&mut inner.withdrawals);
            return Some(withdraw(shared, withdrawals).boxed());
        }
        let order = self.rest.take().unwrap_or_else(|| {
            let batch = inner.machine.fill(now);
            Order {
                at_once: batch.jobs.len(),
                batch,
                failures: 0,
            }
        });
        (!order.batch.jobs.is_empty()).then(|| submit(shared, order).boxed())
    }

    /// Asks why it is so quiet, if there is anything to hear of.
    fn ask(&mut self) {
        self.heard = Instant::now();
        if self.shared.lock().machine.released() > 0 {
            self.call = Some(fail_stuck(Arc::clone(&self.shared)).boxed());
        }
    }

    fn called(&mut self, called: Called) {
        match called {
            Called::Submitted {
                batch,
                notices,
                rest,
            } => {
                self.heard = Instant::now();
                self.watch(batch, notices, 0);
                self.rest = rest;
            }
            Called::Refused(order, error) => self.refused(order, &error),
            Called::Done => {}
        }
    }

    fn refused(&mut self, mut order: Order, error: &Error) {
        if matches!(error, Error::QueueFull { .. }) {
            // It empties as long as anybody works: no reason to give up.
            order.at_once = order.at_once.div_ceil(2);
            order.failures = 1;
            self.rest = Some(order);
        } else if may_pass(error) && order.failures + 1 < RETRY.attempts {
            order.failures += 1;
            self.rest = Some(order);
        } else {
            let keys = order.batch.jobs.iter().map(|job| job.key).collect();
            fail(&self.shared, order.batch.number, keys, &error.to_string());
        }
    }

    /// Reads what has come in, also from other batches.
    fn read(&mut self, first: Read) {
        self.heard = Instant::now();
        let mut next = Some(first);
        for _ in 0..READS {
            let Some(read) = next else {
                return;
            };
            self.take(read);
            next = self.reads.next().now_or_never().flatten();
        }
        if let Some(read) = next {
            self.take(read);
        }
    }

    fn take(&mut self, read: Read) {
        let Read {
            batch,
            notices,
            news,
            failures,
        } = read;
        match news {
            Ok(news) => {
                tell(&self.shared, batch, news);
                if notices.remaining() > 0 {
                    self.watch(batch, notices, 0);
                }
            }
            Err(error) => match RETRY.wait(failures + 1, None, 1.0) {
                Some(_) => self.watch(batch, notices, failures + 1),
                None => {
                    let keys = self.shared.lock().machine.keys_of_batch(batch);
                    fail(&self.shared, batch, keys, &error.to_string());
                }
            },
        }
    }

    fn watch(&self, batch: u64, mut notices: Notices, failures: u32) {
        let read = async move {
            if let Some(wait) = RETRY.wait(failures, None, 1.0).filter(|_| failures > 0) {
                tokio::time::sleep(wait).await;
            }
            let news = notices.next(NOTICES).await;
            Read {
                batch,
                notices,
                news,
                failures,
            }
        };
        self.reads.push(read.boxed());
    }
}

async fn submit(shared: Arc<Shared>, mut order: Order) -> Called {
    if let Some(wait) = RETRY
        .wait(order.failures, None, 1.0)
        .filter(|_| order.failures > 0)
    {
        tokio::time::sleep(wait).await;
        // What was withdrawn meanwhile is not to come into the queue.
        let machine = &shared.lock().machine;
        order.batch.jobs.retain(|job| machine.is_released(&job.key));
        if order.batch.jobs.is_empty() {
            return Called::Done;
        }
    }
    let rest = order
        .batch
        .jobs
        .split_off(order.batch.jobs.len().min(order.at_once.max(1)));
    match shared.queue.submit(order.batch.jobs.clone()).await {
        Ok(notices) => Called::Submitted {
            batch: order.batch.number,
            notices,
            rest: (!rest.is_empty()).then(|| Order {
                batch: Batch {
                    number: order.batch.number,
                    jobs: rest,
                },
                failures: 0,
                ..order
            }),
        },
        Err(error) => {
            order.batch.jobs.extend(rest);
            Called::Refused(order, error)
        }
    }
}

/// Pauses the runs whose jobs no worker can take.
async fn fail_stuck(shared: Arc<Shared>) -> Called {
    let Some(mut stuck) = stall::look(&shared).await else {
        return Called::Done;
    };
    stuck.jobs.sort_by_key(|job| job.batch);
    for part in stuck.jobs.chunk_by(|a, b| a.batch == b.batch) {
        let keys = part.iter().map(|job| job.key).collect();
        let batch = part.first().map_or(0, |job| job.batch);
        fail(&shared, batch, keys, &stuck.cause);
    }
    // Last: that they were withdrawn is no news to anybody now.
    let jobs = stuck.jobs.into_iter().map(|job| (job.run, job.key));
    // What stays is run for the store, at worst.
    drop(withdraw_jobs(&shared, jobs.collect()).await);
    Called::Done
}

async fn withdraw(shared: Arc<Shared>, withdrawals: Vec<Withdrawal>) -> Called {
    for Withdrawal { jobs, done } in withdrawals {
        let answer = withdraw_jobs(&shared, jobs).await;
        // Whoever asked may have gone.
        drop(done.send(answer));
    }
    Called::Done
}

async fn withdraw_jobs(shared: &Shared, mut jobs: Vec<(RunId, Key)>) -> Result<Withdrawn, Error> {
    jobs.sort();
    let mut all = Withdrawn::default();
    for part in jobs.chunk_by(|a, b| a.0 == b.0) {
        let (Some((run, _)), keys) = (part.first(), part.iter().map(|(_, key)| *key)) else {
            continue;
        };
        let keys: Vec<Key> = keys.collect();
        let mut failures = 0;
        let part = loop {
            let error = match shared.queue.cancel(run, Which::Keys(&keys)).await {
                Ok(part) => break part,
                Err(error) => error,
            };
            failures += 1;
            let wait = RETRY.wait(failures, None, 1.0);
            match wait.filter(|_| may_pass(&error)) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
        };
        all.removed += part.removed;
        all.signalled += part.signalled;
        all.shared += part.shared;
    }
    Ok(all)
}

/// Whether the same call may succeed later without anybody doing something.
const fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Store(store::Error::Io { .. } | store::Error::Busy { .. })
    )
}

/// Tells runs of the ends of their jobs.
fn tell(shared: &Shared, batch: u64, news: Vec<Notice>) {
    let mut post = Post::default();
    {
        let machine = &mut shared.lock().machine;
        for Notice { key, ended } in news {
            let is_result = matches!(ended, Ended::Result(_));
            for mailbox in machine.ended(key, batch, is_result) {
                post.add(mailbox, key, Some(ended.clone()));
            }
        }
    }
    post.deliver();
}

/// Tells runs that their jobs cannot be queued: they pause.
fn fail(shared: &Shared, batch: u64, keys: Vec<Key>, cause: &str) {
    let cause = format!("jobs cannot be queued: {cause}");
    let failure = job::Failure {
        class: FailureClass::Infrastructure,
        cause: cause.clone(),
    };
    let detail: Bytes = serde_json::to_vec(&failure).unwrap_or_default().into();
    let news = keys.into_iter().map(|key| {
        let letter = DeadLetter {
            key,
            job: Bytes::new(),
            runs: Vec::new(),
            deliveries: 0,
            retries: 0,
            losses: 0,
            evidence: Vec::new(),
            failure: Failure {
                cause: cause.clone(),
                detail: detail.clone(),
            },
        };
        let ended = Ended::Failed(Arc::new(letter));
        Notice { key, ended }
    });
    tell(shared, batch, news.collect());
}
