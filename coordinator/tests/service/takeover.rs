//! A run outlives its coordinator, and is never committed by two.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use skillopt_coordinator::bundle::What;
use skillopt_coordinator::service::Options;
use skillopt_coordinator::service::record::{RunRecord, State};
use skillopt_coordinator::service::table::{HeldError, Submission, Table};
use skillopt_core::Hash;
use skillopt_queue::board::Expect;
use skillopt_queue::ledger::Caps;
use skillopt_queue::{MemoryBoard, Store as _, TestClock};

use crate::support::{Client, Shared, World, comparable, coordinator, local, same_files, worker};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_coordinator_takes_over_from_a_dead_one_and_the_folder_is_the_same() {
    let (world, shared) = (World::new(), Shared::new());
    let config = world.config(json!({}));
    let (worker, _) = worker(&shared, &["latency=fixed:30"]);
    let first = Options::local("first", world.path("scratch-1"));
    let (dying, address) = coordinator(shared.parts(), first).await;
    let mut client = Client::of(address).await;
    let run = client.submit(&config, &What::Train, "key").await;
    client
        .until(&run.id, |run| run.row_json.contains("\"steps_done\":1"))
        .await;
    dying.kill().await;

    let second = Options::local("second", world.path("scratch-2"));
    let (server, address) = coordinator(shared.parts(), second).await;
    let mut client = Client::of(address).await;
    let moved = client
        .until(&run.id, |run| run.coordinator == "second")
        .await;
    assert_eq!(moved.state, "running");
    client.until(&run.id, |run| run.state == "improved").await;
    same_files(
        &comparable(client.download(&run.id, false).await),
        &local(&world, &config).await,
    );
    server.drain().await;

    // A third one has nothing on its disk, and makes the folder again.
    let third = Options::local("third", world.path("scratch-3"));
    let (server, address) = coordinator(shared.parts(), third).await;
    let mut client = Client::of(address).await;
    same_files(
        &comparable(client.download(&run.id, false).await),
        &local_again(&world),
    );
    server.drain().await;
    worker.drain().await;
}

/// The folder that the test made before.
fn local_again(world: &World) -> std::collections::BTreeMap<String, Vec<u8>> {
    crate::support::files(&world.path("local"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_leaves_hands_its_runs_over_at_once() {
    let (world, shared) = (World::new(), Shared::new());
    let config = world.config(json!({}));
    let (worker, _) = worker(&shared, &["latency=fixed:30"]);
    let first = Options::local("first", world.path("scratch-1"));
    let (leaving, address) = coordinator(shared.parts(), first).await;
    let mut client = Client::of(address).await;
    let run = client.submit(&config, &What::Train, "key").await;
    client.until(&run.id, |run| run.state == "running").await;
    leaving.drain().await;
    let path = RunRecord::path(&run.id);
    assert_eq!(shared.board.holder(&path).await.unwrap(), None);

    let second = Options::local("second", world.path("scratch-2"));
    let (server, address) = coordinator(shared.parts(), second).await;
    let mut client = Client::of(address).await;
    client.until(&run.id, |run| run.state == "improved").await;
    server.drain().await;
    worker.drain().await;
}

fn submission() -> Submission {
    Submission {
        client_key: "key".to_owned(),
        name: String::new(),
        kind: "train".to_owned(),
        tenant: "lab".to_owned(),
        owner: "me".to_owned(),
        bundle: Hash::of(b"nothing"),
        skill: None,
        sweep: String::new(),
        cell: String::new(),
        weight: 100,
        priority: 4,
        caps: Caps::default(),
    }
}

#[tokio::test]
async fn what_an_old_owner_says_is_refused() {
    let clock = TestClock::new();
    let shared = Shared {
        board: Arc::new(MemoryBoard::new(Arc::new(clock.clone()))),
        ..Shared::new()
    };
    let table = Table::new(shared.parts());
    let id = table.submit(submission()).await.unwrap().0.run.id;
    let (path, ttl) = (RunRecord::path(&id), Duration::from_secs(6));
    let old = shared
        .board
        .acquire(&path, "old", ttl)
        .await
        .unwrap()
        .unwrap();
    assert!(
        shared
            .board
            .acquire(&path, "new", ttl)
            .await
            .unwrap()
            .is_none()
    );
    clock.advance(ttl + Duration::from_millis(1));
    let new = shared
        .board
        .acquire(&path, "new", ttl)
        .await
        .unwrap()
        .unwrap();
    let says = |state: State| move |run: &mut RunRecord| run.state = state;
    let late = table.change_held(&id, old.fence, says(State::Failed)).await;
    assert!(matches!(late, Err(HeldError::Lost)), "{late:?}");
    table
        .change_held(&id, new.fence, says(State::Running))
        .await
        .unwrap();
    assert_eq!(
        table.get(&id).await.unwrap().unwrap().run.state,
        State::Running
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_over_which_coordinators_die_is_paused_with_their_names() {
    let (world, shared) = (World::new(), Shared::new());
    let table = Table::new(shared.parts());
    let stored = table.submit(submission()).await.unwrap().0;
    let mut record = serde_json::to_value(&stored.run).unwrap();
    let tries: Vec<Value> = ["a", "b", "c"]
        .iter()
        .map(|name| json!({"coordinator": name, "at_ms": 1}))
        .collect();
    record["tries"] = tries.into();
    let path = RunRecord::path(&stored.run.id);
    let bytes = Bytes::from(record.to_string());
    shared
        .board
        .put(&path, bytes, Expect::Any, None)
        .await
        .unwrap();
    let options = Options::local("d", world.path("scratch"));
    let (server, address) = coordinator(shared.parts(), options).await;
    let mut client = Client::of(address).await;
    let paused = client
        .until(&stored.run.id, |run| run.state == "paused")
        .await;
    assert_eq!(paused.cause_class, "infrastructure");
    assert!(paused.cause.contains("`a`, `b`, `c`"), "{}", paused.cause);

    // Resumed, it is tried; its bundle is not there until somebody uploads it again.
    let again = skillopt_proto::v1::ResumeRunRequest {
        id: stored.run.id.clone(),
        ..Default::default()
    };
    client.runs.resume_run(again).await.unwrap();
    let paused = client
        .until(&stored.run.id, |run| run.cause.contains("--keep-days"))
        .await;
    assert_eq!(paused.state, "paused");
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_of_a_coordinator_that_lives_are_no_deaths() {
    let (world, shared) = (World::new(), Shared::new());
    let table = Table::new(shared.parts());
    let stored = table.submit(submission()).await.unwrap().0;
    let mut record = serde_json::to_value(&stored.run).unwrap();
    // It lost the right to the run three times.
    record["tries"] = vec![json!({"coordinator": "one", "at_ms": 1}); 3].into();
    let (path, bytes) = (RunRecord::path(&stored.run.id), record.to_string().into());
    let put = shared.board.put(&path, bytes, Expect::Any, None);
    put.await.unwrap();
    let options = Options::local("one", world.path("scratch"));
    let (server, address) = coordinator(shared.parts(), options).await;
    let mut client = Client::of(address).await;
    let paused = client
        .until(&stored.run.id, |run| run.state == "paused")
        .await;
    assert!(paused.cause.contains("of its bundle"), "{}", paused.cause);
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_answers_are_gone_pauses_and_says_so() {
    let (world, shared) = (World::new(), Shared::new());
    let config = world.config(json!({}));
    let (first_worker, _) = worker(&shared, &["latency=fixed:30"]);
    let options = Options::local("one", world.path("scratch-1"));
    let (server, address) = coordinator(shared.parts(), options).await;
    let mut client = Client::of(address).await;
    let run = client.submit(&config, &What::Train, "key").await;
    client
        .until(&run.id, |run| run.row_json.contains("\"steps_done\":1"))
        .await;
    let pause = skillopt_proto::v1::PauseRunRequest { id: run.id.clone() };
    client.runs.pause_run(pause).await.unwrap();
    client.until(&run.id, |run| run.state == "paused").await;
    server.drain().await;
    first_worker.drain().await;

    // Another store, with the log and the bundle but without answers.
    let later = Shared {
        board: Arc::clone(&shared.board),
        ..Shared::new()
    };
    let name = skillopt_queue::RunId::new(&run.id);
    let events = shared.store.events(&name, 0, 1_000).await.unwrap();
    for (seq, event) in (0..).zip(events) {
        later.store.append_event(&name, seq, event).await.unwrap();
    }
    let (last_worker, _) = worker(&later, &["seed=7"]);
    let options = Options::local("two", world.path("scratch-2"));
    let (server, address) = coordinator(later.parts(), options).await;
    let mut client = Client::of(address).await;
    client
        .upload(&skillopt_coordinator::bundle::pack(&config, &What::Train).unwrap())
        .await;

    // Nobody works on it: a download says what is missing instead of waiting for it.
    let asked = skillopt_proto::v1::DownloadRequest {
        id: run.id.clone(),
        ..Default::default()
    };
    let refused = client.content.download(asked).await.unwrap_err();
    assert!(refused.message().contains("is not stored"), "{refused}");

    let again = skillopt_proto::v1::ResumeRunRequest {
        id: run.id.clone(),
        ..Default::default()
    };
    client.runs.resume_run(again).await.unwrap();
    let paused = client
        .until(&run.id, |run| run.cause.contains("--keep-days"))
        .await;
    assert_eq!(paused.state, "paused", "{}", paused.cause);
    server.drain().await;
    last_worker.drain().await;
}
