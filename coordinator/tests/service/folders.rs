//! Folders that are made again for somebody who does not wait for them.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use skillopt_coordinator::bundle::What;
use skillopt_coordinator::service::folders::Folders;
use skillopt_coordinator::service::live::Live;
use skillopt_coordinator::service::record::RunRecord;
use skillopt_coordinator::service::table::Table;
use skillopt_coordinator::service::{Options, Parts};
use skillopt_core::Hash;
use skillopt_core::job::Key;
use skillopt_queue::{MemoryStore, RunId, Store, store};
use tokio::sync::watch;

use crate::support::{Client, PATIENCE, Shared, World, coordinator, worker};

/// A store whose answers are read only while its gate is open.
struct Gated {
    inner: MemoryStore,
    is_open: watch::Sender<bool>,
    asked: watch::Sender<u64>,
}

#[async_trait]
impl Store for Gated {
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, store::Error> {
        self.inner.put_blobs(blobs).await
    }

    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, store::Error> {
        self.inner.blobs(hashes).await
    }

    async fn put_result(&self, key: Key, result: Bytes) -> Result<bool, store::Error> {
        self.inner.put_result(key, result).await
    }

    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, store::Error> {
        self.asked.send_modify(|n| *n += 1);
        let mut is_open = self.is_open.subscribe();
        // The gate outlives whoever waits at it.
        drop(is_open.wait_for(|is_open| *is_open).await);
        self.inner.results(keys).await
    }

    async fn append_event(&self, run: &RunId, seq: u64, event: Bytes) -> Result<(), store::Error> {
        self.inner.append_event(run, seq, event).await
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, store::Error> {
        self.inner.events(run, from, max).await
    }
}

impl Gated {
    fn is_open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    /// Begins to make a folder, and gives up when the loop waits for its first answer.
    async fn give_up<T>(&self, making: impl Future<Output = T>) {
        let mut asked = self.asked.subscribe();
        asked.borrow_and_update();
        tokio::select! {
            _ = making => panic!("it is made without answers"),
            changed = asked.changed() => changed.unwrap(),
        }
    }
}

/// Waits until a folder is empty, or not there.
async fn until_empty(folder: &Path) {
    let emptied = tokio::time::timeout(PATIENCE, async {
        while std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let left = format!("{} stays", folder.display());
    emptied.await.expect(&left);
}

/// Trains to the end, and returns how the run stands.
async fn trained(world: &World, shared: &Shared) -> RunRecord {
    let (working, _) = worker(shared, &[]);
    let options = Options::local("one", world.path("one"));
    let (server, address) = coordinator(shared.parts(), options).await;
    let mut client = Client::of(address).await;
    let config = world.config(json!({}));
    let run = client.submit(&config, &What::Train, "key").await;
    client.until(&run.id, |run| run.ended_ms > 0).await;
    server.drain().await;
    working.drain().await;
    let stored = Table::new(shared.parts()).get(&run.id).await.unwrap();
    stored.expect("it was submitted").run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_folder_that_nobody_waits_for_any_more() {
    let (world, shared) = (World::new(), Shared::new());
    let run = trained(&world, &shared).await;
    let gated = Arc::new(Gated {
        inner: shared.store.clone(),
        is_open: watch::Sender::new(false),
        asked: watch::Sender::new(0),
    });
    let parts = Parts {
        store: Arc::clone(&gated) as Arc<dyn Store>,
        ..shared.parts()
    };
    let place = world.path("other");
    let (folders, live) = (
        Folders::open(&place, parts, Arc::default()).unwrap(),
        Live::default(),
    );
    let own = place.join("skillopt-scratch");

    // The loop still writes: its folder is there, and others may not begin.
    gated.give_up(folders.restore(&run, &live)).await;
    let root = folders.of(&run.id).root().to_owned();
    let turn = tokio::time::timeout(Duration::ZERO, folders.turn(&run.id));
    assert!(turn.await.is_err(), "two would write one folder");
    gated.is_open(true);
    until_empty(&root).await;
    let shown = folders.restore(&run, &live).await.unwrap();
    assert!(shown.folder().root().join("summary.json").exists());
    drop(shown);

    let exports = own.join("exports");
    for _ in 0..6 {
        gated.is_open(false);
        gated.give_up(folders.export(&run)).await;
        let left = std::fs::read_dir(&exports).unwrap().count();
        assert_eq!(left, 1, "it goes once nobody writes to it");
        gated.is_open(true);
        until_empty(&exports).await;
    }
    let export = folders.export(&run).await.unwrap();
    assert!(export.path().exists(), "turns of those who went are free");
}
