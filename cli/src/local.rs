//! Runs a training or an evaluation in this process: embedded queue, one database file, the real
//! worker with N slots.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skillopt_config::RunConfig;
use skillopt_coordinator::Halt;
use skillopt_coordinator::folder::{Claim, RunFolder};
use skillopt_coordinator::log::Log;
use skillopt_coordinator::prepare::{Prepared, predictions};
use skillopt_coordinator::session::{Common, Session, Source};
use skillopt_coordinator::timings::Timings;
use skillopt_coordinator::train::{Ending, train};
use skillopt_queue::queue::Limits;
use skillopt_queue::{EmbeddedQueue, Queue, RunId, SqliteStore, Store, SystemClock, sqlite};
use skillopt_runtime::Shutdown;
use skillopt_runtime::files;
use skillopt_worker::{Settings, Worker};

use crate::failure::Failure;
use crate::models::{self, Tape};
use crate::output::progress::Reporter;
use crate::output::providers::Providers;
use crate::purse::Purse;
use crate::status::{self, Status};

/// What a call may take beyond its own limit until its answer is stored.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);

/// Time between two looks at how the run is doing.
const BEAT: Duration = Duration::from_secs(1);
/// Looks in a row that see calls waiting to be tried again before it is told.
const BEATS_OF_RETRIES: u32 = 2;

/// The parts of a run in this process.
pub(crate) struct Local {
    pub(crate) folder: RunFolder,
    pub(crate) store: Arc<dyn Store>,
    queue: Arc<dyn Queue>,
    worker: Arc<Worker>,
    scope: String,
    /// What the run spends, and how fast.
    purse: Purse,
    /// The database as it was named.
    named_store: String,
    /// How long a run that stops waits for calls under way.
    drain: Duration,
    _claim: Claim,
}

impl Local {
    /// Takes the run folder and opens the store.
    ///
    /// # Errors
    /// The folder belongs to another run or process, or the place cannot be written.
    pub(crate) fn open(
        config: &RunConfig,
        prepared: &Prepared,
        tape: &Tape,
    ) -> Result<Self, Failure> {
        let folder = RunFolder::new(&config.out_root);
        let (rollout, chat) = (prepared.common.rollout_limits, prepared.common.chat_limits);
        let longest = rollout.call_timeout_ms.max(chat.call_timeout_ms);
        let claim = || prepared.claim(&folder);
        // A store that another process has is known before the folder is touched; the folder's own
        // store goes with the right to the folder.
        let (claim, store) = if config.store.is_empty() {
            (claim()?, open(&folder.store())?)
        } else {
            let store = open(Path::new(&config.store))?;
            (claim()?, store)
        };
        let scope = prepared.scope(config, &folder)?;
        let clock = Arc::new(SystemClock::new());
        let queue: Arc<dyn Queue> =
            Arc::new(EmbeddedQueue::new(store.clone(), clock, Limits::default()));
        let store: Arc<dyn Store> = Arc::new(store);
        let settings = Settings::local(config.slot_count(), &models::available_in_any());
        let worker = Worker::new(
            settings,
            Arc::clone(&queue),
            Arc::clone(&store),
            models::factory(config, tape),
        );
        let purse = Purse::open(config, &folder, prepared.common.run.as_str())?;
        let worker = worker.with_meter(purse.meter());
        Ok(Self {
            purse,
            folder,
            store,
            queue,
            worker: Arc::new(worker),
            scope,
            named_store: config.store.clone(),
            drain: Duration::from_millis(longest) + DRAIN_MARGIN,
            _claim: claim,
        })
    }

    /// Makes the session that answers a run's questions.
    pub(crate) fn session(
        &self,
        config: &RunConfig,
        prepared: &Prepared,
        shutdown: &Shutdown,
        reporter: &Reporter,
    ) -> Session {
        Session::new(
            Source::Queue(Arc::clone(&self.queue)),
            Arc::clone(&self.store),
            self.folder.clone(),
            predictions(config.predictions),
            Common {
                scope: self.scope.clone(),
                ..prepared.common.clone()
            },
            shutdown.clone(),
            reporter.watcher(),
        )
    }

    /// Writes down how the run is doing.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn write_status(
        &self,
        state: &str,
        cause: Option<&str>,
        reporter: &Reporter,
    ) -> Result<(), Halt> {
        let status = Status {
            state: state.to_owned(),
            cause: cause.map(str::to_owned),
            store: self.named_store.clone(),
            baseline_in: reporter.baseline_in(),
            ..Status::default()
        };
        Ok(status.write(&self.folder)?)
    }

    /// Writes down what became of the run.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn write_outcome<T>(
        &self,
        outcome: &Result<T, Halt>,
        state: impl Fn(&T) -> &'static str,
        reporter: &Reporter,
    ) -> Result<(), Halt> {
        match outcome {
            Ok(done) => self.write_status(state(done), None, reporter),
            Err(halt) => self.write_status(status::word(halt), Some(&halt.to_string()), reporter),
        }
    }

    /// Tells now and then what no event tells: that calls are tried again, how providers are doing,
    /// and how far the first measurement is. Goes on until dropped.
    async fn beat(&self, reporter: &Reporter) -> Infallible {
        let (mut retrying, mut written) = (0, None);
        let mut providers = Providers::default();
        loop {
            tokio::time::sleep(BEAT).await;
            // Calls under way count as spent, should this process die.
            drop(self.purse.write(&self.folder, true).await);
            for change in providers.changes(&self.purse.accounts().await) {
                reporter.provider(&change);
            }
            let stats = self.queue.stats().await.ok();
            let delayed = stats.map_or(0, |stats| stats.delayed);
            retrying = if delayed > 0 { retrying + 1 } else { 0 };
            if retrying == BEATS_OF_RETRIES {
                reporter.retrying(delayed);
            }
            let seen = reporter.baseline_in();
            if seen.is_some() && seen != written {
                written = seen;
                // Only for those who watch; the end is written with care.
                drop(self.write_status("running", None, reporter));
            }
        }
    }

    /// Opens the run's log.
    ///
    /// # Errors
    /// The folder's mark cannot be read.
    pub(crate) fn log(
        &self,
        prepared: &Prepared,
        reporter: &Reporter,
    ) -> Result<Log, files::FileError> {
        let name = self.folder.log_name(prepared.common.run.as_str())?;
        Ok(Log::new(
            Arc::clone(&self.store),
            RunId::new(&name),
            reporter.watcher(),
        ))
    }

    /// Runs `work` beside the worker, then lets the worker finish what is under way.
    pub(crate) async fn with_worker<T>(
        &self,
        shutdown: &Shutdown,
        reporter: &Reporter,
        work: impl Future<Output = Result<T, Halt>>,
    ) -> Result<T, Halt> {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(Arc::clone(&self.worker).run(shutdown.clone()));
        tokio::pin!(work);
        let outcome = tokio::select! {
            // An outcome that is there counts, whatever became of the worker.
            biased;
            outcome = &mut work => outcome,
            never = self.beat(reporter) => match never {},
            ended = tasks.join_next() => match ended {
                // It ends when told to; so does the work.
                _ if shutdown.drain.is_cancelled() => work.await,
                Some(Ok(Err(e))) => Err(Halt::infrastructure(format!("the worker stopped: {e}"))),
                _ => Err(Halt::infrastructure("the worker stopped by a fault of this program; please report it")),
            },
        };
        shutdown.drain.cancel();
        // Calls under way are paid for, so they may take their time.
        if tokio::time::timeout(self.drain, tasks.join_next())
            .await
            .is_err()
        {
            shutdown.now.cancel();
            while tasks.join_next().await.is_some() {}
        }
        let written = self.purse.write(&self.folder, false).await;
        // What stopped the run is said first.
        outcome.and_then(|done| written.map(|()| done))
    }
}

fn open(path: &Path) -> Result<SqliteStore, Failure> {
    if let Some(parent) = path.parent() {
        files::create_dir_all(parent)?;
    }
    Ok(SqliteStore::open(path, sqlite::Options::default())?)
}

/// Trains a skill; answers that are in the store are not asked for again.
pub(crate) async fn run_training(
    local: &Local,
    config: &RunConfig,
    prepared: &Prepared,
    shutdown: &Shutdown,
    reporter: &Reporter,
) -> Result<Ending, Halt> {
    let session = local.session(config, prepared, shutdown, reporter);
    let log = local.log(prepared, reporter)?;
    let timings = Timings::default();
    local.write_status("running", None, reporter)?;
    let outcome = local
        .with_worker(shutdown, reporter, async {
            local
                .store
                .put_blobs(prepared.blobs.clone())
                .await
                .map_err(Halt::infrastructure)?;
            train(
                &prepared.plan,
                &prepared.config,
                &session,
                &local.folder,
                &log,
                &timings,
            )
            .await
        })
        .await;
    let written = session.close();
    let outcome = outcome.and_then(|ending| written.map(|()| ending));
    let told = local.write_outcome(&outcome, |ending| ending.state.words(), reporter);
    let timed = local.folder.json("timings.json", &timings.to_json());
    // What stopped the run is said first, even if it cannot be written down.
    let ending = outcome?;
    told?;
    timed?;
    Ok(ending)
}
