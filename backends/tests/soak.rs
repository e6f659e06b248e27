//! In a bad hour of a provider every call is accounted once, and nothing is left behind.

use std::sync::Arc;
use std::time::Duration;

use skillopt_backends::conformance::crowd::{self, Crowd, Fate};
use skillopt_backends::conformance::kits;
use skillopt_backends::{ChatModel, Http};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const CALLS: u64 = 2_000;
/// Far more than a call takes that is answered, for only those that hang reach it.
const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn every_call_is_accounted_once_and_no_socket_or_task_is_left() {
    let (kit, metrics) = (
        kits::OPENAI_COMPATIBLE,
        tokio::runtime::Handle::current().metrics(),
    );
    let (tasks, files) = (metrics.num_alive_tasks(), crowd::open_files());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let body = (kit.wire.answer)("Paris").to_string();
    let server = Crowd::new(&body, Duration::ZERO, Fate::in_a_bad_hour);
    let serving = Arc::clone(&server);
    let mut serving_tasks = JoinSet::new();
    serving_tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let server = Arc::clone(&serving);
            connections.spawn(async move { server.serve(stream).await });
        }
    });
    let client: Arc<dyn ChatModel> = kit.client_at(&url, &Http::new());
    let mut request = kit.request();
    request.timeout = LIMIT;
    let seen = crowd::ask(&client, &request, CALLS, 64).await;
    assert_eq!(seen, crowd::expected(CALLS));
    assert_eq!(server.requests(), CALLS, "no call is made twice");

    drop(client);
    serving_tasks.shutdown().await;
    while metrics.num_alive_tasks() > tasks || crowd::open_files() > files {
        tokio::task::yield_now().await;
    }
}
