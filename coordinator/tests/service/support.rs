//! A cluster in one process: board, queue and store in memory, a real worker on the simulated
//! model, coordinators that serve gRPC on loopback.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use skillopt_config::{Context, Flat, Origin, RunConfig};
use skillopt_coordinator::bundle::{Packed, What, pack};
use skillopt_coordinator::service::{Coordinator, Options, Parts};
use skillopt_proto::v1;
use skillopt_proto::v1::cluster_client::ClusterClient;
use skillopt_proto::v1::content_client::ContentClient;
use skillopt_proto::v1::runs_client::RunsClient;
use skillopt_queue::sqlite::SqliteCopy;
use skillopt_queue::{
    Board, EmbeddedQueue, Ledger, MemoryBoard, MemoryLedger, MemoryRates, MemoryStore, Queue,
    Rates, Store, SystemClock, queue,
};
use skillopt_runtime::Shutdown;
use skillopt_sim::{Simulated, SimulatedModel, Sizes, generate};
use skillopt_worker::{Meter, ModelFactory, Settings, Worker};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Small, so that a run takes a second.
const SIZES: Sizes = Sizes {
    train: 16,
    val: 8,
    test: 8,
};

/// Data, and folders for runs.
pub(crate) struct World {
    pub(crate) dir: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        generate(&dir.path().join("data"), 42, SIZES).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A small training with every stage on; `more` are flat keys.
    pub(crate) fn config(&self, more: Value) -> RunConfig {
        let mut keys = json!({
            "env": "searchqa", "split_mode": "split_dir",
            "split_dir": self.path("data"), "out_root": self.path("local"),
            "model_backend": "simulated", "optimizer_model": "sim-optimizer",
            "target_model": "sim-target", "num_epochs": 2, "batch_size": 8, "minibatch_size": 4,
            "use_slow_update": true, "slow_update_samples": 4, "use_meta_skill": true,
            "retry_base_ms": 1, "retry_cap_ms": 10, "workers": 8,
        });
        let object = keys.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        let flat = Flat::from_json(object, &Origin::Set("test".into()));
        RunConfig::resolve(&flat, &Context::BARE).unwrap().0
    }
}

/// What a cluster keeps: any number of coordinators and workers share it.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) store: MemoryStore,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) board: Arc<dyn Board>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) rates: Arc<dyn Rates>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(SystemClock::new());
        let store = MemoryStore::new();
        let limits = queue::Limits::default();
        Self {
            queue: Arc::new(EmbeddedQueue::new(store.clone(), clock.clone(), limits)),
            board: Arc::new(MemoryBoard::new(clock.clone())),
            ledger: Arc::new(MemoryLedger::new(clock.clone())),
            rates: Arc::new(MemoryRates::new(clock)),
            store,
        }
    }

    pub(crate) fn parts(&self) -> Parts {
        Parts {
            store: Arc::new(self.store.clone()),
            queue: Arc::clone(&self.queue),
            board: Arc::clone(&self.board),
            ledger: Arc::clone(&self.ledger),
            rates: Arc::clone(&self.rates),
            clock: Arc::new(SystemClock::new()),
            export: Arc::new(|path: &Path| {
                let store = SqliteCopy::open(path)?;
                Ok(Arc::new(store) as Arc<dyn Store>)
            }),
        }
    }
}

/// Tasks of a test, ended with it.
pub(crate) struct Running {
    pub(crate) shutdown: Shutdown,
    tasks: JoinSet<()>,
}

impl Running {
    /// Stops cleanly.
    pub(crate) async fn drain(mut self) {
        self.shutdown.drain.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }

    /// Stops as if the machine had died.
    pub(crate) async fn kill(mut self) {
        self.shutdown.now.cancel();
        self.shutdown.drain.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

/// Starts a worker on a simulated model; returns the model for its statistics.
pub(crate) fn worker(shared: &Shared, sim: &[&str]) -> (Running, Arc<SimulatedModel>) {
    let settings = skillopt_sim::Settings::from_pairs(sim.iter().copied()).unwrap();
    let model = Arc::new(SimulatedModel::new(settings));
    let answering = Arc::clone(&model);
    let models: ModelFactory =
        Arc::new(move |_| Ok(Arc::new(Simulated::new(Arc::clone(&answering)))));
    let worker = Worker::new(
        Settings::local(8, &["simulated"]),
        Arc::clone(&shared.queue),
        Arc::new(shared.store.clone()),
        models,
    )
    .with_meter(Meter::new("worker", Arc::clone(&shared.ledger), None));
    let shutdown = Shutdown::new();
    let mut tasks = JoinSet::new();
    let run = Arc::new(worker).run(shutdown.clone());
    tasks.spawn(async move { run.await.unwrap() });
    (Running { shutdown, tasks }, model)
}

/// Starts a coordinator.
pub(crate) async fn coordinator(parts: Parts, options: Options) -> (Running, SocketAddr) {
    let coordinator = Coordinator::bind(options, parts).await.unwrap();
    let address = coordinator.address().unwrap();
    let shutdown = Shutdown::new();
    let mut tasks = JoinSet::new();
    let served = coordinator.serve(shutdown.clone(), |_| {});
    tasks.spawn(async move { served.await.unwrap() });
    (Running { shutdown, tasks }, address)
}

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

/// A client of one coordinator.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) runs: RunsClient<Channel>,
    pub(crate) content: ContentClient<Channel>,
    pub(crate) cluster: ClusterClient<Channel>,
}

impl Client {
    pub(crate) async fn of(address: SocketAddr) -> Self {
        let channel = connect(address).await;
        Self {
            runs: RunsClient::new(channel.clone()),
            content: ContentClient::new(channel.clone()).max_decoding_message_size(4 << 20),
            cluster: ClusterClient::new(channel),
        }
    }

    pub(crate) async fn upload(&mut self, packed: &Packed) {
        let parts: Vec<v1::UploadRequest> = packed.blobs.iter().flat_map(chunks).collect();
        let stream = futures_util::stream::iter(parts);
        self.content.upload(stream).await.unwrap();
    }

    /// Packs, uploads and submits.
    pub(crate) async fn submit(&mut self, config: &RunConfig, what: &What, key: &str) -> v1::Run {
        let packed = pack(config, what).unwrap();
        self.upload(&packed).await;
        let request = submission(&packed, what, key);
        let response = self.runs.submit_run(request).await.unwrap();
        response.into_inner().run.unwrap()
    }

    pub(crate) async fn get(&mut self, id: &str) -> v1::Run {
        let id = id.to_owned();
        let response = self.runs.get_run(v1::GetRunRequest { id }).await.unwrap();
        response.into_inner().run.unwrap()
    }

    /// Waits until a run is in a state that `is_right` accepts.
    pub(crate) async fn until(&mut self, id: &str, is_right: impl Fn(&v1::Run) -> bool) -> v1::Run {
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let run = self.get(id).await;
                if is_right(&run) {
                    return run;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        match found.await {
            Ok(run) => run,
            Err(_) => panic!("still {:?}", self.get(id).await),
        }
    }

    /// Fetches the files of a run folder.
    pub(crate) async fn download(
        &mut self,
        id: &str,
        with_store: bool,
    ) -> BTreeMap<String, Vec<u8>> {
        let id = id.to_owned();
        let request = v1::DownloadRequest {
            id,
            with_store,
            ..v1::DownloadRequest::default()
        };
        let mut stream = self.content.download(request).await.unwrap().into_inner();
        let mut files = BTreeMap::new();
        let mut open = String::new();
        while let Some(part) = stream.message().await.unwrap() {
            assert!(part.chunk.len() <= 1 << 20);
            if !part.path.is_empty() {
                open = part.path;
            }
            files
                .entry(open.clone())
                .or_insert_with(Vec::new)
                .extend(part.chunk);
        }
        files
    }
}

/// Starts a coordinator in a world of its own; `change` sets options.
pub(crate) async fn alone(change: impl FnOnce(&mut Options)) -> (World, Shared, Running, Client) {
    let (world, shared) = (World::new(), Shared::new());
    let mut options = Options::local("one", world.path("scratch"));
    change(&mut options);
    let (server, address) = coordinator(shared.parts(), options).await;
    (world, shared, server, Client::of(address).await)
}

fn chunks(blob: &Bytes) -> Vec<v1::UploadRequest> {
    let n = blob.len().div_ceil(1 << 20).max(1);
    (0..n)
        .map(|i| v1::UploadRequest {
            chunk: blob[i << 20..((i + 1) << 20).min(blob.len())].to_vec(),
            last: i + 1 == n,
        })
        .collect()
}

pub(crate) fn submission(packed: &Packed, what: &What, key: &str) -> v1::SubmitRunRequest {
    v1::SubmitRunRequest {
        client_key: key.to_owned(),
        name: "a run".to_owned(),
        kind: what.kind().to_owned(),
        bundle: packed.root.as_bytes().to_vec(),
        ..v1::SubmitRunRequest::default()
    }
}

/// Returns the files of a folder, without those that only one process has.
pub(crate) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    comparable(found)
}

/// Leaves out what tells of times and processes.
pub(crate) fn comparable(mut files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    files.retain(|name, _| {
        name != "timings.json" && (!name.starts_with(".skillopt/") || name == ".skillopt/run.json")
    });
    files
}

/// Fails with the names of what differs.
#[track_caller]
pub(crate) fn same_files(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ: Vec<&&String> = names.iter().filter(|n| a.get(**n) != b.get(**n)).collect();
    assert!(differ.is_empty(), "{differ:?} of {}", names.len());
    assert!(a.len() > 5, "{:?}", a.keys());
}

/// Trains as `skillopt train` does, into the configuration's own folder.
pub(crate) async fn local(world: &World, config: &RunConfig) -> BTreeMap<String, Vec<u8>> {
    use skillopt_coordinator::folder::RunFolder;
    use skillopt_coordinator::log::Log;
    use skillopt_coordinator::prepare::{predictions, prepare};
    use skillopt_coordinator::progress::Watcher;
    use skillopt_coordinator::session::{Session, Source};
    use skillopt_coordinator::timings::Timings;
    use skillopt_coordinator::train::train;

    let shared = Shared::new();
    let (worker, _) = worker(&shared, &[]);
    let folder = RunFolder::new(world.path("local"));
    let config = config.clone();
    let work = move || {
        let prepared = prepare(&config).unwrap();
        let _claim = prepared.claim(&folder).unwrap();
        let store: Arc<dyn Store> = Arc::new(shared.store.clone());
        let session = Session::new(
            Source::Queue(Arc::clone(&shared.queue)),
            Arc::clone(&store),
            folder.clone(),
            predictions(config.predictions),
            prepared.common.clone(),
            Shutdown::new(),
            Watcher::silent(),
        );
        let log = Log::new(
            Arc::clone(&store),
            prepared.common.run.clone(),
            Watcher::silent(),
        );
        let timings = Timings::default();
        tokio::runtime::Handle::current().block_on(async {
            store.put_blobs(prepared.blobs.clone()).await.unwrap();
            let (plan, written) = (&prepared.plan, &prepared.config);
            train(plan, written, &session, &folder, &log, &timings)
                .await
                .unwrap();
            session.close().unwrap();
        });
        folder
    };
    let folder = tokio::task::spawn_blocking(work).await.unwrap();
    worker.drain().await;
    files(folder.root())
}
