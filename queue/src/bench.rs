//! Measures rounds through the embedded queue: submit, lease, complete, notice.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use skillopt_runtime::clock::Stopwatch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backing::Backing;
use crate::clock::SystemClock;
use crate::embedded::EmbeddedQueue;
use crate::message::{Enqueue, Lane, Priority, RunId, Want};
use crate::notice::Ended;
use crate::queue::{Error, Limits, Queue};
use crate::sqlite::{Options, SqliteStore};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Jobs in all.
    pub jobs: usize,
    /// Jobs in the queue at once; a new window is submitted as the old one drains.
    pub window: usize,
    /// Jobs in work at once.
    pub slots: usize,
    /// Length of one job, in bytes.
    pub job_bytes: usize,
    /// Length of one result, in bytes.
    pub result_bytes: usize,
}

impl Default for Plan {
    /// 100,000 jobs of 600 bytes with results of 4 KB, 4,000 in work at once.
    fn default() -> Self {
        Self {
            jobs: 100_000,
            window: 10_000,
            slots: 4_000,
            job_bytes: 600,
            result_bytes: 4_096,
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Jobs in all.
    pub jobs: usize,
    /// From the first submission to the last notice.
    pub wall: Duration,
    /// Processor time of the whole process in that time, if the system tells it.
    pub cpu: Option<Duration>,
}

impl Report {
    /// Returns jobs per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.wall.as_secs_f64()
    }

    /// Returns microseconds of processor time per job.
    #[must_use]
    pub fn cpu_us(&self) -> Option<f64> {
        self.cpu
            .map(|cpu| cpu.as_secs_f64() * 1e6 / self.jobs as f64)
    }
}

/// Measures a queue on a file in `dir`, which should be empty.
///
/// # Errors
/// If the file cannot be made or written.
pub async fn on_sqlite(dir: &Path, plan: Plan) -> Result<Report, Error> {
    let store = SqliteStore::open(&dir.join("bench.db"), Options::default())?;
    rounds(store.into(), plan).await
}

/// Measures a queue on `backing`.
///
/// # Errors
/// If the store fails.
pub async fn rounds(backing: Backing, plan: Plan) -> Result<Report, Error> {
    let queue = Arc::new(EmbeddedQueue::new(
        backing,
        Arc::new(SystemClock::new()),
        Limits {
            jobs_max: plan.window.max(1),
            ..Limits::default()
        },
    ));
    let drain = CancellationToken::new();
    let (wall, cpu) = (Stopwatch::start(), cpu_time());
    let mut workers = JoinSet::new();
    workers.spawn(work(queue.clone(), plan, drain.clone()));
    let mut start = 0;
    while start < plan.jobs {
        let end = plan.jobs.min(start + plan.window.max(1));
        let mut notices = queue
            .submit((start..end).map(|i| job(i, plan.job_bytes)).collect())
            .await?;
        while notices.remaining() > 0 {
            for notice in notices.next(1_024).await? {
                debug_assert!(matches!(notice.ended, Ended::Result(_)));
            }
        }
        start = end;
    }
    let report = Report {
        jobs: plan.jobs,
        wall: wall.elapsed(),
        cpu: cpu_time()
            .zip(cpu)
            .map(|(after, before)| after.saturating_sub(before)),
    };
    drain.cancel();
    while let Some(ended) = workers.join_next().await {
        if let Ok(worked) = ended {
            worked?;
        }
    }
    Ok(report)
}

async fn work(
    queue: Arc<EmbeddedQueue>,
    plan: Plan,
    drain: CancellationToken,
) -> Result<(), Error> {
    let mut running: JoinSet<Result<(), Error>> = JoinSet::new();
    let lanes = vec![Lane::new("bench")];
    let worker: Arc<str> = "bench".into();
    loop {
        while running.len() >= plan.slots.max(1) {
            running.join_next().await;
        }
        while let Some(ended) = running.try_join_next() {
            if let Ok(worked) = ended {
                worked?;
            }
        }
        let max = plan.slots.max(1) - running.len();
        let ttl = Duration::from_secs(30);
        let want = Want {
            worker: worker.clone(),
            lanes: lanes.clone(),
            max,
            ttl,
        };
        let leased = queue.lease(want, &drain).await?;
        if leased.is_empty() {
            break;
        }
        for leased in leased {
            let queue = queue.clone();
            running.spawn(async move {
                let result = text(leased.ticket.key, plan.result_bytes);
                queue.complete(leased.ticket, result).await.map(|_| ())
            });
        }
    }
    while running.join_next().await.is_some() {}
    Ok(())
}

fn job(number: usize, bytes: usize) -> Enqueue {
    let key = Key(Hash::of(&number.to_le_bytes()));
    Enqueue {
        key,
        job: text(key, bytes),
        lane: Lane::new("bench"),
        priority: Priority::NORMAL,
        run: RunId::new("bench"),
        not_before: None,
    }
}

/// A text of this length that differs from key to key.
fn text(key: Key, bytes: usize) -> Bytes {
    let mut text = key.to_string().into_bytes();
    text.resize(bytes, b'.');
    text.into()
}

/// Processor time of the living threads of this process, as Linux tells it.
fn cpu_time() -> Option<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let path = task.ok()?.path().join("schedstat");
        let Ok(stat) = std::fs::read_to_string(path) else {
            continue;
        };
        total += stat.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(total))
}
