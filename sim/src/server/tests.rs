use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;
use crate::settings::Settings;

/// A server on a free port, ended by the sender.
struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(pairs: &[&str]) -> Self {
        let settings = Settings::from_pairs(pairs.iter().copied()).expect("settings");
        let listener = bind(DEFAULT_LISTEN).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let model = Arc::new(SimulatedModel::new(settings));
        Self {
            address,
            stop,
            task: tokio::task::spawn(serve(listener, model, shutdown)),
        }
    }

    async fn end(self) {
        self.stop.send(()).expect("a running server");
        self.task.await.expect("a server without panics");
    }

    async fn open(&self, request: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        let text = format!(
            "{request} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n{headers}content-length: \
             {}\r\n\r\n{body}",
            body.len()
        );
        stream
            .write_all(text.as_bytes())
            .await
            .expect("a request sent");
        stream
    }

    /// Sends a request and returns status line, headers and body; empty if the server hung up.
    async fn raw(&self, request: &str, headers: &str, body: &str) -> String {
        let mut answer = String::new();
        let mut stream = self.open(request, headers, body).await;
        // A cut connection may also show as an error; then there is no answer either.
        drop(stream.read_to_string(&mut answer).await);
        answer
    }

    async fn json(&self, request: &str, body: &Value) -> (u16, Value) {
        let answer = self.raw(request, "", &body.to_string()).await;
        let status = answer[9..12].parse().expect("a status");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        (status, serde_json::from_str(body).expect(body))
    }

    async fn stats(&self) -> Value {
        self.json("GET /sim/stats", &Value::Null).await.1
    }
}

const CHAT: &str = "POST /v1/chat/completions";

fn task(i: usize) -> Value {
    json!({"model": "m", "messages": [
        {"role": "system", "content": "skill"},
        {"role": "user", "content": format!("[[sim item=i{i} fam=K00 gold=calm otter {i}]]")},
    ]})
}

#[tokio::test]
async fn both_shapes_give_the_same_text_and_usage() {
    let server = Server::start(&["p-none=1"]).await;
    let (status, chat) = server.json(CHAT, &task(1)).await;
    assert_eq!(status, 200);
    let text = chat["choices"][0]["message"]["content"]
        .as_str()
        .expect("text");
    assert!(text.ends_with("<answer>calm otter 1</answer>"));
    assert_eq!(chat["choices"][0]["finish_reason"], "stop");
    let tokens = text.len().div_ceil(4);
    assert_eq!(
        chat["usage"],
        json!({"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens})
    );

    let body = json!({"model": "m", "system": "skill", "max_tokens": 9,
                      "messages": [task(1)["messages"][1]]});
    let (status, message) = server.json("POST /v1/messages?beta=true", &body).await;
    assert_eq!(status, 200);
    assert_eq!(message["content"][0]["text"], text);
    assert_eq!(
        message["usage"],
        json!({"input_tokens": 12, "output_tokens": tokens})
    );
    assert_eq!(message["id"], chat["id"]);

    let azure = "POST /openai/deployments/m/chat/completions?api-version=1";
    assert_eq!(server.json(azure, &task(1)).await.1, chat);
    let stats = server.stats().await;
    assert_eq!((&stats["calls"], &stats["repeats"]), (&json!(3), &json!(2)));
    assert_eq!(stats["ok"], json!({"target": 3}));
    server.end().await;
}

#[tokio::test]
async fn every_fault_shows_on_the_wire() {
    let server = Server::start(&[]).await;
    let check = async |config: Value, expected: &str| {
        let (status, _) = server.json("POST /sim/config", &config).await;
        assert_eq!(status, 200, "{config}");
        let answer = server.raw(CHAT, "", &task(1).to_string()).await;
        if expected.is_empty() {
            assert_eq!(answer, "", "{config}");
        }
        assert!(answer.contains(expected), "{config}: {answer}");
    };
    check(json!({"p429": 1, "retry-after": 7}), "retry-after: 7").await;
    check(json!({"retry-after": null}), "HTTP/1.1 429").await;
    check(json!({"p429": 0, "p500": 1}), "HTTP/1.1 500").await;
    check(json!({"p500": 0, "preset": 1}), "").await;
    check(json!({"preset": 0, "phang": 1, "hang-s": 0.01}), "").await;
    check(json!({"phang": 0, "pgarbage": 1}), "I am sorry").await;
    check(json!({"pgarbage": 0, "pmalformed": 1}), "\r\n\r\n<html>").await;
    check(
        json!({"pmalformed": 0, "unauthorized": true}),
        "HTTP/1.1 401",
    )
    .await;
    check(json!({"unauthorized": false, "dead": true}), "").await;
    check(json!({"dead": false}), "HTTP/1.1 200").await;
    server.end().await;
}

#[tokio::test]
async fn faults_are_the_same_in_every_run() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let server = Server::start(&["p429=0.2", "p500=0.2", "preset=0.2"]).await;
        let mut seen = Vec::new();
        for i in 0..20 {
            let answer = server.raw(CHAT, "", &task(i).to_string()).await;
            seen.push(answer.get(9..12).unwrap_or("cut").to_owned());
        }
        server.end().await;
        runs.push(seen);
    }
    assert_eq!(runs[0], runs[1]);
    for kind in ["200", "429", "500", "cut"] {
        assert!(
            runs[0].iter().any(|seen| seen == kind),
            "{kind} in {:?}",
            runs[0]
        );
    }
}

#[tokio::test]
async fn a_client_that_vanishes_is_counted_as_aborted() {
    let server = Server::start(&["phang=1"]).await;
    let stream = server.open(CHAT, "", &task(1).to_string()).await;
    while server.stats().await["in_flight"] != 1 {}
    drop(stream);
    while server.stats().await["aborted"] != 1 {}
    assert_eq!(server.stats().await["in_flight"], 0);
    let (_, reset) = server.json("POST /sim/reset", &Value::Null).await;
    assert_eq!(reset["status"], "reset");
    assert_eq!(server.stats().await["calls"], 0);
    server.end().await;
}

#[tokio::test]
async fn requests_that_are_no_calls_get_an_error_that_helps() {
    let server = Server::start(&[]).await;
    let check = async |request: &str, headers: &str, body: Value, status: &str, help: &str| {
        let answer = server.raw(request, headers, &body.to_string()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.contains(help), "{answer}");
    };
    check("GET /nothing", "", Value::Null, "404", "/sim/stats").await;
    check("GET /v1/messages", "", Value::Null, "405", "GET").await;
    check(CHAT, "", json!({}), "400", "messages").await;
    check(CHAT, "x-sim-stage: tagret\r\n", task(1), "400", "`target`").await;
    check(
        CHAT,
        "x-sim-stage: ranking\r\n",
        task(1),
        "200",
        "selected_indices",
    )
    .await;
    check(
        "POST /v1/messages",
        "",
        json!([]),
        "400",
        "invalid_request_error",
    )
    .await;
    check("POST /sim/config", "", json!({"p42": 1}), "400", "`p429`").await;
    check("GET /v1/models", "", Value::Null, "200", "sim-target").await;
    check("GET /", "", Value::Null, "200", "ok").await;
    server.end().await;
}
