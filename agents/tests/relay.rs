//! A relay between a client and the mock model server, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use skillopt_agents::relay::{
    Answer, Caps, Gate, Open, Permit, Plan, Refusal, Relay, Tokens, Tries, Trouble, WayOut, Wire,
};
use skillopt_sim::mock::{Mock, Script};
use tokio::net::TcpListener;

const KEY: &str = "sk-real-credential";

type Http = Client<HttpConnector, Full<Bytes>>;

struct Out(Http);

#[async_trait]
impl WayOut for Out {
    async fn post(
        &self,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, String> {
        let mut request = Request::post(to.clone()).body(Full::new(body)).unwrap();
        *request.headers_mut() = headers;
        let answer = tokio::time::timeout(limit, self.0.request(request)).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?;
        let answer = answer.map_err(|e| e.to_string())?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }
}

struct Rig {
    mock: Mock,
    relay: Relay,
    url: String,
    http: Http,
}

impl Rig {
    async fn start(
        cli: Wire,
        provider: Wire,
        script: Value,
        change: impl FnOnce(&mut Plan),
    ) -> Self {
        Self::guarded(cli, provider, script, change, Arc::new(Open)).await
    }

    async fn guarded(
        cli: Wire,
        provider: Wire,
        script: Value,
        change: impl FnOnce(&mut Plan),
        gate: Arc<dyn Gate>,
    ) -> Self {
        let mut script = Script::parse(&script.to_string()).unwrap();
        script.key = Some(KEY.to_owned());
        let mock = Mock::new(script);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = mock.clone();
        tokio::spawn(async move { server.serve(listener).await });
        let mut credential = HeaderMap::new();
        let (name, value) = match provider {
            Wire::Messages => ("x-api-key", KEY.to_owned()),
            Wire::Gemini => ("x-goog-api-key", KEY.to_owned()),
            Wire::Chat | Wire::Responses => ("authorization", format!("Bearer {KEY}")),
        };
        credential.insert(name, HeaderValue::from_str(&value).unwrap());
        let mut plan = Plan {
            cli,
            provider,
            address,
            credential,
            model: "m-1".to_owned(),
            marker: "THE SKILL".to_owned(),
            caps: Caps::default(),
            tries: Tries {
                base: Duration::from_millis(1),
                ..Tries::default()
            },
        };
        change(&mut plan);
        let http = Client::builder(TokioExecutor::new()).build_http();
        let relay = Relay::new(plan, Arc::new(Out(http.clone())), gate);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = relay.clone();
        tokio::spawn(async move { server.serve(listener).await });
        Self {
            mock,
            relay,
            url,
            http,
        }
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, String) {
        let request = Request::post(format!("{}{path}", self.url))
            .header("authorization", "Bearer dummy")
            .header("x-api-key", "dummy")
            .header("x-secret", "of the sandbox")
            .header("anthropic-version", "2023-06-01")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        // An answer may break off before its head was sent.
        let Ok(answer) = self.http.request(request).await else {
            return (StatusCode::IM_A_TEAPOT, String::new());
        };
        let (parts, mut body) = answer.into_parts();
        let mut text = Vec::new();
        // An answer that breaks off ends here.
        while let Some(Ok(frame)) = body.frame().await {
            text.extend_from_slice(frame.data_ref().unwrap());
        }
        (parts.status, String::from_utf8(text).unwrap())
    }

    /// Asks the model once, as the CLI would.
    async fn ask(&self, cli: Wire, is_stream: bool) -> (StatusCode, String) {
        let (path, body) = ask(cli, is_stream);
        self.post(path, &body).await
    }
}

fn ask(cli: Wire, is_stream: bool) -> (&'static str, Value) {
    match cli {
        Wire::Responses => (
            "/v1/responses",
            json!({"model": "m-1", "stream": is_stream, "instructions": "THE SKILL", "input": "do it"}),
        ),
        Wire::Chat => (
            "/v1/chat/completions",
            json!({"model": "m-1", "stream": is_stream, "messages": [
                {"role": "system", "content": "THE SKILL"}, {"role": "user", "content": "do it"},
            ]}),
        ),
        Wire::Messages => (
            "/v1/messages?beta=true",
            json!({"model": "m-1", "stream": is_stream, "max_tokens": 9,
                "system": [{"type": "text", "text": "THE SKILL"}],
                "messages": [{"role": "user", "content": "do it"}]}),
        ),
        Wire::Gemini => (
            if is_stream {
                "/v1beta/models/m-1:streamGenerateContent?alt=sse"
            } else {
                "/v1beta/models/m-1:generateContent"
            },
            json!({"systemInstruction": {"parts": [{"text": "THE SKILL"}]},
                "contents": [{"role": "user", "parts": [{"text": "do it"}]}]}),
        ),
    }
}

/// What each CLI may meet: its own interface, and Chat Completions behind Responses.
const PAIRS: [(Wire, Wire); 5] = [
    (Wire::Responses, Wire::Responses),
    (Wire::Responses, Wire::Chat),
    (Wire::Chat, Wire::Chat),
    (Wire::Messages, Wire::Messages),
    (Wire::Gemini, Wire::Gemini),
];

fn well() -> Value {
    json!({"default": {
        "text": "well done", "chunk_chars": 3,
        "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}],
        "usage": {"input": 100, "cached": 30, "output": 20},
    }})
}

#[tokio::test]
async fn an_answer_is_handed_on_and_recorded() {
    for (cli, provider) in PAIRS {
        for is_stream in [true, false] {
            let rig = Rig::start(cli, provider, well(), |_| {}).await;
            let (status, text) = rig.ask(cli, is_stream).await;
            let what = format!("{cli:?} to {provider:?}, stream {is_stream}: {text}");
            assert_eq!(status, 200, "{what}");
            assert!(text.contains("bash"), "{what}");
            let record = rig.relay.record();
            let exchange = &record.exchanges[0];
            assert_eq!(exchange.said.text, "well done", "{what}");
            let (name, arguments) = &exchange.said.calls[0];
            assert_eq!(
                (name.as_str(), arguments.as_str()),
                ("bash", "{\"command\":\"ls\"}")
            );
            let tokens = Tokens {
                input: 100,
                cached: 30,
                output: 20,
                reasoning: 0,
            };
            assert_eq!(record.tokens, tokens, "{what}");
            assert!(
                exchange.sent("THE SKILL") && !exchange.sent("another"),
                "{what}"
            );
            assert_eq!(record.trouble, None, "{what}");
        }
    }
}

#[tokio::test]
async fn the_credential_is_added_and_what_the_sandbox_sent_is_not_passed_on() {
    for (cli, provider) in PAIRS {
        let rig = Rig::start(cli, provider, well(), |_| {}).await;
        let (status, _) = rig.ask(cli, true).await;
        assert_eq!(status, 200, "the mock server takes no other key");
        let seen = &rig.mock.requests()[0];
        assert!(!seen.headers.contains_key("x-secret"), "{:?}", seen.headers);
        assert!(!format!("{seen:?}").contains("dummy"), "{seen:?}");
        let has_version = seen.headers.contains_key("anthropic-version");
        assert!(has_version, "{:?}", seen.headers);
    }
}

#[tokio::test]
async fn nothing_but_the_model_can_be_reached() {
    let rig = Rig::start(Wire::Chat, Wire::Chat, well(), |_| {}).await;
    let (_, good) = ask(Wire::Chat, false);
    let mut other = good.clone();
    other["model"] = "expensive".into();
    for (path, body, want) in [
        ("/v1/files", &good, 404),
        ("/v1/messages", &good, 404),
        ("/__mock/requests", &good, 404),
        ("/v1/chat/completions", &other, 400),
        ("/v1/chat/completions", &Value::Null, 400),
    ] {
        let (status, text) = rig.post(path, body).await;
        assert_eq!(status.as_u16(), want, "{path}: {text}");
    }
    assert!(rig.mock.requests().is_empty(), "nothing left");
    assert_eq!(rig.relay.record().refused.len(), 5);
}

#[tokio::test]
async fn a_task_has_so_many_requests_and_tokens() {
    for (caps, want) in [
        (
            Caps {
                requests: 2,
                tokens: 0,
            },
            Refusal::Requests(2),
        ),
        (
            Caps {
                requests: 0,
                tokens: 200,
            },
            Refusal::Tokens(200),
        ),
    ] {
        let rig = Rig::start(Wire::Messages, Wire::Messages, well(), |plan| {
            plan.caps = caps;
        })
        .await;
        for expected in [200, 200, 403] {
            let (status, text) = rig.ask(Wire::Messages, true).await;
            assert_eq!(status.as_u16(), expected, "{text}");
        }
        let record = rig.relay.record();
        assert_eq!(record.refused, [want]);
        assert_eq!(record.trouble, None, "a cap is the task's own end");
        assert_eq!(rig.mock.requests().len(), 2);
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_the_rest_is_told() {
    let fault = |kind: &str, status: u16, times: Option<u64>| json!({"default": {"text": "well", "fault": {"kind": kind, "status": status, "times": times}}});
    for (script, tries, want) in [
        (fault("status", 429, Some(1)), 2, None),
        (fault("status", 503, Some(2)), 3, None),
        (fault("close", 0, Some(1)), 2, None),
        (fault("status", 500, None), 3, Some(500)),
        (fault("status", 401, None), 1, Some(401)),
        (fault("status", 400, None), 1, Some(400)),
        (fault("close", 0, None), 3, Some(0)),
    ] {
        let words = script.to_string();
        let rig = Rig::start(Wire::Responses, Wire::Chat, script, |_| {}).await;
        let (status, text) = rig.ask(Wire::Responses, true).await;
        assert_eq!(rig.mock.requests().len(), tries, "{words}");
        let trouble = rig.relay.record().trouble;
        let seen = trouble.as_ref().map(|trouble| match trouble {
            Trouble::Provider { status, .. } => *status,
            Trouble::Gate(why) => panic!("{why}"),
        });
        assert_eq!(seen, want, "{words}");
        assert_eq!(status == 200, want.is_none(), "{words}: {text}");
        assert!(!format!("{trouble:?}{text}").contains(KEY));
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_ends_the_task_instead() {
    let script = json!({"default": {
        "fault": {"kind": "status", "status": 429}, "headers": {"retry-after": "3600"},
    }});
    let rig = Rig::start(Wire::Chat, Wire::Chat, script, |_| {}).await;
    let (status, _) = rig.ask(Wire::Chat, false).await;
    assert_eq!(status, 429);
    assert_eq!(rig.mock.requests().len(), 1);
    let trouble = rig.relay.record().trouble.unwrap();
    assert!(
        matches!(
            trouble,
            Trouble::Provider {
                status: 429,
                retry_after_ms: Some(3_600_000),
                ..
            }
        ),
        "{trouble:?}"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for (cli, provider) in PAIRS {
        for kind in ["drop", "no_terminal", "error_event", "hang_mid"] {
            let script = json!({"default": {
                "text": "well done", "chunk_chars": 3, "fault": {"kind": kind},
            }});
            let rig = Rig::start(cli, provider, script, |plan| {
                plan.tries.silence = Duration::from_millis(300);
            })
            .await;
            let (_, text) = rig.ask(cli, true).await;
            let record = rig.relay.record();
            let what = format!("{kind}: {cli:?} to {provider:?}: {text}");
            assert!(record.trouble.is_some(), "{what}");
            assert!(!text.contains("response.completed"), "{what}");
        }
    }
}

/// Lets so many requests out and adds up what they came to.
#[derive(Clone, Default)]
struct Counted {
    left: Arc<AtomicU64>,
    settled: Arc<AtomicU64>,
}

#[async_trait]
impl Gate for Counted {
    async fn enter(&self, _: u64) -> Result<Box<dyn Permit>, String> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err("the budget is used up".to_owned());
        }
        Ok(Box::new(self.clone()))
    }
}

impl Permit for Counted {
    fn settle(self: Box<Self>, tokens: Tokens) {
        self.settled.fetch_add(tokens.total(), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn the_gate_is_asked_before_and_told_after() {
    let gate = Counted::default();
    gate.left.store(1, Ordering::SeqCst);
    let own = Arc::new(gate.clone());
    let rig = Rig::guarded(Wire::Messages, Wire::Messages, well(), |_| {}, own).await;
    assert_eq!(rig.ask(Wire::Messages, true).await.0, 200);
    assert_eq!(gate.settled.load(Ordering::SeqCst), 120);
    let (status, text) = rig.ask(Wire::Messages, true).await;
    assert_eq!(status, 503);
    assert!(text.contains("the budget is used up"), "{text}");
    let trouble = rig.relay.record().trouble;
    assert_eq!(
        trouble,
        Some(Trouble::Gate("the budget is used up".to_owned()))
    );
    assert_eq!(rig.mock.requests().len(), 1);
}
