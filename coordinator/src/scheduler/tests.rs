//! The scheduler in front of a real queue in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::Hash;
use skillopt_core::job::{self, Key};
use skillopt_queue::queue::{self, Which};
use skillopt_queue::{
    EmbeddedQueue, Ended, Enqueue, Lane, Leased, MemoryStore, Notices, Priority, Queue, RunId,
    Store, TestClock, Want, store,
};
use tokio_util::sync::CancellationToken;

use super::*;

struct World {
    queue: Arc<dyn Queue>,
    store: Arc<dyn Store>,
    scheduler: Scheduler,
}

fn world(limits: Limits) -> World {
    world_with(limits, queue::Limits::default())
}

fn world_with(limits: Limits, of_queue: queue::Limits) -> World {
    let store = MemoryStore::new();
    let clock = Arc::new(TestClock::new());
    let queue: Arc<dyn Queue> =
        Arc::new(EmbeddedQueue::new(store.clone(), clock.clone(), of_queue));
    let store: Arc<dyn Store> = Arc::new(store);
    let scheduler = Scheduler::start(queue.clone(), store.clone(), clock, limits);
    World {
        queue,
        store,
        scheduler,
    }
}

fn key(number: usize) -> Key {
    Key(Hash::of(&number.to_le_bytes()))
}

fn jobs(run: &str, numbers: std::ops::Range<usize>) -> Vec<Enqueue> {
    let job = |number| Enqueue {
        key: key(number),
        job: Bytes::from_static(b"{}"),
        lane: Lane::new("chat"),
        priority: Priority::NORMAL,
        run: RunId::new(run),
        not_before: None,
    };
    numbers.map(job).collect()
}

fn handle(world: &World, run: &str) -> Arc<dyn Queue> {
    world.scheduler.handle(RunShare::alone(RunId::new(run)))
}

impl World {
    async fn lease(&self, max: usize) -> Vec<Leased> {
        let want = Want {
            worker: "w".into(),
            lanes: vec![Lane::new("chat")],
            max,
            ttl: Duration::from_secs(60),
        };
        let drain = CancellationToken::new();
        within(self.queue.lease(want, &drain)).await.unwrap()
    }

    async fn complete(&self, leased: Vec<Leased>) {
        for job in leased {
            let result = Bytes::copy_from_slice(job.ticket.key.0.as_bytes());
            self.queue.complete(job.ticket, result).await.unwrap();
        }
    }
}

/// Nothing here takes long; a test that hangs should say so.
async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, future).await.expect("it hangs")
}

async fn all(notices: &mut Notices) -> Vec<(Key, Ended)> {
    let mut all = Vec::new();
    loop {
        let news = within(notices.next(100)).await.unwrap();
        if news.is_empty() {
            return all;
        }
        all.extend(news.into_iter().map(|notice| (notice.key, notice.ended)));
    }
}

fn small() -> Limits {
    Limits {
        window_min: 8,
        ..Limits::default()
    }
}

#[tokio::test]
async fn every_job_is_told_once_though_few_are_queued_at_a_time() {
    let world = world(small());
    let handle = handle(&world, "a");
    world
        .store
        .put_result(key(3), Bytes::from_static(b"old"))
        .await
        .unwrap();
    let mut notices = handle.submit(jobs("a", 0..100)).await.unwrap();
    let work = async {
        let mut done = 0;
        while done < 99 {
            let leased = world.lease(5).await;
            done += leased.len();
            let stats = world.queue.stats().await.unwrap();
            assert!(stats.queued + stats.leased <= 8, "{stats:?}");
            world.complete(leased).await;
        }
    };
    let (ends, ()) = tokio::join!(all(&mut notices), work);
    let mut keys: Vec<Key> = ends.iter().map(|(key, _)| *key).collect();
    keys.sort();
    let mut expected: Vec<Key> = (0..100).map(key).collect();
    expected.sort();
    assert_eq!(keys, expected);
    assert!(
        ends.iter()
            .all(|(_, ended)| matches!(ended, Ended::Result(_)))
    );
    assert_eq!(world.scheduler.standing(), Standing::default());
    within(world.scheduler.close()).await;
}

#[tokio::test]
async fn equal_jobs_of_two_runs_run_once() {
    let world = world(small());
    let (a, b) = (handle(&world, "a"), handle(&world, "b"));
    let mut first = a.submit(jobs("a", 0..20)).await.unwrap();
    let mut second = b.submit(jobs("b", 0..20)).await.unwrap();
    let work = async {
        for _ in 0..20 {
            let leased = world.lease(1).await;
            world.complete(leased).await;
        }
    };
    let (first, second, ()) = tokio::join!(all(&mut first), all(&mut second), work);
    assert_eq!((first.len(), second.len()), (20, 20));
    let stats = world.queue.stats().await.unwrap();
    assert_eq!((stats.queued, stats.leased), (0, 0));
    within(world.scheduler.close()).await;
}

#[tokio::test]
async fn cancelling_takes_back_what_waits_here_and_what_waits_in_the_queue() {
    let world = world(small());
    let handle = handle(&world, "a");
    let mut notices = handle.submit(jobs("a", 0..50)).await.unwrap();
    let leased = world.lease(2).await;
    let withdrawn = within(handle.cancel(&RunId::new("a"), Which::All))
        .await
        .unwrap();
    assert_eq!((withdrawn.removed, withdrawn.signalled), (48, 2));
    assert!(leased.iter().all(|job| job.cancelled.is_cancelled()));
    let ends = all(&mut notices).await;
    assert_eq!(ends.len(), 50);
    assert!(
        ends.iter()
            .all(|(_, ended)| matches!(ended, Ended::Cancelled))
    );
    // Asked for again, they run.
    let mut notices = handle.submit(jobs("a", 10..12)).await.unwrap();
    let leased = world.lease(2).await;
    world.complete(leased).await;
    let ends = all(&mut notices).await;
    assert!(
        ends.iter()
            .all(|(_, ended)| matches!(ended, Ended::Result(_)))
    );
    assert_eq!(ends.len(), 2);
    within(world.scheduler.close()).await;
}

#[tokio::test]
async fn a_paused_run_lets_running_jobs_end_and_begins_no_other() {
    let world = world(small());
    let handle = handle(&world, "a");
    let run = RunId::new("a");
    let mut notices = handle.submit(jobs("a", 0..10)).await.unwrap();
    let leased = world.lease(3).await;
    let running = leased.len();
    within(world.scheduler.pause(&run)).await.unwrap();
    assert!(leased.iter().all(|job| !job.cancelled.is_cancelled()));
    assert_eq!(world.queue.stats().await.unwrap().queued, 0);
    world.complete(leased).await;
    let ended = within(notices.next(10)).await.unwrap();
    assert!(ended.len() <= running);
    world.scheduler.resume(&run);
    let work = async {
        for _ in running..10 {
            let leased = world.lease(1).await;
            world.complete(leased).await;
        }
    };
    let (rest, ()) = tokio::join!(all(&mut notices), work);
    assert_eq!(ended.len() + rest.len(), 10);
    within(world.scheduler.close()).await;
}

#[tokio::test]
async fn a_closed_scheduler_tells_everybody_and_leaves_the_queue_alone() {
    let world = world(small());
    let handle = handle(&world, "a");
    let mut notices = handle.submit(jobs("a", 0..20)).await.unwrap();
    let leased = world.lease(1).await;
    within(world.scheduler.close()).await;
    assert_eq!(all(&mut notices).await.len(), 20);
    assert!(!leased[0].cancelled.is_cancelled());
    assert!(handle.submit(jobs("a", 20..21)).await.is_err());
    let withdrawn = within(handle.cancel(&RunId::new("a"), Which::All)).await;
    assert_eq!(withdrawn.unwrap().removed, 0);
}

#[tokio::test]
async fn a_queue_that_is_smaller_than_the_window_is_filled_as_it_empties() {
    let of_queue = queue::Limits {
        jobs_max: 3,
        ..queue::Limits::default()
    };
    let world = world_with(small(), of_queue);
    let handle = handle(&world, "a");
    let mut notices = handle.submit(jobs("a", 0..20)).await.unwrap();
    let work = async {
        let mut done = 0;
        while done < 20 {
            let leased = world.lease(2).await;
            done += leased.len();
            world.complete(leased).await;
        }
    };
    let (ends, ()) = tokio::join!(all(&mut notices), work);
    assert_eq!(ends.len(), 20);
    within(world.scheduler.close()).await;
}

#[tokio::test]
async fn what_no_longer_waits_does_not_come_into_a_full_queue() {
    let of_queue = queue::Limits {
        jobs_max: 1,
        ..queue::Limits::default()
    };
    let world = world_with(small(), of_queue);
    let handle = handle(&world, "a");
    let mut notices = handle.submit(jobs("a", 0..3)).await.unwrap();
    let leased = world.lease(1).await;
    let withdrawn = within(handle.cancel(&RunId::new("a"), Which::All)).await;
    assert!(withdrawn.is_ok());
    assert_eq!(all(&mut notices).await.len(), 3);
    world.complete(leased).await;
    let emptied = async {
        loop {
            let stats = world.queue.stats().await.unwrap();
            if stats.queued + stats.leased == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within(emptied).await;
    within(world.scheduler.close()).await;
}

#[tokio::test]
async fn a_run_that_goes_away_leaves_only_what_is_queued() {
    let world = world(small());
    let handle = handle(&world, "a");
    let notices = handle.submit(jobs("a", 0..20)).await.unwrap();
    let leased = world.lease(8).await;
    drop(notices);
    drop(handle);
    world.complete(leased).await;
    let emptied = async {
        while world.scheduler.standing() != Standing::default() {
            tokio::task::yield_now().await;
        }
    };
    within(emptied).await;
    assert_eq!(world.queue.stats().await.unwrap().queued, 0);
    within(world.scheduler.close()).await;
}

/// A store that may be full.
struct Full(MemoryStore, AtomicBool);

#[async_trait::async_trait]
impl Store for Full {
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, store::Error> {
        if self.1.load(Ordering::Relaxed) {
            let place = "redis (its `maxmemory` is used up)".to_owned();
            return Err(store::Error::Full { place });
        }
        self.0.put_blobs(blobs).await
    }
    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, store::Error> {
        self.0.blobs(hashes).await
    }
    async fn put_result(&self, key: Key, result: Bytes) -> Result<bool, store::Error> {
        self.0.put_result(key, result).await
    }
    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, store::Error> {
        self.0.results(keys).await
    }
    async fn append_event(&self, run: &RunId, seq: u64, e: Bytes) -> Result<(), store::Error> {
        self.0.append_event(run, seq, e).await
    }
    async fn events(&self, run: &RunId, from: u64, n: usize) -> Result<Vec<Bytes>, store::Error> {
        self.0.events(run, from, n).await
    }
}

#[tokio::test]
async fn jobs_that_nobody_can_take_because_the_store_is_full_pause_their_run() {
    let mut world = world(small());
    let memory = MemoryStore::new();
    let clock = Arc::new(TestClock::new());
    let of_queue = queue::Limits::default();
    world.queue = Arc::new(EmbeddedQueue::new(memory.clone(), clock.clone(), of_queue));
    let full = Arc::new(Full(memory, AtomicBool::new(false)));
    world.scheduler = Scheduler::start(world.queue.clone(), full.clone(), clock, small());
    let handle = handle(&world, "a");
    let mut notices = handle.submit(jobs("a", 0..4)).await.unwrap();
    let begun = world.lease(1).await;
    // Far longer than it takes to ask: slow workers are no reason to pause anything.
    let early = tokio::time::timeout(Duration::from_millis(200), notices.next(9)).await;
    assert!(early.is_err(), "{early:?}");

    full.1.store(true, Ordering::Relaxed);
    let told = within(notices.next(9)).await.unwrap();
    assert_eq!(told.len(), 3, "{told:?}");
    for notice in &told {
        let Ended::Failed(letter) = &notice.ended else {
            panic!("{notice:?}");
        };
        let failure: job::Failure = serde_json::from_slice(&letter.failure.detail).unwrap();
        assert_eq!(failure.class, job::FailureClass::Infrastructure);
        assert!(failure.cause.contains("maxmemory"), "{}", failure.cause);
    }
    // What is under way is paid for.
    world.complete(begun).await;
    let last = within(notices.next(9)).await.unwrap();
    assert!(matches!(last[0].ended, Ended::Result(_)), "{last:?}");
    world.scheduler.close().await;
    let stats = world.queue.stats().await.unwrap();
    assert_eq!((stats.queued, stats.leased), (0, 0), "{stats:?}");
}
