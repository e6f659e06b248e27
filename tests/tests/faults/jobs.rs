//! Jobs that end late, twice, out of order or for another release; and one that is very long.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use skillopt_benchmarks::registry;
use skillopt_core::capability;
use skillopt_core::hash::Hash;
use skillopt_core::job::{self, Key};
use skillopt_queue::object::Site;
use skillopt_queue::queue::{Error, Failure, JobState};
use skillopt_queue::redis::{Link, Options, RedisQueue, RedisStore};
use skillopt_queue::{Ended, Enqueue, Lane, Leased, Priority, Queue, RunId, Store, Ticket, Want};
use skillopt_tests::support::Draw;
use skillopt_tests::support::cluster::Cluster;
use skillopt_tests::support::wait::until;
use tokio_util::sync::CancellationToken;

use crate::scene::{Scene, shape};

/// A client of this test's own on a cluster's Redis.
struct Rogue {
    tokio: tokio::runtime::Runtime,
    queue: RedisQueue,
    store: RedisStore,
}

impl Rogue {
    fn new(cluster: &Cluster, objects: Option<String>) -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let options = Options {
            objects: objects.map(|url| Site::new(&url, [])),
            ..Options::default()
        };
        let (queue, store) = tokio.block_on(async {
            let link = Link::open(&cluster.redis.url(), options).await;
            let store = RedisStore::new(link.expect("a link")).expect("a store");
            let queue = RedisQueue::open(store.clone()).await.expect("a queue");
            (queue, store)
        });
        Self {
            tokio,
            queue,
            store,
        }
    }

    fn now<T>(&self, work: impl Future<Output = T>) -> T {
        self.tokio.block_on(work)
    }

    fn lease(&self, lanes: Vec<Lane>, max: usize, ttl: Duration) -> Vec<Leased> {
        let want = Want {
            worker: "rogue".into(),
            lanes,
            max,
            ttl,
        };
        let token = CancellationToken::new();
        self.now(self.queue.lease(want, &token)).expect("a lease")
    }

    fn state(&self, key: Key) -> JobState {
        let states = self.now(self.queue.states(&[key])).expect("a state");
        states.into_iter().next().expect("one for each key")
    }
}

/// The lanes of the scene's training.
fn lanes() -> Vec<Lane> {
    let benchmark = registry::find("searchqa").expect("it is registered");
    let backend = "openai_compatible";
    [
        capability::calls(backend),
        capability::rollouts(backend, benchmark.name(), benchmark.version()),
    ]
    .map(|name| Lane::new(&name))
    .to_vec()
}

fn enqueue(name: &str, lane: &str) -> Enqueue {
    Enqueue {
        key: Key(Hash::of(name.as_bytes())),
        job: Bytes::copy_from_slice(name.as_bytes()),
        lane: Lane::new(lane),
        priority: Priority::NORMAL,
        run: RunId::new("by-hand"),
        not_before: None,
    }
}

/// Ends each of these jobs one to three times, in each way and in any order, and is refused; returns
/// how often.
#[track_caller]
fn ends_too_late(rogue: &Rogue, draw: &mut Draw, mut late: Vec<Ticket>) -> u64 {
    let mut refused = 0;
    while !late.is_empty() {
        let at = usize::try_from(draw.below(late.len() as u64)).expect("small");
        let ticket = late.swap_remove(at);
        for _ in 0..=draw.below(3) {
            let failure = Failure {
                cause: "garbage".into(),
                detail: Bytes::new(),
            };
            let answers = [
                rogue
                    .now(rogue.queue.complete(ticket, "garbage".into()))
                    .map(drop),
                rogue.now(rogue.queue.retry(ticket, Duration::ZERO, "garbage")),
                rogue.now(rogue.queue.give_up(ticket, failure)),
            ];
            for answer in answers {
                assert!(matches!(answer, Err(Error::Refused(_))), "{answer:?}");
                refused += 1;
            }
        }
    }
    refused
}

#[test]
fn completions_that_come_late_twice_and_out_of_order_are_refused() {
    let (scene, mut draw) = (Scene::new("uniform:20,120"), Draw::new());
    let cluster = Cluster::start_with(shape(1, 2));
    let rogue = Rogue::new(&cluster, None);
    let mut run = scene.submit(&cluster);
    let mut late: Vec<Leased> = Vec::new();
    for _ in 0..6 {
        // Taken, and not done: the time runs out, and a worker does it.
        let taken = rogue.lease(lanes(), 2, Duration::from_millis(50));
        let again = |l: &Leased| late.iter().any(|known| known.ticket.key == l.ticket.key);
        // A job that is lost too often would be set aside.
        let is_enough = taken.iter().any(again);
        late.extend(taken);
        if is_enough {
            break;
        }
    }
    assert!(late.len() > 1, "there is an order: {}", late.len());
    let keys: Vec<Key> = late.iter().map(|l| l.ticket.key).collect();
    until("others did what the rogue had", || {
        let found = rogue.now(rogue.store.results(&keys)).expect("a read");
        found.iter().all(Option::is_some)
    });
    scene.is_under_way(&mut run);
    let tickets = || late.iter().map(|leased| leased.ticket).collect();
    let mut refused = ends_too_late(&rogue, &mut draw, tickets());
    let ended = run.wait();
    // Once more when the steps and the run itself are closed.
    refused += ends_too_late(&rogue, &mut draw, tickets());
    let stats = rogue.now(rogue.queue.stats()).expect("counts");
    assert!(
        stats.refused >= refused,
        "{stats:?}: {refused} were refused"
    );
    drop(rogue);
    assert_eq!(scene.is_well(&ended, &cluster, 0), 0);
}

#[test]
fn a_job_of_a_newer_release_waits_for_a_newer_worker() {
    let scene = Scene::new("uniform:5,20");
    let cluster = Cluster::start_with(shape(1, 2));
    let rogue = Rogue::new(&cluster, None);
    // Its release alone keeps the workers from it.
    let today = capability::calls("openai_compatible");
    let lane = today.replace(&format!("v{}", job::VERSION), "v999");
    assert_ne!(lane, today);
    let new = enqueue("from the future", &lane);
    let key = new.key;
    let mut notices = rogue.now(rogue.queue.submit(vec![new])).expect("room");
    // A whole training later it is still there, and nobody has failed it.
    let ended = scene.submit(&cluster).wait();
    assert!(ended.status.success(), "{}", ended.stderr);
    let state = rogue.state(key);
    assert!(
        matches!(state, JobState::Waiting { losses: 0, .. }),
        "{state:?}"
    );
    let leased = rogue.lease(vec![Lane::new(&lane)], 1, Duration::from_secs(30));
    let ticket = leased.first().expect("the job").ticket;
    rogue
        .now(rogue.queue.complete(ticket, "done".into()))
        .expect("done");
    let told = rogue.now(notices.next(1)).expect("a notice");
    assert!(matches!(&told[..], [n] if matches!(&n.ended, Ended::Result(r) if r == "done")));
    assert_eq!(scene.is_well(&ended, &cluster, 0), 0);
}

#[test]
fn two_hundred_megabytes_travel_beside_small_answers() {
    let scene = Scene::new("uniform:5,20");
    let cluster = Cluster::start_with(shape(1, 2));
    let folder = cluster.path("objects");
    std::fs::create_dir_all(&folder).expect("a folder");
    let objects = [None, Some(format!("file://{}", folder.display()))];
    let mut draw = Draw::new();
    // Not to be compressed.
    let long: Vec<u8> = (0..25 << 20)
        .flat_map(|_| draw.next().to_le_bytes())
        .collect();
    let long = Bytes::from(long);
    let run = scene.submit(&cluster);
    for (n, objects) in objects.into_iter().enumerate() {
        let rogue = Rogue::new(&cluster, objects);
        let lane = format!("v1 chat by-hand-{n}");
        let new = enqueue(&format!("a long one {n}"), &lane);
        let mut notices = rogue.now(rogue.queue.submit(vec![new])).expect("room");
        let leased = rogue.lease(vec![Lane::new(&lane)], 1, Duration::from_secs(60));
        let ticket = leased.first().expect("the job").ticket;
        rogue
            .now(rogue.queue.complete(ticket, long.clone()))
            .expect("stored");
        let told = rogue.now(notices.next(1)).expect("a notice");
        let is_whole =
            matches!(&told[..], [n] if matches!(&n.ended, Ended::Result(r) if *r == long));
        assert!(is_whole, "the result came back as it was");
    }
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}
