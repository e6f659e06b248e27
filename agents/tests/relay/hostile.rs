//! What a hostile program in a sandbox tries at its relay: nothing of it reaches a provider, and each
//! try is in the record with its reason.

use std::time::Duration;

use serde_json::{Value, json};
use skillopt_agents::relay::{Caps, Refusal, Wire};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::rig::{DUMMY, KEY, Rig, ask, well};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

async fn rig() -> Rig {
    Rig::start(Wire::Chat, Wire::Chat, well(), |_| {}).await
}

impl Rig {
    /// Sends bytes as they are, and returns all that comes back.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.place).await.unwrap();
        // The relay may have closed already.
        drop(stream.write_all(bytes).await);
        let mut answer = Vec::new();
        let mut read = async || {
            let mut part = [0; 4096];
            // An end by force is an end.
            while let Ok(n @ 1..) = stream.read(&mut part).await {
                answer.extend_from_slice(&part[..n]);
            }
        };
        tokio::time::timeout(LONG, read()).await.expect("an end");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Returns the reasons in the record.
    fn reasons(&self) -> String {
        let refused = self.relay.record().refused;
        let words = refused.iter().map(ToString::to_string);
        words.collect::<Vec<_>>().join("\n")
    }

    /// Nothing left but what is allowed, with nothing of the sandbox's.
    fn is_tight(&self, left: usize) {
        let seen = self.mock.requests();
        assert_eq!(seen.len(), left, "{seen:?}");
        for entry in seen {
            assert_eq!(entry.path, "/v1/chat/completions");
            assert_eq!(entry.body["model"], "m-1");
            assert!(!format!("{entry:?}").contains(DUMMY), "{entry:?}");
        }
    }
}

/// A request as it stands on the wire.
fn text(line: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nauthorization: Bearer {DUMMY}\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn good() -> String {
    ask(Wire::Chat, false).1.to_string()
}

#[tokio::test]
async fn only_the_model_at_its_own_address_is_asked() {
    let path = "POST /v1/chat/completions";
    for (request, reason) in [
        (text("POST /v1/files", "", &good()), "`POST /v1/files`"),
        (text("GET /v1/files/file-1/content", "", ""), "/v1/files"),
        (
            text("POST /v1/chat/completions/../files", "", &good()),
            "../files",
        ),
        (text("POST /v1%2Ffiles", "", &good()), "%2F"),
        (text("DELETE /v1/chat/completions", "", ""), "`DELETE"),
        (
            text("POST http://evil.example/v1/chat/completions", "", &good()),
            "evil.example",
        ),
        (
            text("GET http://169.254.169.254/latest/meta-data", "", ""),
            "169.254.169.254",
        ),
        (
            text("CONNECT evil.example:443", "", ""),
            "CONNECT evil.example:443",
        ),
        (
            format!(
                "{path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\
                 authorization: Bearer {DUMMY}\r\ncontent-length: 0\r\n\r\n"
            )
            .into_bytes(),
            "evil.example",
        ),
        (
            text(path, "", &good().replace("m-1", "dear")),
            "`dear` is not the model",
        ),
        (
            text(
                path,
                "",
                &good()
                    .replacen('{', r#"{"model": "dear", "model": ["m-1"],"#, 1)
                    .replace(r#""model":"m-1","#, ""),
            ),
            "is not the model",
        ),
        (text(path, "", "[]"), "anything but an object"),
        (text(path, "", "{"), "cannot be read"),
    ] {
        let rig = rig().await;
        let answer = rig.raw(&request).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{reason}: {answer}");
        let reasons = rig.reasons();
        assert!(reasons.contains(reason), "{reason} is not in {reasons}");
        rig.is_tight(0);
    }
}

#[tokio::test]
async fn the_key_of_another_task_opens_nothing() {
    let rig = rig().await;
    let path = "POST /v1/chat/completions";
    for line in [path, "GET /v1/models"] {
        let bytes = text(line, "", &good());
        let bytes = String::from_utf8(bytes).unwrap();
        for key in ["sk-dummy-of-another-task", KEY, ""] {
            let answer = rig.raw(bytes.replace(DUMMY, key).as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{key}: {answer}");
        }
    }
    assert_eq!(rig.relay.record().refused, vec![Refusal::Key; 6]);
    rig.is_tight(0);
    // In any header that CLIs use, the right one does.
    let bytes = String::from_utf8(text(path, "", &good())).unwrap();
    let answer = rig
        .raw(
            bytes
                .replace("authorization: Bearer", "x-api-key:")
                .as_bytes(),
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    rig.is_tight(1);
}

#[tokio::test]
async fn headers_of_the_sandbox_reach_nobody() {
    let rig = rig().await;
    let headers = "x-forwarded-host: evil.example\r\nopenai-organization: other\r\n\
                   cookie: a=b\r\nproxy-authorization: Basic x\r\nte: trailers\r\n\
                   transfer-encoding : chunked\r\n";
    let answer = rig
        .raw(&text("POST /v1/chat/completions", headers, &good()))
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 400"),
        "a blank before a colon: {answer}"
    );
    let headers = headers.replace("transfer-encoding : chunked\r\n", "");
    let answer = rig
        .raw(&text("POST /v1/chat/completions", &headers, &good()))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    rig.is_tight(1);
    let seen = format!("{:?}", rig.mock.requests()[0].headers);
    for name in ["evil", "organization", "cookie", "proxy", "trailers"] {
        assert!(!seen.contains(name), "{seen}");
    }
    for smuggled in [
        "anthropic-beta: a\nx-api-key: evil\r\n",
        "anthropic-beta: a\r\n folded: evil\r\n",
        "an thropic: x\r\n",
    ] {
        let answer = rig
            .raw(&text("POST /v1/chat/completions", smuggled, &good()))
            .await;
        let seen = rig.mock.requests();
        let all = format!("{:?}", seen.iter().map(|e| &e.headers).collect::<Vec<_>>());
        assert!(!all.contains("evil"), "{smuggled:?}: {answer} {all}");
    }
}

#[tokio::test]
async fn a_request_hidden_in_another_is_refused_or_held_against_the_plan_itself() {
    let hidden = "POST /v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
                  content-length: 2\r\n\r\n{}";
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {DUMMY}\r\n"
    );
    let body = good();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for headers in [
        format!(
            "content-length: {}\r\ntransfer-encoding: chunked\r\n",
            chunked.len()
        ),
        format!(
            "transfer-encoding: chunked\r\ncontent-length: {}\r\n",
            chunked.len()
        ),
        "transfer-encoding: chunked\r\n".to_owned(),
    ] {
        let rig = rig().await;
        let bytes = format!("{head}{headers}\r\n{chunked}{hidden}");
        let answer = rig.raw(bytes.as_bytes()).await;
        let left = rig.mock.requests().len();
        assert!(left <= 1, "{headers}");
        rig.is_tight(left);
        assert!(!answer.contains("200 OK\r\n\r\n{}"), "{answer}");
        // What says its length twice is not read on after the first answer.
        let is_told = rig.reasons().contains("/v1/files");
        assert!(
            is_told || headers.contains("content-length"),
            "{}",
            rig.reasons()
        );
    }
    for headers in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: -1\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked, identity\r\n",
    ] {
        let rig = rig().await;
        let bytes = format!("{head}{headers}\r\n{hidden}");
        let answer = rig.raw(bytes.as_bytes()).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{headers}: {answer}");
        rig.is_tight(0);
        assert!(!rig.reasons().is_empty(), "{headers}");
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_held() {
    let rig = rig().await;
    let path = "POST /v1/chat/completions";
    let wide = format!("x-wide: {}\r\n", "a".repeat(1 << 20));
    let many: String = (0..500).map(|n| format!("x-{n}: a\r\n")).collect();
    for headers in [wide, many] {
        let answer = rig.raw(&text(path, &headers, &good())).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        let last = rig.relay.record().refused.pop();
        assert!(matches!(last, Some(Refusal::Head(_))), "{last:?}");
    }
    for body in [
        format!(r#"{{"model": "m-1", "x": "{}"}}"#, "a".repeat(33 << 20)),
        format!(r#"{{"model": "m-1", "x": [{}0]}}"#, "0,".repeat(2 << 20)),
        format!(r#"{{"model": "m-1", "x": {}}}"#, "[".repeat(1 << 18)),
    ] {
        let answer = rig.raw(&text(path, "", &body)).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        let last = rig.relay.record().refused.pop();
        assert!(matches!(last, Some(Refusal::Body(_))), "{last:?}");
    }
    rig.is_tight(0);
}

/// A body that never ends, its pieces within all limits of time.
#[tokio::test]
async fn a_body_without_an_end_has_an_end() {
    let rig = rig().await;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {DUMMY}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    let mut stream = TcpStream::connect(&rig.place).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let mut sent = 0;
    let send = async {
        while stream.write_all(piece.as_bytes()).await.is_ok() {
            sent += 1;
            if !rig.relay.record().refused.is_empty() {
                break;
            }
        }
    };
    tokio::time::timeout(LONG, send).await.expect("an end");
    assert!(sent < 64, "{sent} MiB were taken");
    assert!(rig.reasons().contains("larger than"), "{}", rig.reasons());
    rig.is_tight(0);
}

/// As many connections as there are, all of them slow, and the relay of another task beside them.
#[tokio::test]
async fn thousands_of_slow_connections_harm_their_own_task_alone() {
    let (rig, other) = (rig().await, rig().await);
    let mut held = Vec::new();
    for _ in 0..2_000 {
        let Ok(mut stream) = TcpStream::connect(&rig.place).await else {
            break;
        };
        // A head that never ends.
        drop(
            stream
                .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nx-slow: ")
                .await,
        );
        held.push(stream);
    }
    assert!(held.len() > 1_000, "{}", held.len());
    let refused = async {
        while rig.relay.record().refusals < held.len() as u64 - 64 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, refused)
        .await
        .expect("they are closed");
    assert_eq!(other.ask(Wire::Chat, true).await.0, 200);
    assert!(
        rig.reasons().contains("64 are open already"),
        "{}",
        rig.reasons()
    );
    // The task's end is the end of all of them.
    rig.relay.close().await;
    let mut byte = [0];
    for mut stream in held {
        let end = tokio::time::timeout(LONG, stream.read(&mut byte));
        assert!(!matches!(end.await.expect("an end"), Ok(1..)));
    }
    rig.is_tight(0);
}

/// All at once, and gone before the count comes: no more is let out than the task may have.
#[tokio::test]
async fn caps_hold_against_haste_and_against_going_away() {
    for caps in [
        Caps {
            requests: 3,
            tokens: 0,
        },
        Caps {
            requests: 0,
            tokens: 300,
        },
    ] {
        let rig = Rig::start(Wire::Chat, Wire::Chat, well(), |plan| plan.caps = caps).await;
        let bytes = text("POST /v1/chat/completions", "", &good());
        let mut all = JoinSet::new();
        for _ in 0..40 {
            let (place, bytes) = (rig.place.clone(), bytes.clone());
            all.spawn(async move {
                let mut stream = TcpStream::connect(place).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer
            });
        }
        let answers = all.join_all().await;
        let answered = answers.iter().filter(|a| a.contains("200 OK")).count();
        assert_eq!(answered, 3, "{caps:?}");
        assert_eq!(rig.mock.requests().len(), 3, "{caps:?}");
        assert_eq!(rig.relay.record().refusals, 37);
    }
    // Whoever never waits for the end of an answer has used it all the same.
    let slow =
        json!({"default": {"text": "word ".repeat(400), "chunk_chars": 5, "chunk_delay_ms": 5}});
    let caps = Caps {
        requests: 4,
        tokens: 0,
    };
    let rig = Rig::start(Wire::Chat, Wire::Chat, slow, |plan| plan.caps = caps).await;
    let stream = good().replacen("\"stream\":false", "\"stream\":true", 1);
    for _ in 0..8 {
        let mut stream_ = TcpStream::connect(&rig.place).await.unwrap();
        let bytes = text("POST /v1/chat/completions", "", &stream);
        stream_.write_all(&bytes).await.unwrap();
        let mut part = [0; 64];
        stream_.read_exact(&mut part).await.unwrap();
    }
    let over = async {
        while !rig.relay.record().refused.contains(&Refusal::Requests(4)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, over).await.expect("a cap");
    assert_eq!(rig.mock.requests().len(), 4);
}

/// Requests that come to nothing cost few tokens or none, but they are not free: some CLIs ask for ever.
#[tokio::test]
async fn requests_that_come_to_nothing_are_bounded() {
    for (fault, is_stream) in [
        (json!({"kind": "status", "status": 400}), false),
        (json!({"kind": "no_terminal"}), true),
        (json!({"kind": "error_event"}), true),
    ] {
        let script = json!({"default": {"text": "well done", "chunk_chars": 3, "fault": fault}});
        let rig = Rig::start(Wire::Chat, Wire::Chat, script, |_| {}).await;
        let mut last = String::new();
        for _ in 0..130 {
            last = rig.ask(Wire::Chat, is_stream).await.1;
        }
        assert!(last.contains("100"), "{fault}: {last}");
        assert_eq!(rig.mock.requests().len(), 100, "{fault}");
        let record = rig.relay.record();
        assert_eq!(record.failures, 100, "{fault}");
        assert!(
            record.refused.contains(&Refusal::Failures(100)),
            "{fault}: {:?}",
            record.refused
        );
    }
}

/// The same where there is nobody to ask.
#[tokio::test]
async fn requests_that_reach_nobody_are_bounded() {
    let script: Value = json!({"default": {"fault": {"kind": "close"}}});
    let rig = Rig::start(Wire::Chat, Wire::Chat, script, |plan| {
        plan.tries.attempts = 1;
    })
    .await;
    for _ in 0..130 {
        rig.ask(Wire::Chat, false).await;
    }
    assert_eq!(rig.mock.requests().len(), 100);
    assert!(rig.relay.record().refused.contains(&Refusal::Failures(100)));
}

#[tokio::test]
async fn an_answer_without_an_end_has_an_end() {
    let script =
        json!({"default": {"text": "word ", "repeat": 14_000_000, "chunk_chars": 1 << 20}});
    let rig = Rig::start(Wire::Chat, Wire::Chat, script, |_| {}).await;
    let (_, text) = rig.ask(Wire::Chat, true).await;
    assert!(text.len() <= 64 << 20, "{}", text.len());
    let trouble = format!("{:?}", rig.relay.record().trouble);
    assert!(trouble.contains("larger than"), "{trouble}");
}
