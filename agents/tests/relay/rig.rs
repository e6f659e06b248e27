//! A relay, a mock model server behind it, and a client before it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use skillopt_agents::relay::{Answer, Caps, Gate, Open, Plan, Relay, Tries, WayOut, Wire};
use skillopt_sim::mock::{Mock, Script};
use tokio::net::TcpListener;

pub(crate) const KEY: &str = "sk-real-credential";
/// What the sandbox has in its place.
pub(crate) const DUMMY: &str = "sk-dummy-of-this-task";

pub(crate) type Http = Client<HttpConnector, Full<Bytes>>;

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

pub(crate) struct Rig {
    pub(crate) mock: Mock,
    pub(crate) relay: Relay,
    /// Host and port of the relay.
    pub(crate) place: String,
    http: Http,
}

impl Rig {
    pub(crate) async fn start(
        cli: Wire,
        provider: Wire,
        script: Value,
        change: impl FnOnce(&mut Plan),
    ) -> Self {
        Self::guarded(cli, provider, script, change, Arc::new(Open)).await
    }

    pub(crate) async fn guarded(
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
        let relay = Relay::new(plan, Some(DUMMY), Arc::new(Out(http.clone())), gate);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let server = relay.clone();
        tokio::spawn(async move { server.serve(listener).await });
        Self {
            mock,
            relay,
            place,
            http,
        }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, String) {
        let request = Request::post(format!("http://{}{path}", self.place))
            .header("authorization", format!("Bearer {DUMMY}"))
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
    pub(crate) async fn ask(&self, cli: Wire, is_stream: bool) -> (StatusCode, String) {
        let (path, body) = ask(cli, is_stream);
        self.post(path, &body).await
    }
}

pub(crate) fn ask(cli: Wire, is_stream: bool) -> (&'static str, Value) {
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
pub(crate) const PAIRS: [(Wire, Wire); 5] = [
    (Wire::Responses, Wire::Responses),
    (Wire::Responses, Wire::Chat),
    (Wire::Chat, Wire::Chat),
    (Wire::Messages, Wire::Messages),
    (Wire::Gemini, Wire::Gemini),
];

pub(crate) fn well() -> Value {
    json!({"default": {
        "text": "well done", "chunk_chars": 3,
        "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}],
        "usage": {"input": 100, "cached": 30, "output": 20},
    }})
}
