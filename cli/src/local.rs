//! Runs a training or an evaluation in this process: embedded queue, one database file, the real
//! worker with N slots.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skillopt_config::{Predictions as Kept, RunConfig, Scope};
use skillopt_coordinator::Halt;
use skillopt_coordinator::folder::{Claim, Predictions, RunFolder};
use skillopt_coordinator::log::Log;
use skillopt_coordinator::prepare::Prepared;
use skillopt_coordinator::progress::Watcher;
use skillopt_coordinator::session::{Common, Session, Source};
use skillopt_coordinator::timings::Timings;
use skillopt_coordinator::train::{Ending, train};
use skillopt_core::job::FailureClass;
use skillopt_queue::queue::Limits;
use skillopt_queue::{EmbeddedQueue, Queue, SqliteStore, Store, SystemClock, sqlite};
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::unix_ms;
use skillopt_runtime::files;
use skillopt_worker::{Settings, Worker};

use crate::failure::Failure;
use crate::models;

/// What a call may take beyond its own limit until its answer is stored.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);

/// The file in a run's private folder that says how the run is doing.
pub(crate) const STATUS: &str = "status.json";

/// The parts of a run in this process.
pub(crate) struct Local {
    pub(crate) folder: RunFolder,
    pub(crate) store: Arc<dyn Store>,
    queue: Arc<dyn Queue>,
    worker: Arc<Worker>,
    scope: String,
    /// How long a run that stops waits for calls under way.
    drain: Duration,
    _claim: Claim,
}

impl Local {
    /// Takes the run folder and opens the store.
    ///
    /// # Errors
    /// The folder belongs to another run or process, or the place cannot be written.
    pub(crate) fn open(config: &RunConfig, prepared: &Prepared) -> Result<Self, Failure> {
        let folder = RunFolder::new(&config.out_root);
        let run = prepared.common.run.as_str();
        let (rollout, chat) = (prepared.common.rollout_limits, prepared.common.chat_limits);
        let longest = rollout.call_timeout_ms.max(chat.call_timeout_ms);
        let claim = || folder.claim(run, &prepared.facts, difference);
        // A store that another process has is known before the folder is touched; the folder's own
        // store goes with the right to the folder.
        let (claim, store) = if config.store.is_empty() {
            (claim()?, open(&folder.store())?)
        } else {
            let store = open(Path::new(&config.store))?;
            (claim()?, store)
        };
        let scope = scope(&folder, config, prepared)?;
        let clock = Arc::new(SystemClock::new());
        let queue: Arc<dyn Queue> =
            Arc::new(EmbeddedQueue::new(store.clone(), clock, Limits::default()));
        let store: Arc<dyn Store> = Arc::new(store);
        let settings = Settings::local(config.slot_count());
        let worker = Worker::new(
            settings,
            Arc::clone(&queue),
            Arc::clone(&store),
            models::factory(config),
        );
        Ok(Self {
            folder,
            store,
            queue,
            worker: Arc::new(worker),
            scope,
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
        watcher: &Watcher,
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
            watcher.clone(),
        )
    }

    /// Runs `work` beside the worker, then lets the worker finish what is under way.
    pub(crate) async fn with_worker<T>(
        &self,
        shutdown: &Shutdown,
        work: impl Future<Output = Result<T, Halt>>,
    ) -> Result<T, Halt> {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(Arc::clone(&self.worker).run(shutdown.clone()));
        tokio::pin!(work);
        let outcome = tokio::select! {
            // An outcome that is there counts, whatever became of the worker.
            biased;
            outcome = &mut work => outcome,
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
        outcome
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
    watcher: &Watcher,
) -> Result<Ending, Halt> {
    let session = local.session(config, prepared, shutdown, watcher);
    let log = Log::new(
        Arc::clone(&local.store),
        prepared.common.run.clone(),
        watcher.clone(),
    );
    let timings = Timings::default();
    let write_status =
        |state: &str, cause: Option<&str>| write_status(&local.folder, &config.store, state, cause);
    write_status("running", None)?;
    let outcome = local
        .with_worker(shutdown, async {
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
    let told = match &outcome {
        Ok(ending) => write_status(ending.state.words(), None),
        Err(halt) => write_status(word(halt), Some(&halt.to_string())),
    };
    let timed = local.folder.json("timings.json", &timings.to_json());
    // What stopped the run is said first, even if it cannot be written down.
    let ending = outcome?;
    told?;
    timed?;
    Ok(ending)
}

/// Writes what `runs` shows of a run (dashboard spec, chapter 4): not part of its result.
pub(crate) fn write_status(
    folder: &RunFolder,
    store: &str,
    state: &str,
    cause: Option<&str>,
) -> Result<(), Halt> {
    let path = folder.private().join(STATUS);
    let value = json!({
        "state": state,
        "cause": cause,
        "at_unix_ms": unix_ms(),
        "pid": std::process::id(),
        "store": store,
    });
    files::write_atomic(&path, value.to_string().as_bytes())?;
    Ok(())
}

/// Returns the state that a run is left in (dashboard spec, chapter 4).
pub(crate) fn word(halt: &Halt) -> &'static str {
    match halt {
        Halt::Paused(FailureClass::Provider, _) => "paused (provider)",
        Halt::Paused(FailureClass::Infrastructure, _) => "paused (infrastructure)",
        Halt::Interrupted => "paused (by hand)",
        Halt::Paused(FailureClass::Data, _) | Halt::Failed(_) | Halt::NotStored => "failed",
    }
}

/// Returns who may share the run's answers.
pub(crate) fn scope(
    folder: &RunFolder,
    config: &RunConfig,
    prepared: &Prepared,
) -> Result<String, files::FileError> {
    match config.scope {
        Scope::Fresh => folder.fresh_scope(prepared.common.run.as_str()),
        Scope::Shared | Scope::Run => Ok(prepared.common.scope.clone()),
    }
}

/// Says in words how two configurations of one folder differ.
fn difference(
    known: &serde_json::Map<String, serde_json::Value>,
    new: &serde_json::Map<String, serde_json::Value>,
) -> Option<String> {
    let differences = skillopt_config::differs(known, new);
    let words: Vec<String> = differences
        .iter()
        .take(3)
        .map(|(key, old, new)| {
            let known = skillopt_config::KEYS
                .iter()
                .find(|known| known.name == *key);
            let path = known.map_or(key.as_str(), |known| known.path);
            format!("`{path}` is {old} there, {new} here")
        })
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

pub(crate) fn predictions(kept: Kept) -> fn(&str) -> Predictions {
    const fn all(_: &str) -> Predictions {
        Predictions::Write
    }
    fn train_only(stage: &str) -> Predictions {
        if stage.ends_with("/rollout") {
            Predictions::Write
        } else {
            Predictions::Skip
        }
    }
    const fn none(_: &str) -> Predictions {
        Predictions::Skip
    }
    match kept {
        Kept::All => all,
        Kept::Train => train_only,
        Kept::None => none,
    }
}
