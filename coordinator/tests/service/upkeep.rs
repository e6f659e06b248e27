//! What coordinators look after while nobody asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use skillopt_coordinator::bundle::What;
use skillopt_coordinator::service::{Options, Parts, Tend};
use skillopt_core::Hash;
use skillopt_core::job::Key;
use skillopt_proto::v1;
use skillopt_queue::{MemoryStore, RunId, Store, store};

use crate::support::{Client, PATIENCE, Shared, World, coordinator, worker};

/// A store that counts what is read of it.
struct Counting {
    inner: MemoryStore,
    results: AtomicU64,
}

#[async_trait]
impl Store for Counting {
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
        let found = self.inner.results(keys).await?;
        let n = found.iter().filter(|found| found.is_some()).count();
        self.results.fetch_add(n as u64, Ordering::Relaxed);
        Ok(found)
    }

    async fn append_event(&self, run: &RunId, seq: u64, event: Bytes) -> Result<(), store::Error> {
        self.inner.append_event(run, seq, event).await
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, store::Error> {
        self.inner.events(run, from, max).await
    }
}

/// A store drops what nobody uses. A run that waits for a person uses nothing, and must find
/// everything when it goes on: all its answers are read once in a while, and no more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_paused_run_needs_is_read_now_and_then() {
    let (world, shared) = (World::new(), Shared::new());
    let counting = Arc::new(Counting {
        inner: shared.store.clone(),
        results: AtomicU64::new(0),
    });
    let parts = Parts {
        store: Arc::clone(&counting) as Arc<dyn Store>,
        ..shared.parts()
    };
    let (working, _) = worker(&shared, &["latency=fixed:20"]);
    let options = |name: &str, touch_every| Options {
        tend: Tend {
            look_every: Duration::from_millis(20),
            touch_every,
        },
        ..Options::local(name, world.path(name))
    };
    let day = Duration::from_secs(24 * 3_600);
    // It has touched the run once, soon after it was submitted, and does not again today.
    let (server, address) = coordinator(parts.clone(), options("one", day)).await;
    let mut client = Client::of(address).await;
    let config = world.config(json!({}));
    let run = client.submit(&config, &What::Train, "key").await;
    client
        .until(&run.id, |run| run.row_json.contains("\"steps_done\":1"))
        .await;
    let id = run.id.clone();
    let paused = client.runs.pause_run(v1::PauseRunRequest { id }).await;
    paused.unwrap();
    client.until(&run.id, |run| run.state == "paused").await;
    let tended = format!("tended/{}", run.id);
    assert!(shared.board.get(&tended).await.unwrap().is_some());
    server.drain().await;

    // Another day.
    let board = &shared.board;
    let gone = board.delete(&tended, skillopt_queue::board::Expect::Any);
    gone.await.unwrap();
    let before = counting.results.load(Ordering::Relaxed);
    let (server, _) = coordinator(parts.clone(), options("two", day)).await;
    let touched = tokio::time::timeout(PATIENCE, async {
        loop {
            let is_marked = board.get(&tended).await.unwrap().is_some();
            let read = counting.results.load(Ordering::Relaxed) - before;
            if is_marked && read > 0 {
                return read;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    touched.await.expect("its answers are read");
    server.drain().await;
    let read = counting.results.load(Ordering::Relaxed) - before;
    // A batch, the val split and the analysts of the step that is done, at least.
    assert!(read >= 16, "{read} answers were read");

    // A third one looks many times on the same day, and leaves it alone.
    let before = counting.results.load(Ordering::Relaxed);
    let (server, address) = coordinator(parts, options("three", day)).await;
    let mut client = Client::of(address).await;
    let marked = board.get(&tended).await.unwrap().map(|mark| mark.version);
    for _ in 0..20 {
        assert_eq!(client.get(&run.id).await.state, "paused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = board.get(&tended).await.unwrap().map(|mark| mark.version);
    assert_eq!(again, marked);
    assert_eq!(counting.results.load(Ordering::Relaxed), before);
    server.drain().await;
    working.drain().await;
}
