//! Following a run of a cluster, whose coordinator loses the connection, ends its stream or goes
//! away. The coordinator is a stand-in that says what the test wants.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod common;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::Place;
use common::pty::Pty;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use skillopt_proto::v1::cluster_server::{Cluster, ClusterServer};
use skillopt_proto::v1::runs_server::{Runs, RunsServer};
use skillopt_proto::v1::watch_run_response::News;
use skillopt_proto::v1::*;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// What the stand-in says.
#[derive(Default)]
struct Script {
    /// For each time that the run is watched, what is sent; then the stream ends, with an error if
    /// the flag is set.
    streams: Mutex<Vec<(Vec<News>, bool)>>,
    watched: AtomicUsize,
    /// Ids of runs that were paused.
    paused: Mutex<Vec<String>>,
    overview: Value,
}

#[derive(Clone)]
struct StandIn(Arc<Script>);

type Answer<T> = Result<Response<T>, Status>;
type Streamed = Pin<Box<dyn Stream<Item = Result<WatchRunResponse, Status>> + Send>>;

macro_rules! silent {
    ($($name:ident: $asked:ident -> $answer:ident),+) => { $(
        fn $name<'a, 'async_trait>(
            &'a self,
            _: Request<$asked>,
        ) -> Pin<Box<dyn Future<Output = Answer<$answer>> + Send + 'async_trait>>
        where
            'a: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async { Err(Status::unimplemented("not in this test")) })
        }
    )+ };
}

#[tonic::async_trait]
impl Runs for StandIn {
    type WatchRunStream = Streamed;

    async fn watch_run(&self, asked: Request<WatchRunRequest>) -> Answer<Streamed> {
        let from = asked.into_inner().from;
        self.0.watched.fetch_add(1, Ordering::SeqCst);
        let mut streams = self.0.streams.lock().unwrap();
        if streams.is_empty() {
            return Ok(Response::new(Box::pin(stream::pending())));
        }
        let (news, is_broken) = streams.remove(0);
        let wanted = news
            .into_iter()
            .filter(move |news| !matches!(news, News::Event(e) if e.seq < from))
            .map(|news| Ok(WatchRunResponse { news: Some(news) }));
        let end = is_broken.then(|| Err(Status::unavailable("the connection broke")));
        let all: Vec<_> = wanted.chain(end).collect();
        Ok(Response::new(stream::iter(all).boxed()))
    }

    async fn get_run(&self, _: Request<GetRunRequest>) -> Answer<GetRunResponse> {
        Ok(Response::new(GetRunResponse::default()))
    }

    async fn pause_run(&self, asked: Request<PauseRunRequest>) -> Answer<PauseRunResponse> {
        self.0.paused.lock().unwrap().push(asked.into_inner().id);
        let News::Run(run) = run("paused", "person", 2) else {
            return Err(Status::internal("no run"));
        };
        Ok(Response::new(PauseRunResponse { run: Some(run) }))
    }

    silent!(
        submit_run: SubmitRunRequest -> SubmitRunResponse,
        list_runs: ListRunsRequest -> ListRunsResponse,
        resume_run: ResumeRunRequest -> ResumeRunResponse,
        cancel_run: CancelRunRequest -> CancelRunResponse
    );
}

#[tonic::async_trait]
impl Cluster for StandIn {
    async fn why(&self, _: Request<WhyRequest>) -> Answer<WhyResponse> {
        Ok(Response::new(WhyResponse {
            waits: vec![Wait {
                code: "slots_busy".to_owned(),
                words: "all fitting workers are busy".to_owned(),
                count: 7,
                oldest_ms: 61_000,
                help: "add workers".to_owned(),
            }],
            waiting: 7,
            ..WhyResponse::default()
        }))
    }

    async fn overview(&self, _: Request<OverviewRequest>) -> Answer<OverviewResponse> {
        Ok(Response::new(OverviewResponse {
            overview_json: self.0.overview.to_string(),
        }))
    }

    silent!(
        list_workers: ListWorkersRequest -> ListWorkersResponse,
        drain_worker: DrainWorkerRequest -> DrainWorkerResponse,
        usage: UsageRequest -> UsageResponse,
        set_caps: SetCapsRequest -> SetCapsResponse,
        list_tokens: ListTokensRequest -> ListTokensResponse,
        create_token: CreateTokenRequest -> CreateTokenResponse,
        revoke_token: RevokeTokenRequest -> RevokeTokenResponse
    );
}

/// Serves until the runtime goes; returns the address.
fn serve(script: Script) -> (tokio::runtime::Runtime, SocketAddr, Arc<Script>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    let stand_in = StandIn(script.clone());
    let server = tonic::transport::Server::builder()
        .add_service(RunsServer::new(stand_in.clone()))
        .add_service(ClusterServer::new(stand_in));
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (runtime, address, script)
}

fn run(state: &str, class: &str, steps_done: u64) -> News {
    News::Run(Run {
        id: "3f9c1a".to_owned(),
        name: "invoices".to_owned(),
        kind: "train".to_owned(),
        state: state.to_owned(),
        cause: "`sim` rejected the credentials (HTTP 401)".to_owned(),
        cause_class: class.to_owned(),
        row_json:
            json!({"steps_done": steps_done, "baseline": 0.5, "cost_usd": 1.25, "cap_usd": 20.0})
                .to_string(),
        ..Run::default()
    })
}

fn event(seq: u64, kind: &str, facts: &Value) -> News {
    News::Event(Event {
        seq,
        kind: kind.to_owned(),
        facts_json: facts.to_string(),
    })
}

/// The log of a run of `steps` steps, every other one accepted.
fn log(steps: u64) -> Vec<News> {
    let mut log = vec![
        event(
            0,
            "started",
            &json!({"gate": true, "steps": steps, "val_items": 10, "epochs": 1}),
        ),
        event(1, "baseline", &json!({"score": 0.5})),
    ];
    let (mut kept, mut seq) = (0.5, 2);
    for step in 1..=steps {
        let is_better = step % 2 == 0;
        let score = if is_better { kept + 0.1 } else { kept - 0.1 };
        let action = if is_better {
            "accept_new_best"
        } else {
            "reject"
        };
        kept = if is_better { score } else { kept };
        log.push(event(
            seq,
            "step",
            &json!({"step": step, "epoch": 1, "action": action, "candidate_gate_score": score,
                "current_score": kept, "best_score": kept}),
        ));
        seq += 1;
    }
    log
}

fn ended(seq: u64) -> News {
    event(seq, "ended", &json!({"state": "improved", "best_step": 4}))
}

#[test]
fn no_step_is_lost_or_told_twice_when_the_stream_breaks_or_ends_early() {
    let place = Place::new();
    let whole = log(4);
    let mut start = vec![run("running", "", 0)];
    start.extend(whole[..4].to_vec());
    // The second one begins where the first one broke, and its coordinator leaves in peace.
    let mut again = vec![run("running", "", 2)];
    again.extend(whole[..5].to_vec());
    // The end is known before the last events are.
    let mut last = vec![run("improved", "", 4)];
    last.extend(whole);
    last.push(ended(6));
    let (_runtime, address, script) = serve(Script {
        streams: Mutex::new(vec![(start, true), (again, false), (last, false)]),
        ..Script::default()
    });
    let seen = place.run(&format!("watch 3f9c1a --coordinator http://{address}"));
    assert_eq!(
        seen.out,
        "\
start      50.0% on the val split
step 1/4   ✕ refused −10.0  40.0% on the val split, below 50.0% before
step 2/4   ● accepted +10.0  60.0% on the val split, above 50.0% before; the best so far
step 3/4   ✕ refused −10.0  50.0% on the val split, below 60.0% before
step 4/4   ● accepted +10.0  70.0% on the val split, above 60.0% before; the best so far
improved
20.0 points higher, not certified.
Single measurements on 10 validation items, uncorrected for the choice among 4 steps.
"
    );
    assert_eq!((seen.code, seen.err.as_str()), (0, ""), "{seen:?}");
    assert_eq!(script.watched.load(Ordering::SeqCst), 3);
}

#[test]
fn a_paused_run_is_told_with_its_whole_log_its_cause_and_code() {
    let place = Place::new();
    // The picture comes first, and the stream stays open.
    let mut news = vec![run("paused", "provider", 2)];
    news.extend(log(4)[..4].to_vec());
    let (_runtime, address, _) = serve(Script {
        streams: Mutex::new(vec![(news.clone(), false), (news, false)]),
        ..Script::default()
    });
    let once = place.run(&format!(
        "watch 3f9c1a --coordinator http://{address} --once"
    ));
    assert_eq!(once.code, 4, "{once:?}");
    for part in [
        "invoices",
        "paused (provider) · step 2 of 4",
        "rejected the credentials (HTTP 401)",
        "kept: 2 of 4 steps and all answers so far · fix: set the key",
        "score 60.0% from 50.0%   ● 1  ✕ 1   $1.25 of $20",
    ] {
        assert!(once.out.contains(part), "{part} in {}", once.out);
    }
    let lines = place.run(&format!("watch 3f9c1a --coordinator http://{address}"));
    assert_eq!(lines.code, 4, "{lines:?}");
    assert!(lines.out.contains("step 2/4   ● accepted"), "{lines:?}");
    assert!(lines.out.contains("paused (provider): "), "{lines:?}");
}

#[test]
fn a_cancelled_run_has_its_own_code() {
    let place = Place::new();
    let mut news = vec![run("cancelled", "person", 2)];
    news.extend(log(4)[..4].to_vec());
    let (_runtime, address, _) = serve(Script {
        streams: Mutex::new(vec![(news, false)]),
        ..Script::default()
    });
    let seen = place.run(&format!(
        "watch 3f9c1a --coordinator http://{address} --json"
    ));
    assert_eq!(seen.code, 6, "{seen:?}");
    let last: Value = serde_json::from_str(seen.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["step"], 2);
}

#[test]
fn top_shows_the_row_of_the_coordinator() {
    let place = Place::new();
    let row = json!({
        "at_unix_ms": 1_735_655_527_000_u64,
        "headline": {"first": "Work is moving.", "second": "7 of 7 waiting jobs: all busy."},
        "finished_a_minute": 35, "running": 12, "slots": 12, "waiting": 7,
        "waits": [{"code": "slots_busy", "words": "all busy", "help": "add workers", "count": 7, "oldest_ms": 1000}],
        "a field of a later release": true,
    });
    let (_runtime, address, _) = serve(Script {
        overview: row,
        ..Script::default()
    });
    let seen = place.run(&format!("top --coordinator http://{address} --once"));
    assert_eq!(seen.code, 0, "{seen:?}");
    for part in [
        "cluster   work is moving",
        "14:32:07",
        "35 a minute   12 of 12 slots   7 waiting   price unknown",
        "   7 all busy   oldest 1 s   add workers",
    ] {
        assert!(seen.out.contains(part), "{part} in {}", seen.out);
    }
    let seen = place.run(&format!("top --coordinator http://{address} --once --json"));
    let row: Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!(
        (&row["type"], &row["waiting"]),
        (&json!("overview"), &json!(7))
    );
}

#[test]
fn nobody_there_is_said_with_the_code_for_it() {
    let place = Place::new();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let seen = place.run(&format!("top --coordinator http://{address} --once"));
    assert_eq!(seen.code, 7, "{seen:?}");
}

#[test]
fn a_pause_asks_first_and_a_lost_connection_is_seen() {
    let place = Place::new();
    let mut news = vec![run("running", "", 2)];
    news.extend(log(4)[..4].to_vec());
    news.push(News::Progress(Progress {
        stage: "steps/step_0003/rollout".to_owned(),
        done: 5,
        total: 40,
    }));
    // The connection stays open.
    let (runtime, address, script) = serve(Script {
        streams: Mutex::new(vec![(news, true)]),
        ..Script::default()
    });
    let mut pty = Pty::start(
        &place,
        &format!("watch 3f9c1a --coordinator http://{address}"),
    );
    pty.until("invoices");
    pty.until("waits:");
    pty.press("p");
    pty.until("paid");
    pty.press("n");
    pty.until("Enter");
    assert_eq!(script.paused.lock().unwrap().len(), 0);
    pty.press("p");
    pty.until("paid");
    pty.press("y");
    pty.until("(by");
    assert_eq!(*script.paused.lock().unwrap(), ["3f9c1a"]);
    // The coordinator goes away.
    runtime.shutdown_background();
    pty.until("connection");
    pty.press("q");
    let below = pty.ended(&place, 0);
    assert!(below.contains("No connection since "), "{below}");
    assert!(below.contains("trying again in "), "{below}");
    assert!(below.contains("score 60.0% from 50.0%"), "{below}");
}
