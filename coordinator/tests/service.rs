//! Runs over gRPC: what is submitted, watched and fetched is what a local run is.

mod support;

use serde_json::json;
use skillopt_coordinator::bundle::What;
use skillopt_coordinator::service::Options;
use skillopt_proto::v1;
use skillopt_proto::v1::watch_run_response::News;

use support::{Client, Shared, World, comparable, coordinator, local, same_files, worker};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_over_grpc_is_the_run_that_a_laptop_makes() {
    let (world, shared) = (World::new(), Shared::new());
    let config = world.config(json!({}));
    let (worker, _) = worker(&shared, &[]);
    let options = Options::local("one", world.path("scratch"));
    let (server, address) = coordinator(shared.parts(), options).await;
    let mut client = Client::of(address).await;

    let run = client.submit(&config, &What::Train, "key").await;
    let mut stream = client
        .runs
        .watch_run(v1::WatchRunRequest {
            id: run.id.clone(),
            from: 0,
        })
        .await
        .unwrap()
        .into_inner();
    let (mut seen, mut states) = (Vec::new(), Vec::new());
    while let Some(message) = stream.message().await.unwrap() {
        match message.news.unwrap() {
            News::Event(event) => seen.push(event),
            News::Run(run) => states.push(run.state),
            News::Progress(progress) => assert!(progress.done <= progress.total),
        }
    }
    let numbers: Vec<u64> = seen.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (0..seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen.last().unwrap().kind, "ended");
    assert_eq!(states.last().unwrap(), "improved", "{states:?}");

    let ended = client.get(&run.id[..6]).await;
    assert!(ended.started_ms >= ended.submitted_ms && ended.ended_ms >= ended.started_ms);
    assert!(
        ended.row_json.contains("\"state\":\"improved\""),
        "{}",
        ended.row_json
    );

    let own = local(&world, &config).await;
    let fetched = client.download(&run.id, true).await;
    assert!(fetched.contains_key(".skillopt/store.sqlite"));
    same_files(&comparable(fetched), &own);

    server.drain().await;
    worker.drain().await;
}
