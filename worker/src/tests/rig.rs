//! What the tests of a worker share: a queue, a board, a model that does as it is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest};
use skillopt_core::Hash;
use skillopt_core::capability::{self, Kind};
use skillopt_core::job::{ChatWork, Envelope, Job, Key, Limits, Profile, Prompt, Usage, Work};
use skillopt_queue::board::MemoryBoard;
use skillopt_queue::fleet::WorkerRecord;
use skillopt_queue::queue::{
    Completed, DeadLetter, Error, Failure, JobState, LaneStats, Renewal, Stats, Which, Withdrawn,
};
use skillopt_queue::{
    Board, EmbeddedQueue, Ended, Enqueue, Lane, Leased, MemoryStore, Notices, Priority, Queue,
    RunId, Store, TestClock, Ticket, Want, store,
};
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::Stopwatch;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Lifeline, ModelFactory, Settings, Unusable, Worker};

/// Lets blocked calls end when a test fails, or its runtime could not end.
impl Drop for Rig {
    fn drop(&mut self) {
        self.model.unblock.store(true, Ordering::SeqCst);
    }
}

/// Lease time by the queue's clock, which stands still; renewals come three times in it by ours.
pub(super) const TTL: Duration = Duration::from_millis(60);

/// A model; the stage of a call says what it does.
#[derive(Default)]
pub(super) struct Model {
    pub(super) asked: AtomicU64,
    pub(super) dropped: AtomicU64,
    /// Lets calls of stage `wait` go on, one each.
    pub(super) gate: Gate,
    /// Calls of stage `block` hold their thread until this is set.
    pub(super) unblock: AtomicBool,
    /// This machine cannot make clients.
    pub(super) is_broken: AtomicBool,
    /// Worker `w1` may not call its server.
    pub(super) is_foreign: AtomicBool,
}

pub(super) struct Gate(pub(super) Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

struct Dropped<'a>(&'a AtomicU64, bool);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl ChatModel for Model {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut dropped = Dropped(&self.dropped, true);
        match request.stage.split('-').next() {
            Some("wait") => self.gate.0.acquire().await.unwrap().forget(),
            Some("block") => {
                while !self.unblock.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Some("panic") => panic!("as the test wishes"),
            Some("lost") => {
                dropped.1 = false;
                let detail = "as the test wishes".to_owned();
                return Err(CallError::Machine { detail });
            }
            _ => {}
        }
        dropped.1 = false;
        let usage = Usage {
            calls: 1,
            prompt_tokens: 3,
            completion_tokens: 2,
            ..Usage::default()
        };
        Ok(ChatReply::text(&request.stage, usage))
    }
}

/// A queue that can be taken away, and counts what it is asked.
pub(super) struct Spy {
    queue: EmbeddedQueue,
    pub(super) is_away: AtomicBool,
    pub(super) renewals: AtomicU64,
    pub(super) completions: AtomicU64,
}

impl Spy {
    fn here(&self) -> Result<&EmbeddedQueue, Error> {
        if self.is_away.load(Ordering::SeqCst) {
            Err(Error::Store(store::Error::Io {
                place: "queue".to_owned(),
                detail: "connection refused".to_owned(),
            }))
        } else {
            Ok(&self.queue)
        }
    }
}

#[async_trait]
impl Queue for Spy {
    async fn submit(&self, jobs: Vec<Enqueue>) -> Result<Notices, Error> {
        self.here()?.submit(jobs).await
    }

    async fn lease(&self, want: Want, drain: &CancellationToken) -> Result<Vec<Leased>, Error> {
        self.here()?.lease(want, drain).await
    }

    async fn renew(&self, tickets: &[Ticket], ttl: Duration) -> Result<Vec<Renewal>, Error> {
        let answers = self.here()?.renew(tickets, ttl).await;
        self.renewals.fetch_add(1, Ordering::SeqCst);
        answers
    }

    async fn complete(&self, ticket: Ticket, result: Bytes) -> Result<Completed, Error> {
        self.completions.fetch_add(1, Ordering::SeqCst);
        self.here()?.complete(ticket, result).await
    }

    async fn retry(&self, ticket: Ticket, delay: Duration, cause: &str) -> Result<(), Error> {
        self.here()?.retry(ticket, delay, cause).await
    }

    async fn hand_back(&self, tickets: &[Ticket]) -> Result<usize, Error> {
        self.here()?.hand_back(tickets).await
    }

    async fn give_up(&self, ticket: Ticket, failure: Failure) -> Result<(), Error> {
        self.here()?.give_up(ticket, failure).await
    }

    async fn cancel(&self, run: &RunId, which: Which<'_>) -> Result<Withdrawn, Error> {
        self.here()?.cancel(run, which).await
    }

    async fn dead_letters(&self, max: usize) -> Result<Vec<Arc<DeadLetter>>, Error> {
        self.here()?.dead_letters(max).await
    }

    async fn stats(&self) -> Result<Stats, Error> {
        self.queue.stats().await
    }

    async fn states(&self, keys: &[Key]) -> Result<Vec<JobState>, Error> {
        self.here()?.states(keys).await
    }

    async fn lanes(&self) -> Result<Vec<LaneStats>, Error> {
        self.here()?.lanes().await
    }
}

/// A queue, a store, a board and a model.
pub(super) struct Rig {
    pub(super) clock: TestClock,
    pub(super) queue: Arc<Spy>,
    pub(super) board: Arc<dyn Board>,
    pub(super) model: Arc<Model>,
    store: Arc<dyn Store>,
    profile: Hash,
    prompt: Hash,
    pub(super) said: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    pub(super) async fn new() -> Self {
        let clock = TestClock::new();
        let store = MemoryStore::default();
        let queue = EmbeddedQueue::new(store.clone(), Arc::new(clock.clone()), Default::default());
        let queue = Arc::new(Spy {
            queue,
            is_away: AtomicBool::new(false),
            renewals: AtomicU64::new(0),
            completions: AtomicU64::new(0),
        });
        let profile = Profile {
            role: "optimizer".to_owned(),
            backend: "simulated".to_owned(),
            model: "m".to_owned(),
            endpoint: String::new(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: serde_json::Map::new(),
        };
        let prompt = Prompt {
            system: "s".to_owned(),
            user: "u".to_owned(),
            schema: None,
        };
        let blobs = [
            Bytes::from(serde_json::to_vec(&profile).unwrap()),
            Bytes::from(serde_json::to_vec(&prompt).unwrap()),
        ];
        let [profile, prompt] = [Hash::of(&blobs[0]), Hash::of(&blobs[1])];
        store.put_blobs(blobs.to_vec()).await.unwrap();
        Self {
            board: Arc::new(MemoryBoard::new(Arc::new(clock.clone()))),
            clock,
            queue,
            model: Arc::default(),
            store: Arc::new(store),
            profile,
            prompt,
            said: Arc::default(),
        }
    }

    /// Submits one call for each stage.
    pub(super) async fn submit(&self, stages: &[&str]) -> Notices {
        self.submit_to(&capability::calls("simulated"), stages)
            .await
    }

    pub(super) async fn submit_to(&self, lane: &str, stages: &[&str]) -> Notices {
        let jobs = stages.iter().map(|stage| {
            let job = Job {
                version: skillopt_core::job::VERSION,
                work: Work::Chat(ChatWork {
                    stage: (*stage).to_owned(),
                    prompt: self.prompt,
                    model: self.profile,
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
                    call_timeout_ms: 60_000,
                    attempts: 3,
                    retry_base_ms: 10,
                    retry_cap_ms: 10,
                    hedge_permille: 0,
                },
                payer: None,
            };
            Enqueue {
                key,
                job: serde_json::to_vec(&envelope).unwrap().into(),
                lane: Lane::new(lane),
                priority: Priority::NORMAL,
                run: RunId::new("r1"),
                not_before: None,
            }
        });
        self.queue.submit(jobs.collect()).await.unwrap()
    }

    pub(super) fn settings(&self, slots: usize) -> Settings {
        let slots = BTreeMap::from([(Kind::Chat, slots)]);
        Settings {
            lease_ttl: TTL,
            drain: Duration::MAX,
            scratch: None,
            check_every: Duration::from_millis(20),
            ..Settings::cluster("w1", slots, &["simulated"])
        }
    }

    pub(super) fn worker(&self, settings: Settings) -> Worker {
        let model = Arc::clone(&self.model);
        let name = Arc::clone(&settings.name);
        let factory: ModelFactory = Arc::new(move |_: &Profile| {
            if &*name == "w1" && model.is_foreign.load(Ordering::SeqCst) {
                return Err(Unusable::Elsewhere {
                    endpoint: "http://models".to_owned(),
                    error: Box::new(CallError::Misconfigured {
                        endpoint: "http://models".to_owned(),
                        status: 0,
                        detail: "no credential".to_owned(),
                    }),
                });
            }
            if model.is_broken.load(Ordering::SeqCst) {
                return Err(Unusable::Here("no client can be made".to_owned()));
            }
            Ok(Arc::clone(&model) as Arc<dyn ChatModel>)
        });
        let lifeline = Lifeline {
            queue: self.queue.clone(),
            board: Some(Arc::clone(&self.board)),
        };
        let said = Arc::clone(&self.said);
        Worker::new(
            settings,
            self.queue.clone(),
            Arc::clone(&self.store),
            factory,
        )
        .with_lifeline(Arc::new(move || {
            Box::pin(std::future::ready(Ok(lifeline.clone())))
        }))
        .with_teller(Arc::new(move |text| {
            said.lock().unwrap().push(text.to_owned());
        }))
    }

    /// Starts a worker with four slots.
    pub(super) fn start(&self) -> Running {
        Running::start(self.worker(self.settings(4)))
    }

    pub(super) fn asked(&self) -> u64 {
        self.model.asked.load(Ordering::SeqCst)
    }

    pub(super) async fn stats(&self) -> Stats {
        self.queue.stats().await.unwrap()
    }

    /// Takes a job as another worker does.
    pub(super) async fn steal(&self) -> Leased {
        let want = Want {
            worker: "w2".into(),
            lanes: vec![Lane::new(&capability::calls("simulated"))],
            max: 1,
            ttl: Duration::from_secs(3600),
        };
        let leased = self.queue.lease(want, &CancellationToken::new()).await;
        leased.unwrap().pop().unwrap()
    }

    /// Returns what the worker says of itself, once that is as wished.
    pub(super) async fn record(&self, is_right: impl Fn(&WorkerRecord) -> bool) -> WorkerRecord {
        let mut seen = None;
        until(async || {
            let record = self.board.get(&WorkerRecord::path("w1")).await.unwrap();
            seen = record.map(|r| serde_json::from_slice::<WorkerRecord>(&r.value).unwrap());
            seen.as_ref().is_some_and(&is_right)
        })
        .await;
        seen.unwrap()
    }
}

/// A worker that runs.
pub(super) struct Running {
    pub(super) worker: Arc<Worker>,
    pub(super) shutdown: Shutdown,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(super) fn start(worker: Worker) -> Self {
        let worker = Arc::new(worker);
        let shutdown = Shutdown::new();
        let task = tokio::spawn(Arc::clone(&worker).run(shutdown.clone()));
        Self {
            worker,
            shutdown,
            task,
        }
    }

    /// Waits until it has ended by itself.
    pub(super) async fn ended(self) -> Result<(), Error> {
        let ended = tokio::time::timeout(Duration::from_secs(20), self.task).await;
        ended.expect("it ends").unwrap()
    }

    /// Lets it finish.
    pub(super) async fn drain(self) {
        self.shutdown.drain.cancel();
        self.ended().await.unwrap();
    }
}

/// Waits for a condition.
pub(super) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let watch = Stopwatch::start();
    while !is_so().await {
        assert!(
            watch.elapsed() < Duration::from_secs(20),
            "it never happens"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the texts of all answers, in order; panics if a job failed.
pub(super) async fn answers(mut notices: Notices) -> Vec<String> {
    let mut texts = Vec::new();
    while notices.remaining() > 0 {
        let next = tokio::time::timeout(Duration::from_secs(20), notices.next(100)).await;
        for notice in next.expect("they end").unwrap() {
            let Ended::Result(result) = notice.ended else {
                panic!("a job failed: {:?}", notice.ended);
            };
            let record: serde_json::Value = serde_json::from_slice(&result).unwrap();
            texts.push(record["answer"]["text"].as_str().unwrap().to_owned());
        }
    }
    texts.sort();
    texts
}
