//! The server as its clients see it.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::server::{DEFAULT_LISTEN, bind};

struct Served {
    mock: Mock,
    address: std::net::SocketAddr,
}

async fn served(script: Value) -> Served {
    let mock = Mock::new(Script::parse(&script.to_string()).expect("a script"));
    let listener = bind(DEFAULT_LISTEN).await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let server = mock.clone();
    tokio::spawn(async move { server.serve(listener).await });
    Served { mock, address }
}

impl Served {
    /// Sends a request; returns everything that came until the connection ended.
    async fn ask(&self, path: &str, headers: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        let body = body.to_string();
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n{headers}content-length: \
             {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        // A fault may reset the connection: what came before it counts.
        drop(stream.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn json(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask(path, "", body).await;
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"))
    }
}

/// The same conversation in every interface: a system text, a question, a tool round, its result.
fn asks() -> [(&'static str, Value); 4] {
    [
        (
            "/v1/responses",
            json!({
                "model": "m-1", "instructions": "SYS",
                "tools": [{"type": "function", "name": "bash"}],
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "ASK"}]},
                    {"type": "reasoning", "summary": []},
                    {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
                    {"type": "function_call", "call_id": "d", "name": "bash", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": "OUT"},
                ],
            }),
        ),
        (
            "/any/prefix/messages?beta=true",
            json!({
                "model": "m-1", "system": [{"type": "text", "text": "SYS"}],
                "tools": [{"name": "bash", "input_schema": {}}],
                "messages": [
                    {"role": "user", "content": "ASK"},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "bash", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "OUT"}]},
                ],
            }),
        ),
        (
            "/openai/deployments/d/chat/completions",
            json!({
                "model": "m-1",
                "tools": [{"type": "function", "function": {"name": "bash"}}],
                "messages": [
                    {"role": "system", "content": "SYS"},
                    {"role": "user", "content": [{"type": "text", "text": "ASK"}]},
                    {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "bash", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "c", "content": "OUT"},
                ],
            }),
        ),
        (
            "/v1beta/models/m-1:generateContent",
            json!({
                "systemInstruction": {"parts": [{"text": "SYS"}]},
                "tools": [{"functionDeclarations": [{"name": "bash"}]}],
                "contents": [
                    {"role": "user", "parts": [{"text": "ASK"}]},
                    {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"o": "OUT"}}}]},
                ],
            }),
        ),
    ]
}

#[tokio::test]
async fn one_rule_fits_the_same_conversation_in_every_interface() {
    let when = json!({
        "model": "m-1", "system": "SYS", "last_user": "ASK", "text": "OUT", "without": "other",
        "tool": "bash", "tools": true, "turn": 1,
    });
    let reply = json!({"text": "{model} {turn} {last_user}", "usage": {"input": 9, "output": 4, "cached": 2}});
    let served =
        served(json!({"rules": [{"when": when, "reply": reply}], "default": {"text": "none"}}))
            .await;
    for (path, body) in asks() {
        let answer = served.json(path, &body).await.to_string();
        assert!(answer.contains("m-1 1 ASK"), "{path}: {answer}");
    }
    for entry in served.mock.requests() {
        assert_eq!(
            (entry.rule, entry.turn, entry.tokens),
            (0, 1, (9, 4)),
            "{}",
            entry.path
        );
    }
}

#[tokio::test]
async fn a_stream_says_what_the_whole_says() {
    let call = json!({"name": "bash", "arguments": {"command": "ls"}, "id": "call_x"});
    let served = served(json!({"default": {
        "text": "well done", "reasoning": "because", "tool_calls": [call], "chunk_chars": 3,
    }}))
    .await;
    for (path, mut body) in asks() {
        let path = path.replace(":generateContent", ":streamGenerateContent?alt=sse");
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        let answer = served.ask(&path, "", &body).await;
        assert!(answer.contains("text/event-stream"), "{answer}");
        for part in ["wel", "one", "because", "call_x", "bash"] {
            assert!(answer.contains(part), "{path} lacks {part}: {answer}");
        }
    }
}

#[tokio::test]
async fn faults_strike_as_often_as_they_should() {
    let fault = json!({"kind": "status", "status": 429, "times": 2});
    let served = served(json!({"default": {
        "text": "at last", "fault": fault, "headers": {"retry-after": "7"},
    }}))
    .await;
    for (path, body) in asks() {
        let answer = served.ask(path, "", &body).await;
        let first = served.mock.requests().len() <= 2;
        assert_eq!(
            answer.starts_with("HTTP/1.1 429"),
            first,
            "{path}: {answer}"
        );
        assert!(answer.contains("retry-after: 7"), "{answer}");
    }
}

#[tokio::test]
async fn a_stream_breaks_in_each_way() {
    for (kind, has, lacks) in [
        ("drop", "chunk", "[DONE]"),
        ("malformed", "{\"choi\n", "[DONE]"),
        ("no_terminal", "wel", "finish_reason\":\"stop"),
        ("error_event", "mock failure", "[DONE]"),
    ] {
        let served = served(json!({"default": {
            "text": "well done", "chunk_chars": 3, "fault": {"kind": kind},
        }}))
        .await;
        let (path, mut body) = asks()[2].clone();
        body["stream"] = true.into();
        let answer = served.ask(path, "", &body).await;
        assert!(answer.contains(has), "{kind}: {answer}");
        assert!(!answer.contains(lacks), "{kind}: {answer}");
    }
    for kind in ["close", "empty", "html"] {
        let served = served(json!({"default": {"fault": {"kind": kind}}})).await;
        let (path, body) = &asks()[0];
        let answer = served.ask(path, "", body).await;
        assert!(!answer.contains("output_text"), "{kind}: {answer}");
        assert_eq!(answer.is_empty(), kind == "close", "{kind}: {answer}");
    }
}

#[tokio::test]
async fn a_key_is_asked_for_and_never_logged() {
    let served = served(json!({"key": "sk-mock", "default": {"text": "in"}})).await;
    let (path, body) = &asks()[1];
    assert!(served.ask(path, "", body).await.starts_with("HTTP/1.1 401"));
    for header in ["x-api-key: sk-mock", "authorization: Bearer sk-mock"] {
        let answer = served.ask(path, &format!("{header}\r\n"), body).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let log = format!("{:?}", served.mock.requests());
    assert!(!log.contains("sk-mock"), "{log}");
    assert!(log.contains("sha256:"), "{log}");
}

#[tokio::test]
async fn a_sequence_goes_on_and_the_script_can_be_changed() {
    let served = served(json!({"rules": [{"sequence": [{"text": "one"}, {"text": "two"}]}]})).await;
    let (path, body) = &asks()[2];
    for want in ["one", "two", "two"] {
        assert!(served.ask(path, "", body).await.contains(want));
    }
    let new = json!({"default": {"text": "three"}});
    assert!(served.ask("/__mock/script", "", &new).await.contains("200"));
    assert!(served.ask(path, "", body).await.contains("three"));
    let wrong = json!({"defualt": {}});
    assert!(
        served
            .ask("/__mock/script", "", &wrong)
            .await
            .contains("defualt")
    );
    let stats = served.json("/__mock/stats", &Value::Null).await;
    assert_eq!(stats["by_api"]["chat"], 4);
    assert_eq!(stats["max_in_flight"], 1);
}
