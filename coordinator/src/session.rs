//! Jobs over a queue and a store: makes the job of each question, waits for its answer, and
//! projects rollouts into the run folder as they come in.

mod reading;
mod scribe;
pub(crate) mod set_aside;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream::{StreamExt, TryStreamExt};
use serde_json::Value;
use skillopt_benchmarks::searchqa::systemic_failure;
use skillopt_core::Hash;
use skillopt_core::job::{
    self, ChatRecord, ChatWork, Envelope, Failure, FailureClass, Job, Key, Limits, RolloutWork,
    Usage, Work,
};
use skillopt_queue::{Ended, Enqueue, Lane, Notice, Priority, Queue, RunId, Store};
use skillopt_runtime::Shutdown;
use tokio::sync::Semaphore;

use self::reading::{Chunk, Read, Row};
use self::scribe::{Page, Scribe};
use crate::folder::{Predictions, RunFolder, StageWriter};
use crate::halt::{Halt, NEW_RUN};
use crate::jobs::{ChatAsk, Jobs, RolloutAsk, Stage, Urgency};
use crate::payers::Payers;
use crate::progress::{Progress, Watcher};
use crate::sample::Sample;

/// Jobs that are submitted together.
const CHUNK: usize = 128;
/// Threads that decode answers.
const READERS: usize = 2;
/// Answers of so many bytes together are decoded where they arrive: some 0.1 ms.
const IN_PLACE_MAX: usize = 32 << 10;
/// Notices that are taken together.
const NOTICES: usize = 128;

/// Where answers come from.
#[derive(Clone)]
pub enum Source {
    /// Missing answers are queued for workers.
    Queue(Arc<dyn Queue>),
    /// Only stored answers count: a replay.
    Store,
}

/// What every job of a run has in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// The run.
    pub run: RunId,
    /// Lane of its rollouts.
    pub rollout_lane: Lane,
    /// Lane of its optimizer calls.
    pub chat_lane: Lane,
    /// Who may share its answers; see [`Job::scope`].
    pub scope: String,
    /// Registered name of the benchmark.
    pub benchmark: String,
    /// Its version.
    pub benchmark_version: String,
    /// Blob of the rollout settings.
    pub settings: Hash,
    /// The rollout settings themselves.
    pub settings_value: Arc<Value>,
    /// Blob of the target's profile.
    pub target: Hash,
    /// Blob of the optimizer's profile.
    pub optimizer: Hash,
    /// Limits of rollouts.
    pub rollout_limits: Limits,
    /// Limits of optimizer calls.
    pub chat_limits: Limits,
    /// Slots there are to fill: decides how many jobs are kept queued.
    pub slots: usize,
    /// Who pays for its calls.
    pub payers: Payers,
}

impl Common {
    /// Makes the job of one rollout, whose key is the address of its answer.
    #[must_use]
    pub fn rollout_job(&self, sample: &Sample, skill: Hash, repeat: u32) -> Job {
        let work = Work::Rollout(RolloutWork {
            benchmark: self.benchmark.clone(),
            benchmark_version: self.benchmark_version.clone(),
            item_id: sample.item.id.clone(),
            item: sample.hash,
            skill,
            target: self.target,
            settings: self.settings,
        });
        self.job(work, repeat)
    }

    fn job(&self, work: Work, repeat: u32) -> Job {
        Job {
            version: job::VERSION,
            work,
            repeat,
            scope: self.scope.clone(),
        }
    }
}

/// Answers the training loop over a queue and a store.
pub struct Session {
    source: Source,
    store: Arc<dyn Store>,
    folder: RunFolder,
    predictions: fn(&str) -> Predictions,
    common: Common,
    shutdown: Shutdown,
    watcher: Watcher,
    /// Blobs that are in the store for sure.
    known: Mutex<HashSet<Hash>>,
    /// Jobs whose tokens this run has counted, by the first half of their keys.
    used: Mutex<HashSet<[u8; 16]>>,
    /// Bounds the threads that decode answers.
    readers: Semaphore,
    scribe: Scribe,
    /// Stages that are complete, but that nobody may see yet.
    sealed: Mutex<HashMap<String, Arc<StageWriter>>>,
}

impl Session {
    /// Makes a session; `predictions` says for a stage's path whether its items get folders.
    #[must_use]
    pub fn new(
        source: Source,
        store: Arc<dyn Store>,
        folder: RunFolder,
        predictions: fn(&str) -> Predictions,
        common: Common,
        shutdown: Shutdown,
        watcher: Watcher,
    ) -> Self {
        let (known, used) = (Mutex::default(), Mutex::default());
        Self {
            source,
            store,
            folder,
            predictions,
            common,
            shutdown,
            watcher,
            known,
            used,
            readers: Semaphore::new(READERS),
            scribe: Scribe::start(),
            sealed: Mutex::default(),
        }
    }

    /// Waits until the run folder has everything that was asked for.
    ///
    /// # Errors
    /// It cannot be written; what is missing is made by the next start.
    pub fn close(&self) -> Result<(), Halt> {
        self.scribe.close()
    }

    /// Stores blobs that are not there yet.
    async fn put(&self, blobs: Vec<(Hash, Bytes)>) -> Result<(), Halt> {
        let new: Vec<Bytes> = {
            let known = lock(&self.known);
            blobs
                .iter()
                .filter(|(hash, _)| !known.contains(hash))
                .map(|(_, b)| b.clone())
                .collect()
        };
        if !new.is_empty() && matches!(self.source, Source::Queue(_)) {
            self.store
                .put_blobs(new)
                .await
                .map_err(Halt::infrastructure)?;
            lock(&self.known).extend(blobs.iter().map(|(hash, _)| *hash));
        }
        Ok(())
    }

    fn enqueue(
        &self,
        job: &Job,
        key: Key,
        limits: Limits,
        urgency: Urgency,
    ) -> Result<Enqueue, Halt> {
        let envelope = Envelope {
            job: job.clone(),
            limits,
            payer: self.common.payers.of(&job.work).cloned(),
        };
        let bytes = serde_json::to_vec(&envelope).map_err(Halt::infrastructure)?;
        Ok(Enqueue {
            key,
            job: bytes.into(),
            lane: match &job.work {
                Work::Rollout(_) => self.common.rollout_lane.clone(),
                Work::Chat(_) => self.common.chat_lane.clone(),
            },
            priority: match urgency {
                Urgency::Next => Priority::NORMAL,
                Urgency::Soon => Priority::new(3),
                Urgency::Background => Priority::new(1),
            },
            run: self.common.run.clone(),
            not_before: None,
        })
    }

    /// Counts the tokens of an answer the first time this run uses it.
    fn count(&self, key: Key, usage: Usage) -> Usage {
        let (half, _) = key.0.as_bytes().split_at(16);
        let is_new = half
            .try_into()
            .is_ok_and(|half| lock(&self.used).insert(half));
        if is_new { usage } else { Usage::default() }
    }

    /// Asks for `jobs` and calls `take` with each batch of answers until all are in.
    async fn answers<F>(
        &self,
        jobs: Vec<Enqueue>,
        mut take: impl FnMut(Vec<(Key, Bytes)>) -> F,
    ) -> Result<(), Halt>
    where
        F: Future<Output = Result<(), Halt>>,
    {
        let queue = match &self.source {
            Source::Queue(queue) => queue,
            Source::Store => {
                let keys: Vec<Key> = jobs.iter().map(|j| j.key).collect();
                let found = self
                    .store
                    .results(&keys)
                    .await
                    .map_err(Halt::infrastructure)?;
                let found: Option<Vec<(Key, Bytes)>> = keys
                    .into_iter()
                    .zip(found)
                    .map(|(k, b)| Some((k, b?)))
                    .collect();
                return take(found.ok_or(Halt::NotStored)?).await;
            }
        };
        let mut notices = queue.submit(jobs).await.map_err(Halt::infrastructure)?;
        loop {
            let news = self
                .shutdown
                .drain
                .run_until_cancelled(notices.next(NOTICES))
                .await;
            let news = news
                .ok_or(Halt::Interrupted)?
                .map_err(Halt::infrastructure)?;
            if news.is_empty() {
                return Ok(());
            }
            let answers: Result<Vec<_>, Halt> = news.into_iter().map(answer).collect();
            take(answers?).await?;
        }
    }

    async fn rollout_chunk(
        &self,
        ask: &RolloutAsk<'_>,
        skill: Hash,
        range: std::ops::Range<usize>,
        writer: &Arc<StageWriter>,
    ) -> Result<Vec<Row>, Halt> {
        let samples = ask.items.get(range.clone()).unwrap_or_default();
        self.put_items(samples).await?;
        let mut places: HashMap<Key, Vec<usize>> = HashMap::new();
        let mut jobs = Vec::with_capacity(samples.len());
        for (sample, index) in samples.iter().zip(range.clone()) {
            let repeat = ask.repeats.get(index).copied().unwrap_or(0);
            let job = self.common.rollout_job(sample, skill, repeat);
            let key = job.key();
            let place = places.entry(key).or_default();
            if place.is_empty() {
                jobs.push(self.enqueue(&job, key, self.common.rollout_limits, ask.urgency)?);
            }
            place.push(index);
        }
        let chunk = Arc::new(Chunk {
            places,
            first: range.start,
            samples: samples.iter().map(|s| (*s).clone()).collect(),
            skill: Arc::clone(ask.skill),
            skill_files: ask.skill.text_files(),
            benchmark: self.common.benchmark.clone(),
            settings: Arc::clone(&self.common.settings_value),
            keep_records: ask.keep_records,
            writer: Arc::clone(writer),
        });
        let rows = Mutex::new(Vec::with_capacity(samples.len()));
        self.answers(jobs, |answers| {
            let (chunk, rows, n) = (Arc::clone(&chunk), &rows, answers.len());
            let writer = Arc::clone(writer);
            async move {
                let read = self.read(chunk, answers).await?;
                lock(rows).extend(read.rows);
                if !read.to_write.is_empty() {
                    self.scribe
                        .write(Page::Items(writer, read.to_write))
                        .await?;
                }
                self.watcher.tell(Progress::Rolled {
                    stage: ask.stage,
                    n,
                    of: ask.items.len(),
                });
                Ok(())
            }
        })
        .await?;
        Ok(rows.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Decodes answers. Much of it would hold up the async threads; little is done sooner than it
    /// is handed over.
    async fn read(&self, chunk: Arc<Chunk>, answers: Vec<(Key, Bytes)>) -> Result<Read, Halt> {
        let bytes: usize = answers.iter().map(|(_, bytes)| bytes.len()).sum();
        if bytes <= IN_PLACE_MAX {
            return chunk.read(&answers);
        }
        let _reader = self.readers.acquire().await.map_err(Halt::infrastructure)?;
        let read = tokio::task::spawn_blocking(move || chunk.read(&answers));
        read.await.map_err(Halt::infrastructure)?
    }

    /// Tells if agents did tasks without the skill: their scores are not about it.
    fn tell_unread(&self, stage: &str, rows: &[Row]) {
        let seen = || rows.iter().filter_map(|row| row.is_skill_read);
        let (read, of) = (seen().filter(|is_read| *is_read).count(), seen().count());
        if read < of {
            self.watcher.tell(Progress::Unread { stage, read, of });
        }
    }

    /// Stores the items that are not in the store yet.
    async fn put_items(&self, samples: &[&Sample]) -> Result<(), Halt> {
        let new: Vec<(Hash, Bytes)> = {
            let known = lock(&self.known);
            let new = samples.iter().filter(|s| !known.contains(&s.hash));
            new.map(|s| (s.hash, s.bytes())).collect()
        };
        self.put(new).await
    }
}

/// A stage in which no agent said anything says nothing about the skill: something is wrong with
/// all of them (benchmarks spec 2.5).
fn refuse_mute(stage: &str, rows: &[Row]) -> Result<(), Halt> {
    if rows.is_empty() || !rows.iter().all(|row| row.is_mute) {
        return Ok(());
    }
    let rows: Vec<Value> = rows
        .iter()
        .filter_map(|row| serde_json::from_slice(row.bytes()?).ok())
        .collect();
    let cause = systemic_failure(&rows).unwrap_or_default();
    Err(Halt::Paused(
        FailureClass::Provider,
        format!(
            "{cause} (`{stage}`); check the model's limits with `skillopt doctor`. These failures are \
             kept: {NEW_RUN} once the cause is gone"
        ),
    ))
}

fn answer(notice: Notice) -> Result<(Key, Bytes), Halt> {
    match notice.ended {
        Ended::Result(bytes) => Ok((notice.key, bytes)),
        Ended::Cancelled => Err(Halt::Interrupted),
        Ended::Failed(dead) => {
            let failure: Failure =
                serde_json::from_slice(&dead.failure.detail).unwrap_or_else(|_| {
                    // The queue itself gave up: the job cost too many workers their lease.
                    Failure {
                        class: FailureClass::Infrastructure,
                        cause: set_aside::cause(&dead),
                    }
                });
            Err(failure.into())
        }
    }
}

impl Jobs for Session {
    async fn rollouts(&self, ask: RolloutAsk<'_>) -> Result<Stage, Halt> {
        let n = ask.items.len();
        // Before anything is waited for: a stage beside this one may end the run at any time, and
        // what is told of this one would then depend on who was faster.
        self.watcher.tell(Progress::Rolled {
            stage: ask.stage,
            n: 0,
            of: n,
        });
        let skill_bytes = Bytes::from(ask.skill.encode());
        let skill = Hash::of(&skill_bytes);
        self.put(vec![(skill, skill_bytes)]).await?;
        let writer = Arc::new(
            self.folder
                .stage(ask.stage, (self.predictions)(ask.stage))?,
        );
        let chunks = (0..n)
            .step_by(CHUNK)
            .map(|start| start..(start + CHUNK).min(n));
        // Enough chunks under way to fill all slots twice, and to have some at hand.
        let ahead = 4 + 2 * self.common.slots / CHUNK;
        let mut rows: Vec<Row> = futures_util::stream::iter(chunks)
            .map(|range| self.rollout_chunk(&ask, skill, range, &writer))
            .buffer_unordered(ahead)
            .try_fold(Vec::with_capacity(n), |mut all, rows| async move {
                all.extend(rows);
                Ok(all)
            })
            .await?;
        rows.sort_unstable_by_key(|row| row.index);
        refuse_mute(ask.stage, &rows)?;
        if writer.is_done() && !writer.holds(rows.iter().filter_map(Row::bytes))? {
            // The folder was made from other answers (another store, a power cut): make it anew.
            writer.discard()?;
            return Box::pin(self.rollouts(ask)).await;
        }
        if !ask.skill.document.trim().is_empty() {
            self.tell_unread(ask.stage, &rows);
        }
        let mut stage = Stage::default();
        for row in &rows {
            stage.usage += self.count(row.key, row.usage);
        }
        let mut lines = Vec::new();
        for row in rows {
            lines.extend(row.line);
            stage.rolled.push(row.rolled);
        }
        if writer.wants_rows() {
            self.scribe
                .write(Page::Rows(Arc::clone(&writer), lines))
                .await?;
            match ask.urgency {
                Urgency::Next | Urgency::Soon => self.scribe.write(Page::Show(writer)).await?,
                Urgency::Background => {
                    lock(&self.sealed).insert(ask.stage.to_owned(), writer);
                }
            }
        }
        Ok(stage)
    }

    async fn reveal(&self, stage: &str) -> Result<(), Halt> {
        let writer = lock(&self.sealed).remove(stage);
        match writer {
            Some(writer) => self.scribe.write(Page::Show(writer)).await,
            None => Ok(()),
        }
    }

    async fn annotate(&self, stage: &str, name: &str, value: &Value) -> Result<(), Halt> {
        let page = Page::Note(
            self.folder.clone(),
            format!("{stage}/{name}"),
            value.clone(),
        );
        self.scribe.write(page).await
    }

    async fn chat(&self, ask: ChatAsk) -> Result<ChatRecord, Halt> {
        let prompt = Bytes::from(serde_json::to_vec(&ask.prompt).map_err(Halt::infrastructure)?);
        let hash = Hash::of(&prompt);
        self.put(vec![(hash, prompt)]).await?;
        let work = Work::Chat(ChatWork {
            stage: ask.stage.to_owned(),
            prompt: hash,
            model: self.common.optimizer,
            max_tokens: ask.max_tokens,
            reasoning_effort: ask.reasoning_effort,
        });
        let job = self.common.job(work, 0);
        let key = job.key();
        let enqueue = self.enqueue(&job, key, self.common.chat_limits, Urgency::Next)?;
        self.watcher.tell(Progress::Asked { stage: ask.stage });
        let record = Mutex::new(None);
        self.answers(vec![enqueue], |answers| {
            let read = answers
                .first()
                .map(|(_, bytes)| serde_json::from_slice::<ChatRecord>(bytes));
            let kept = match read {
                Some(Ok(read)) => {
                    *lock(&record) = Some(read);
                    Ok(())
                }
                Some(Err(e)) => Err(Halt::infrastructure(format!(
                    "result `{key}` is damaged: {e}"
                ))),
                None => Ok(()),
            };
            std::future::ready(kept)
        })
        .await?;
        let record = record.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut record =
            record.ok_or_else(|| Halt::infrastructure("a call ended without a notice"))?;
        self.watcher.tell(Progress::Answered { stage: ask.stage });
        record.usage = self.count(key, record.usage);
        Ok(record)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
