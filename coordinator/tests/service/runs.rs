//! Runs over gRPC: what is submitted, watched and fetched is what a local run is.

use serde_json::json;
use skillopt_coordinator::bundle::{What, pack};
use skillopt_coordinator::evaluate::{Evaluation, Split};
use skillopt_coordinator::service::{Coordinator, Options};
use skillopt_proto::v1;
use skillopt_proto::v1::watch_run_response::News;
use skillopt_runtime::Shutdown;
use tonic::Code;

use crate::support::{
    Client, Shared, World, alone, comparable, coordinator, local, same_files, submission, worker,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_over_grpc_is_the_run_that_a_laptop_makes() {
    let (world, shared, server, mut client) = alone(|_| {}).await;
    let config = world.config(json!({}));
    let (worker, _) = worker(&shared, &[]);

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_is_the_same_run_and_another_bundle_is_refused() {
    // Nobody works, so that the run stays as it is.
    let (world, _shared, server, mut client) = alone(|options| {
        options.runs_max = 0;
    })
    .await;
    let packed = pack(&world.config(json!({})), &What::Train).unwrap();
    let request = submission(&packed, &What::Train, "key");

    let early = client.runs.submit_run(request.clone()).await.unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition);
    assert!(
        early.message().contains("is not there"),
        "{}",
        early.message()
    );

    client.upload(&packed).await;
    let first = client
        .runs
        .submit_run(request.clone())
        .await
        .unwrap()
        .into_inner();
    let again = client
        .runs
        .submit_run(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert!(!first.existed && again.existed);
    let (first, again) = (first.run.unwrap(), again.run.unwrap());
    assert_eq!(first, again);
    assert_eq!(first.state, "queued");

    let other = pack(&world.config(json!({"seed": 7})), &What::Train).unwrap();
    client.upload(&other).await;
    let clash = submission(&other, &What::Train, "key");
    let clash = client.runs.submit_run(clash).await.unwrap_err();
    assert_eq!(clash.code(), Code::AlreadyExists, "{clash:?}");

    let second = client
        .submit(&world.config(json!({"seed": 7})), &What::Train, "two")
        .await;
    let request = v1::ListRunsRequest {
        page_size: 1,
        ..v1::ListRunsRequest::default()
    };
    let page = client
        .runs
        .list_runs(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(page.runs.len(), 1);
    let rest = v1::ListRunsRequest {
        after: page.next.clone(),
        ..request
    };
    let rest = client.runs.list_runs(rest).await.unwrap().into_inner();
    let listed = [page.runs[0].id.clone(), rest.runs[0].id.clone()];
    assert!(
        listed.contains(&first.id) && listed.contains(&second.id),
        "{listed:?}"
    );
    assert_eq!(rest.next, "");

    let mut typo = first.id.clone();
    typo.replace_range(3..4, "_");
    let unknown = v1::GetRunRequest { id: typo };
    let unknown = client.runs.get_run(unknown).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(
        unknown
            .message()
            .contains(&format!("did you mean `{}`", first.id))
    );

    // Nobody holds it, so the wish is granted at once.
    let id = first.id.clone();
    let gone = client
        .runs
        .cancel_run(v1::CancelRunRequest { id })
        .await
        .unwrap();
    assert_eq!(gone.into_inner().run.unwrap().state, "cancelled");
    let id = first.id.clone();
    let late = client
        .runs
        .pause_run(v1::PauseRunRequest { id })
        .await
        .unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_run_goes_on_where_it_was_and_a_cancelled_one_ends() {
    let (world, shared, server, mut client) = alone(|_| {}).await;
    let config = world.config(json!({}));
    let (worker, model) = worker(&shared, &["latency=fixed:30"]);

    let run = client.submit(&config, &What::Train, "key").await;
    let id = run.id.clone();
    client
        .until(&id, |run| run.row_json.contains("\"steps_done\":1"))
        .await;
    client
        .runs
        .pause_run(v1::PauseRunRequest { id: id.clone() })
        .await
        .unwrap();
    let paused = client.until(&id, |run| run.state == "paused").await;
    assert_eq!(
        (paused.cause_class.as_str(), paused.ended_ms),
        ("person", 0)
    );
    assert_eq!(paused.coordinator, "");
    // A folder of a run that is not over shows what is committed.
    let part = client.download(&id, false).await;
    assert!(part.contains_key("history.json") || part.contains_key("config.json"));

    let again = v1::ResumeRunRequest {
        id: id.clone(),
        ..v1::ResumeRunRequest::default()
    };
    client.runs.resume_run(again).await.unwrap();
    client.until(&id, |run| run.state == "improved").await;
    same_files(
        &comparable(client.download(&id, false).await),
        &local(&world, &config).await,
    );
    drop(model);

    let other = client
        .submit(&world.config(json!({"seed": 7})), &What::Train, "two")
        .await;
    client.until(&other.id, |run| run.state == "running").await;
    let cancel = v1::CancelRunRequest {
        id: other.id.clone(),
    };
    client.runs.cancel_run(cancel).await.unwrap();
    let ended = client
        .until(&other.id, |run| run.state == "cancelled")
        .await;
    assert!(ended.ended_ms > 0);
    server.drain().await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluation_is_a_run_too_and_watching_goes_on_from_any_event() {
    let (world, shared, server, mut client) = alone(|_| {}).await;
    let (worker, _) = worker(&shared, &[]);
    let skill = world.path("skill.md");
    std::fs::write(&skill, "# Skill\n\n- be brief\n").unwrap();
    let what = What::Evaluate(Evaluation {
        skill: skill.display().to_string(),
        split: Split::Val,
    });
    let run = client.submit(&world.config(json!({})), &what, "key").await;
    let ended = client.until(&run.id, |run| run.state == "evaluated").await;
    assert!(
        ended.row_json.contains("\"split\":\"val\""),
        "{}",
        ended.row_json
    );
    let files = client.download(&run.id, false).await;
    let summary = String::from_utf8(files["eval_summary.json"].clone()).unwrap();
    assert!(summary.contains("\"n_items\": 8"), "{summary}");

    for from in [0, 1, 5] {
        let request = v1::WatchRunRequest {
            id: run.id.clone(),
            from,
        };
        let mut stream = client.runs.watch_run(request).await.unwrap().into_inner();
        let mut events = 0;
        while let Some(message) = stream.message().await.unwrap() {
            events += u64::from(matches!(message.news, Some(News::Event(_))));
        }
        assert_eq!(events, 1_u64.saturating_sub(from));
    }
    server.drain().await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_is_made_again_changes_no_cap() {
    let (world, shared, server, mut client) = alone(|options| {
        options.runs_max = 0;
    })
    .await;
    let packed = pack(&world.config(json!({})), &What::Train).unwrap();
    client.upload(&packed).await;
    let mut request = submission(&packed, &What::Train, "key");
    request.cap_tokens = Some(5);
    let run = client.runs.submit_run(request.clone()).await.unwrap();
    let id = run.into_inner().run.unwrap().id;
    let cap = async || {
        let purse = [format!("run/{id}")];
        let balances = shared.ledger.balances(&purse).await.unwrap();
        balances[0].caps.tokens
    };
    assert_eq!(cap().await, Some(5));
    let more = v1::ResumeRunRequest {
        id: id.clone(),
        cap_tokens: Some(50),
        ..Default::default()
    };
    client.runs.resume_run(more).await.unwrap();
    assert_eq!(cap().await, Some(50));

    let again = client.runs.submit_run(request).await.unwrap();
    assert!(again.into_inner().existed);
    assert_eq!(cap().await, Some(50));
    let other = pack(&world.config(json!({"seed": 7})), &What::Train).unwrap();
    client.upload(&other).await;
    let mut clash = submission(&other, &What::Train, "key");
    clash.cap_tokens = Some(1);
    client.runs.submit_run(clash).await.unwrap_err();
    assert_eq!(cap().await, Some(50));
    server.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_cap_of_a_run_at_work_stops_it_there() {
    let (world, shared, server, mut client) = alone(|_| {}).await;
    let (worker, _) = worker(&shared, &["latency=fixed:200"]);
    let config = world.config(json!({}));
    let run = client.submit(&config, &What::Train, "key").await;
    client
        .until(&run.id, |run| run.row_json.contains("\"steps_done\":1"))
        .await;
    // More than this is spent already.
    let capped = v1::ResumeRunRequest {
        id: run.id.clone(),
        cap_requests: Some(1),
        ..Default::default()
    };
    client.runs.resume_run(capped).await.unwrap();
    let is_at_rest = |run: &v1::Run| run.state != "running" && run.state != "queued";
    let stopped = client.until(&run.id, is_at_rest).await;
    assert_eq!(
        (&*stopped.state, &*stopped.cause_class),
        ("paused", "budget"),
        "{stopped:?}"
    );
    server.drain().await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scratch_folder_is_of_one_coordinator_and_what_others_have_there_stays() {
    let (world, shared) = (World::new(), Shared::new());
    let place = world.path("home");
    for part in ["runs", "exports"] {
        std::fs::create_dir_all(place.join(part)).unwrap();
        std::fs::write(place.join(part).join("mine"), "precious").unwrap();
    }
    let (server, address) = coordinator(shared.parts(), Options::local("one", place.clone())).await;
    let mut client = Client::of(address).await;
    client
        .runs
        .list_runs(v1::ListRunsRequest::default())
        .await
        .unwrap();
    for part in ["runs", "exports"] {
        assert!(place.join(part).join("mine").exists());
    }
    let other = Coordinator::bind(Options::local("two", place), shared.parts());
    let served = other.await.unwrap().serve(Shutdown::new(), |_| {}).await;
    let refused = served.unwrap_err().to_string();
    assert!(refused.contains("another coordinator uses"), "{refused}");
    server.drain().await;
}
