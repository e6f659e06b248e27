//! The service as clients see it, with a coordinator that looks by itself.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::Value;
use skillopt_coordinator::sweep::desk::Caller;
use skillopt_coordinator::sweep::rpc::{Need, Rpc};
use skillopt_proto::v1;
use skillopt_proto::v1::sweeps_server::Sweeps as _;
use skillopt_runtime::Shutdown;
use tonic::{Code, Request, Status};

use crate::hall::{Hall, caller};

/// Two cells that end soon.
const TWO: &str = "models: [{name: one, model: {target: sim-target}}]\n  seeds: [1, 2]\n";

fn rpc(hall: &Hall, shutdown: &Shutdown) -> Rpc {
    let callers = |metadata: &tonic::metadata::MetadataMap, _: &tonic::Extensions, need| match (
        metadata.get("as").and_then(|v| v.to_str().ok()),
        need,
    ) {
        (Some("viewer"), Need::Write) => Err(Status::permission_denied("viewers only look")),
        (Some("stranger"), _) => Ok(Caller {
            tenant: "other".to_owned(),
            ..caller()
        }),
        _ => Ok(caller()),
    };
    Rpc::new(
        Arc::clone(&hall.sweeps),
        Arc::new(callers),
        shutdown.clone(),
    )
}

fn by<T>(who: &'static str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("as", who.parse().unwrap());
    request
}

async fn request(hall: &Hall) -> v1::SubmitSweepRequest {
    let new = hall.new_sweep("wire", TWO).await;
    v1::SubmitSweepRequest {
        client_key: new.client_key,
        name: new.name,
        cells: new
            .cells
            .iter()
            .map(|cell| v1::Cell {
                name: cell.name.clone(),
                model: cell.model.clone(),
                benchmark: cell.benchmark.clone(),
                harness: cell.harness.clone(),
                seed: cell.seed,
                repeat: cell.repeat,
                bundle: cell.bundle.as_bytes().to_vec(),
                run: None,
            })
            .collect(),
        spec_json: new.spec.to_string(),
        ..v1::SubmitSweepRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_is_submitted_watched_to_its_end_and_listed() {
    let hall = Hall::new();
    let shutdown = Shutdown::new();
    let rpc = rpc(&hall, &shutdown);
    let asked = request(&hall).await;
    let refused = rpc
        .submit_sweep(by("viewer", asked.clone()))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let answer = rpc
        .submit_sweep(by("me", asked.clone()))
        .await
        .unwrap()
        .into_inner();
    assert!(!answer.existed);
    let sweep = answer.sweep.unwrap();
    assert_eq!((sweep.state.as_str(), sweep.cells.len()), ("running", 2));
    assert_eq!(sweep.cells[0].run.as_ref().unwrap().state, "waiting");
    let again = rpc
        .submit_sweep(by("me", asked))
        .await
        .unwrap()
        .into_inner();
    assert!(again.existed && again.sweep.unwrap().id == sweep.id);

    let mut tasks = tokio::task::JoinSet::new();
    let (sweeps, stop) = (Arc::clone(&hall.sweeps), shutdown.clone());
    tasks.spawn(async move {
        sweeps
            .drive("here", &stop, |what, error| panic!("{what}: {error}"))
            .await;
    });
    let id = sweep.id.clone();
    let watched = rpc
        .watch_sweep(by("me", v1::WatchSweepRequest { id: id.clone() }))
        .await;
    let pictures: Vec<v1::Sweep> = watched
        .unwrap()
        .into_inner()
        .map(|news| news.unwrap().sweep.unwrap())
        .collect()
        .await;
    let last = pictures.last().unwrap();
    assert_eq!(last.state, "completed");
    assert!(last.ended_ms > 0);
    let both: Value = serde_json::from_str(&last.results_json).unwrap();
    assert_eq!(both["results"]["counts"]["labelled"], 2);
    assert_eq!(both["observed"]["sweep"], id.as_str());
    assert!(both["observed"]["cells"][0]["wall_s"].as_f64().is_some());
    assert!(
        !pictures[0].results_json.is_empty(),
        "the first picture is whole"
    );

    let got = rpc
        .get_sweep(by("me", v1::GetSweepRequest { id: id.clone() }))
        .await;
    let got = got.unwrap().into_inner().sweep.unwrap();
    assert_eq!(got.cells, last.cells);
    let listed = rpc
        .list_sweeps(by("me", v1::ListSweepsRequest::default()))
        .await;
    let listed = listed.unwrap().into_inner();
    assert_eq!((listed.sweeps.len(), listed.next.as_str()), (1, ""));
    assert_eq!(listed.sweeps[0].state, "completed");
    for who in ["stranger", "viewer"] {
        let asked = v1::CancelSweepRequest { id: id.clone() };
        assert!(rpc.cancel_sweep(by(who, asked)).await.is_err());
    }
    let stranger = rpc
        .get_sweep(by("stranger", v1::GetSweepRequest { id: id.clone() }))
        .await;
    assert_eq!(stranger.unwrap_err().code(), Code::NotFound);
    let late = rpc
        .pause_sweep(by("me", v1::PauseSweepRequest { id }))
        .await
        .unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    shutdown.drain.cancel();
    tasks.join_next().await.unwrap().unwrap();
    let holder = hall
        .board
        .holder(&format!("sweep/{}", sweep.id))
        .await
        .unwrap();
    assert_eq!(holder, None, "the right to bring it on is given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_with_the_reason() {
    let hall = Hall::new();
    let rpc = rpc(&hall, &Shutdown::new());
    let asked = request(&hall).await;
    for (want, bad) in [
        (
            "no JSON",
            v1::SubmitSweepRequest {
                spec_json: "{".to_owned(),
                ..asked.clone()
            },
        ),
        (
            "no JSON object",
            v1::SubmitSweepRequest {
                spec_json: "[]".to_owned(),
                ..asked.clone()
            },
        ),
        ("32 bytes", {
            let mut bad = asked.clone();
            bad.cells[0].bundle = vec![1];
            bad
        }),
    ] {
        let status = rpc.submit_sweep(by("me", bad)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(want), "{status:?}");
    }
    let none = v1::RetryCellsRequest {
        id: "ffff".to_owned(),
        cells: Vec::new(),
    };
    let status = rpc.retry_cells(by("me", none)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
