//! Worker processes on a real Redis: how they leave, and what becomes of the jobs of those that
//! are frozen or killed. The test stands in for the coordinator.

// Everything here is a test.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use skillopt_core::Hash;
use skillopt_core::capability;
use skillopt_core::job::{self, ChatWork, Envelope, Job, Limits, Profile, Prompt, Work};
use skillopt_queue::queue::Stats;
use skillopt_queue::redis::{Link, Options, RedisQueue, RedisStore};
use skillopt_queue::{Ended, Enqueue, Lane, Notices, Priority, Queue, RunId, Store};
use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::http::get;
use skillopt_tests::support::sim::Sim;
use skillopt_tests::support::wait::until;

/// A cluster without a coordinator, and a queue to fill.
struct Line {
    cluster: Cluster,
    sim: Sim,
    queue: RedisQueue,
    store: RedisStore,
    // Ends last: the queue's tasks run on it.
    runtime: tokio::runtime::Runtime,
}

impl Line {
    fn start(workers: usize, worker_args: &[&str], latency: &str) -> Self {
        Self::with_slots(4, workers, worker_args, latency)
    }

    fn with_slots(slots: usize, workers: usize, worker_args: &[&str], latency: &str) -> Self {
        let sim = Sim::start(&["--latency", latency]);
        let cluster = Cluster::start_with(Shape {
            coordinators: 0,
            workers,
            slots: format!("chat={slots}"),
            worker_args: worker_args.iter().map(|arg| (*arg).to_owned()).collect(),
            ..Shape::default()
        });
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (queue, store) = runtime.block_on(async {
            let link = Link::open(&cluster.redis.url(), Options::default())
                .await
                .unwrap();
            let store = RedisStore::new(link).unwrap();
            (RedisQueue::open(store.clone()).await.unwrap(), store)
        });
        Self {
            cluster,
            sim,
            queue,
            store,
            runtime,
        }
    }

    /// Submits calls with these prompts.
    fn submit(&self, prompts: &[&str]) -> Notices {
        let profile = Profile {
            role: "target".to_owned(),
            backend: "openai_compatible".to_owned(),
            model: "sim".to_owned(),
            endpoint: self.sim.url(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: serde_json::Map::new(),
        };
        let profile = serde_json::to_vec(&profile).unwrap();
        let model = Hash::of(&profile);
        let mut blobs = vec![profile.into()];
        let jobs = prompts
            .iter()
            .map(|prompt| {
                let prompt = Prompt {
                    system: "Answer the question.".to_owned(),
                    user: (*prompt).to_owned(),
                    schema: None,
                };
                let blob = serde_json::to_vec(&prompt).unwrap();
                let prompt = Hash::of(&blob);
                blobs.push(blob.into());
                enqueue(prompt, model)
            })
            .collect();
        self.runtime.block_on(async {
            self.store.put_blobs(blobs).await.unwrap();
            self.queue.submit(jobs).await.unwrap()
        })
    }

    fn stats(&self) -> Stats {
        self.runtime.block_on(self.queue.stats()).unwrap()
    }

    /// Waits for the results of all jobs.
    fn results(&self, mut notices: Notices) -> usize {
        self.runtime.block_on(async {
            let mut results = 0;
            while notices.remaining() > 0 {
                let next = tokio::time::timeout(Duration::from_secs(60), notices.next(100)).await;
                for notice in next.expect("the jobs end").unwrap() {
                    assert!(
                        matches!(notice.ended, Ended::Result(_)),
                        "{:?}",
                        notice.ended
                    );
                    results += 1;
                }
            }
            results
        })
    }

    fn in_flight(&self) -> u64 {
        self.sim.stats().number("in_flight")
    }
}

fn enqueue(prompt: Hash, model: Hash) -> Enqueue {
    let job = Job {
        version: job::VERSION,
        work: Work::Chat(ChatWork {
            stage: "analyst".to_owned(),
            prompt,
            model,
            max_tokens: 100,
            reasoning_effort: None,
        }),
        repeat: 0,
        scope: String::new(),
    };
    let key = job.key();
    let envelope = Envelope {
        job,
        limits: Limits {
            call_timeout_ms: 600_000,
            attempts: 1,
            retry_base_ms: 10,
            retry_cap_ms: 10,
            hedge_permille: 0,
        },
        payer: None,
    };
    Enqueue {
        key,
        job: serde_json::to_vec(&envelope).unwrap().into(),
        lane: Lane::new(&capability::calls("openai_compatible")),
        priority: Priority::NORMAL,
        run: RunId::new("r1"),
        not_before: None,
    }
}

#[test]
fn jobs_that_outlive_the_time_to_drain_go_back_untouched() {
    let mut line = Line::start(1, &["--drain-seconds", "1"], "fixed:600000");
    let _notices = line.submit(&["one", "two"]);
    until("both calls are under way", || line.in_flight() == 2);
    let mut worker = line.cluster.workers.remove(0);
    worker.terminate();
    worker.wait().code(0);
    let stats = line.stats();
    assert_eq!((stats.queued, stats.leased, stats.delayed), (2, 0, 0));
    assert_eq!((stats.losses, stats.dead), (0, 0));
}

#[test]
fn a_second_signal_ends_a_worker_at_once() {
    let mut line = Line::start(1, &["--drain-seconds", "600"], "fixed:600000");
    let _notices = line.submit(&["one"]);
    until("the call is under way", || line.in_flight() == 1);
    let mut worker = line.cluster.workers.remove(0);
    worker.terminate();
    until("it says that it is not ready", || {
        get(worker.http(), "/readyz").is_ok_and(|(status, _)| status == 503)
    });
    worker.terminate();
    worker.wait();
    let stats = line.stats();
    assert_eq!((stats.queued, stats.leased, stats.losses), (1, 0, 0));
}

#[test]
fn a_frozen_worker_has_no_word_about_a_job_that_another_has_done() {
    let mut line = Line::start(1, &[], "fixed:600000");
    let notices = line.submit(&["one"]);
    until("the call is under way", || line.in_flight() == 1);
    line.cluster.workers[0].freeze();
    line.sim
        .configure(serde_json::json!({"latency": "fixed:0"}));
    line.cluster.add_worker();
    assert_eq!(line.results(notices), 1);
    assert_eq!(line.stats().losses, 1);
    line.cluster.workers[0].thaw();
    let frozen = &line.cluster.workers[0];
    until("it lets the job go", || {
        frozen.ended(&["lost", "refused"]) == 1
    });
    assert_eq!(frozen.ended(&["done"]), 0, "it has no word about it");

    let second = line.cluster.workers.remove(1);
    second.kill();
    let notices = line.submit(&["two"]);
    assert_eq!(line.results(notices), 1, "it works on");
    let worker = &line.cluster.workers[0];
    until("it counts what it has done", || {
        worker.ended(&["done"]) == 1
    });
}

#[test]
fn the_jobs_of_a_killed_worker_are_done_by_another_after_a_lease() {
    let mut line = Line::start(1, &[], "fixed:600000");
    let notices = line.submit(&["one", "two", "three"]);
    until("all calls are under way", || line.in_flight() == 3);
    line.cluster.workers.remove(0).kill();
    line.sim
        .configure(serde_json::json!({"latency": "fixed:0"}));
    line.cluster.add_worker();
    assert_eq!(line.results(notices), 3);
    let stats = line.stats();
    assert_eq!((stats.losses, stats.leased, stats.dead), (3, 0, 0));
}

#[test]
fn two_thousand_calls_are_under_way_at_once_on_the_threads_of_one_worker() {
    const CALLS: usize = 2_000;
    // Long enough for all connections to be made before the first answer comes.
    let line = Line::with_slots(CALLS, 1, &[], "fixed:25000");
    let prompts: Vec<String> = (0..CALLS).map(|n| format!("question {n}")).collect();
    let prompts: Vec<&str> = prompts.iter().map(String::as_str).collect();
    let notices = line.submit(&prompts);
    until("all calls are under way", || {
        line.sim.stats().number("in_flight_max") == CALLS as u64
    });
    let worker = &line.cluster.workers[0];
    let (threads, peak) = (worker.threads(), worker.peak_bytes());
    assert_eq!(
        worker.metric("skillopt_worker_jobs_in_flight", &[]),
        CALLS as u64
    );
    assert!(threads <= 64, "{threads} threads for {CALLS} calls");
    let each = peak / CALLS as u64;
    assert!(each <= 256 << 10, "{each} bytes for each call");
    println!(
        "{CALLS} calls under way: {threads} threads, {} MiB",
        peak >> 20
    );
    assert_eq!(line.results(notices), CALLS);
    let stats = line.stats();
    assert_eq!((stats.losses, stats.refused, stats.dead), (0, 0, 0));
    assert_eq!(
        line.sim.settled().number("calls"),
        CALLS as u64,
        "one call each"
    );
}
