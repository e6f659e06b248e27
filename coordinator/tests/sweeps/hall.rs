//! A cluster in this process, as far as sweeps need one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use serde_json::json;
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest};
use skillopt_config::{Context, RunConfig, sweep};
use skillopt_coordinator::bundle::{self, Suites};
use skillopt_coordinator::folder::{Predictions, RunFolder};
use skillopt_coordinator::log::Log;
use skillopt_coordinator::progress::Watcher;
use skillopt_coordinator::session::{Session, Source};
use skillopt_coordinator::sweep::desk::{Caller, Sweeps};
use skillopt_coordinator::sweep::record::{Cell, Sweep};
use skillopt_coordinator::sweep::repeat;
use skillopt_coordinator::sweep::runs::{self, Inputs, NewRun, RunNow, Runs, What, Wish};
use skillopt_coordinator::sweep::submit::NewSweep;
use skillopt_coordinator::timings::Timings;
use skillopt_coordinator::train::train;
use skillopt_core::Hash;
use skillopt_core::skill::Folder;
use skillopt_queue::ledger::Caps;
use skillopt_queue::queue::Limits;
use skillopt_queue::{
    Board, EmbeddedQueue, Ledger, MemoryBoard, MemoryLedger, MemoryStore, Queue, RunId, Store,
    SystemClock,
};
use skillopt_runtime::Shutdown;
use skillopt_sim::{Simulated, SimulatedModel, Sizes};
use skillopt_worker::{Settings, Worker};
use tokio::task::JoinSet;

/// Val items of the made-up data.
pub(crate) const VAL: usize = 12;
/// Test items.
pub(crate) const TEST: usize = 20;
/// Looks that bring any of these sweeps to its end.
const LOOKS_MAX: usize = 1_000;

pub(crate) fn caller() -> Caller {
    Caller {
        tenant: "lab".to_owned(),
        owner: "me".to_owned(),
        sees_all: false,
    }
}

/// Counts the calls that reach a model.
struct Counted(Simulated, Arc<AtomicU64>);

#[async_trait]
impl ChatModel for Counted {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.chat(request).await
    }
}

/// The runs of the cluster.
struct Stage {
    store: Arc<dyn Store>,
    queue: Arc<dyn Queue>,
    scratch: tempfile::TempDir,
    suites: Suites,
    shutdown: Shutdown,
    inner: Mutex<Inner>,
    at_work: tokio::sync::Mutex<JoinSet<()>>,
    /// Itself, for its tasks.
    me: Weak<Self>,
}

#[derive(Default)]
struct Inner {
    ids: BTreeMap<String, String>,
    runs: BTreeMap<String, RunNow>,
    /// Cells that fail the next time.
    failing: BTreeSet<String>,
    /// Runs are taken but not begun.
    is_held: bool,
}

pub(crate) struct Hall {
    pub(crate) sweeps: Arc<Sweeps>,
    pub(crate) board: Arc<dyn Board>,
    pub(crate) ledger: Arc<dyn Ledger>,
    stage: Arc<Stage>,
    data: tempfile::TempDir,
    calls: Arc<AtomicU64>,
    _worker: JoinSet<()>,
}

impl Drop for Hall {
    fn drop(&mut self) {
        self.stage.shutdown.drain.cancel();
        self.stage.shutdown.now.cancel();
    }
}

impl Hall {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(SystemClock::new());
        let memory = MemoryStore::new();
        let queue: Arc<dyn Queue> = Arc::new(EmbeddedQueue::new(
            memory.clone(),
            clock.clone(),
            Limits::default(),
        ));
        let store: Arc<dyn Store> = Arc::new(memory);
        let calls = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&calls);
        let worker = Worker::new(
            Settings::local(8, &["simulated"]),
            Arc::clone(&queue),
            Arc::clone(&store),
            Arc::new(move |profile| {
                let settings: serde_json::Map<_, _> = profile
                    .settings
                    .iter()
                    .map(|(name, value)| (name.replace('_', "-"), value.clone()))
                    .collect();
                let settings = skillopt_sim::Settings::default()
                    .with_json(&settings.into())
                    .unwrap();
                let model = Simulated::new(Arc::new(SimulatedModel::new(settings)));
                Ok(Arc::new(Counted(model, Arc::clone(&counter))) as Arc<dyn ChatModel>)
            }),
        );
        let shutdown = Shutdown::new();
        let mut tasks = JoinSet::new();
        let stop = shutdown.clone();
        tasks.spawn(async move {
            Arc::new(worker).run(stop).await.unwrap();
        });
        let stage = Arc::new_cyclic(|me| Stage {
            store: Arc::clone(&store),
            queue,
            scratch: tempfile::tempdir().unwrap(),
            suites: Suites::default(),
            shutdown,
            inner: Mutex::default(),
            at_work: tokio::sync::Mutex::default(),
            me: Weak::clone(me),
        });
        let data = tempfile::tempdir().unwrap();
        let sizes = Sizes {
            train: 8,
            val: VAL,
            test: TEST,
        };
        skillopt_sim::generate(&data.path().join("split"), 42, sizes).unwrap();
        std::fs::write(data.path().join("hand.md"), "Answer in one word.\n").unwrap();
        let base = format!(
            "model: {{backend: simulated}}\ntrain: {{num_epochs: 1, batch_size: 4}}\n\
             env: {{name: searchqa, split_mode: split_dir, split_dir: {}}}\n",
            data.path().join("split").display()
        );
        std::fs::write(data.path().join("base.yaml"), base).unwrap();
        let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new(clock.clone()));
        let board: Arc<dyn Board> = Arc::new(MemoryBoard::new(clock));
        let runs: Arc<dyn Runs> = Arc::clone(&stage) as Arc<dyn Runs>;
        let sweeps = Sweeps::new(Arc::clone(&board), store, Arc::clone(&ledger), runs);
        let sweeps = Arc::new(sweeps);
        Self {
            sweeps,
            board,
            ledger,
            stage,
            data,
            calls,
            _worker: tasks,
        }
    }

    /// Reads a sweep file with these keys and packs its cells.
    pub(crate) async fn new_sweep(&self, client_key: &str, keys: &str) -> NewSweep {
        let path = self.data.path().join("sweep.yaml");
        let text =
            format!("sweep:\n  name: test\n  base: base.yaml\n  benchmarks: [searchqa]\n  {keys}");
        std::fs::write(&path, text).unwrap();
        let file = sweep::load(&path).unwrap();
        let mut cells = Vec::new();
        for cell in file.expand().unwrap() {
            let (mut config, _) = RunConfig::resolve(&cell.flat, &Context::BARE).unwrap();
            repeat::apart(&mut config, cell.repeat);
            let packed = bundle::pack(&config, &bundle::What::Train).unwrap();
            self.stage.store.put_blobs(packed.blobs).await.unwrap();
            cells.push(Cell {
                name: cell.name,
                model: cell.model,
                benchmark: cell.benchmark,
                harness: cell.harness,
                seed: config.seed,
                repeat: cell.repeat,
                bundle: packed.root,
                attempt: 0,
                run: None,
                refused: None,
                initial: None,
                best: None,
                over: false,
            });
        }
        let mut arms = Vec::new();
        for arm in &file.arms {
            let skill = match arm {
                sweep::Arm::NoSkill => Some(Folder::default()),
                sweep::Arm::StartingSkill => None,
                sweep::Arm::Skill { skill, .. } => Some(read(&skill.path)),
            };
            if let Some(skill) = &skill {
                self.stage
                    .store
                    .put_blob(skill.encode().into())
                    .await
                    .unwrap();
            }
            arms.push(json!({"name": arm.name(), "skill": skill.map(|skill| skill.hash())}));
        }
        NewSweep {
            client_key: client_key.to_owned(),
            name: file.name.clone(),
            cells,
            spec: json!({"arms": arms}),
            transfer: file.transfer,
            weight: file.weight,
            caps: Caps::default(),
        }
    }

    pub(crate) async fn submit(&self, client_key: &str, keys: &str) -> (Sweep, bool) {
        let new = self.new_sweep(client_key, keys).await;
        self.sweeps.submit(&caller(), new).await.unwrap()
    }

    /// Looks at a sweep once, as a coordinator does.
    pub(crate) async fn look(&self, id: &str) -> Sweep {
        let mark = self.board.get(&Sweep::mark(id)).await.unwrap();
        let mark = mark.map_or(0, |record| record.version);
        self.sweeps.bring_on(id, mark, "here").await.unwrap();
        self.sweeps.get(&caller(), id).await.unwrap()
    }

    /// Looks again whenever a run has ended, until the sweep has.
    pub(crate) async fn finish(&self, id: &str) -> Sweep {
        for _ in 0..LOOKS_MAX {
            let sweep = self.look(id).await;
            if sweep.ended_ms > 0 {
                return sweep;
            }
            let ended = self.stage.at_work.lock().await.join_next().await;
            ended.transpose().unwrap();
        }
        panic!(
            "the sweep does not end: {:?}",
            self.sweeps.get(&caller(), id).await
        );
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Runs that were begun.
    pub(crate) fn begun(&self) -> usize {
        self.stage.inner.lock().unwrap().runs.len()
    }

    pub(crate) fn states(&self) -> Vec<String> {
        let inner = self.stage.inner.lock().unwrap();
        inner.runs.values().map(|now| now.state.clone()).collect()
    }

    pub(crate) fn fail_once(&self, cell: &str) {
        self.stage
            .inner
            .lock()
            .unwrap()
            .failing
            .insert(cell.to_owned());
    }

    pub(crate) fn hold(&self) {
        self.stage.inner.lock().unwrap().is_held = true;
    }
}

fn read(path: &Path) -> Folder {
    Folder::of_document(std::fs::read_to_string(path).unwrap())
}

impl Stage {
    /// Runs to the end and returns the state.
    async fn work(&self, id: &str, new: &NewRun) -> String {
        let skill = match new.what {
            What::Train => None,
            What::Evaluate { skill } => Some(skill),
        };
        let run = bundle::unpack(self.store.as_ref(), new.bundle, skill, &self.suites)
            .await
            .unwrap();
        let prepared = run.prepared;
        let folder = RunFolder::new(self.scratch.path().join(id));
        self.store.put_blobs(prepared.blobs.clone()).await.unwrap();
        let session = Session::new(
            Source::Queue(Arc::clone(&self.queue)),
            Arc::clone(&self.store),
            folder.clone(),
            |_| Predictions::Skip,
            prepared.common.clone(),
            self.shutdown.clone(),
            Watcher::silent(),
        );
        let log = Log::new(Arc::clone(&self.store), RunId::new(id), Watcher::silent());
        let state = match run.what {
            bundle::What::Train => {
                let timings = Timings::default();
                let (plan, config) = (&prepared.plan, &prepared.config);
                let ending = train(plan, config, &session, &folder, &log, &timings)
                    .await
                    .unwrap();
                ending.state.words()
            }
            bundle::What::Evaluate(evaluation) => {
                let items = evaluation.items(&run.config, &prepared);
                evaluation
                    .run(&prepared, &items, &session, &log)
                    .await
                    .unwrap();
                "evaluated"
            }
        };
        session.close().unwrap();
        state.to_owned()
    }
}

#[async_trait]
impl Runs for Stage {
    async fn submit(&self, new: NewRun) -> Result<String, runs::Error> {
        let (id, is_failing) = {
            let mut inner = self.inner.lock().unwrap();
            if let Some(id) = inner.ids.get(&new.client_key) {
                return Ok(id.clone());
            }
            let id = Hash::of(new.client_key.as_bytes()).short();
            inner.ids.insert(new.client_key.clone(), id.clone());
            let now = RunNow {
                state: "queued".to_owned(),
                ..RunNow::default()
            };
            inner.runs.insert(id.clone(), now);
            if inner.is_held {
                return Ok(id);
            }
            (id, inner.failing.remove(&new.cell))
        };
        if is_failing {
            let now = RunNow {
                state: "failed".to_owned(),
                cause: "the disk is on fire".to_owned(),
                cause_class: "infrastructure".to_owned(),
                ..RunNow::default()
            };
            self.inner.lock().unwrap().runs.insert(id.clone(), now);
            return Ok(id);
        }
        let (begun, stage) = (id.clone(), self.me.upgrade().unwrap());
        let handle = tokio::runtime::Handle::current();
        // The loop stays on one thread.
        self.at_work.lock().await.spawn_blocking(move || {
            let state = handle.block_on(stage.work(&begun, &new));
            let now = RunNow {
                state,
                started_ms: 1_000,
                ended_ms: 2_000,
                ..RunNow::default()
            };
            stage.inner.lock().unwrap().runs.insert(begun, now);
        });
        Ok(id)
    }

    async fn get(&self, ids: &[String]) -> Result<Vec<Option<RunNow>>, runs::Error> {
        let inner = self.inner.lock().unwrap();
        Ok(ids.iter().map(|id| inner.runs.get(id).cloned()).collect())
    }

    async fn set_wish(&self, id: &str, wish: Wish) -> Result<(), runs::Error> {
        let state = match wish {
            Wish::Run => "queued",
            Wish::Pause => "paused",
            Wish::Cancel => "cancelled",
        };
        let mut inner = self.inner.lock().unwrap();
        state.clone_into(&mut inner.runs.get_mut(id).unwrap().state);
        Ok(())
    }

    fn log(&self, id: &str) -> RunId {
        RunId::new(id)
    }

    async fn inputs(&self, bundle: Hash) -> Result<Arc<Inputs>, runs::Error> {
        let run = bundle::unpack(self.store.as_ref(), bundle, None, &self.suites).await;
        let run = run.map_err(|e| runs::Error::Refused(e.to_string()))?;
        Ok(Arc::new(Inputs::of(&run.prepared)))
    }
}
