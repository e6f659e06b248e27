//! The interfaces of Anthropic and Google against a scripted server, whole and in pieces, and the real
//! opencode in front of one: what was asked is answered, and what goes wrong has its class.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use skillopt_backends::declare::{Local, Options};
use skillopt_backends::{
    ChatModel, ChatRequest, Http, Message, Outcome, Role, Tool, ToolChoice, registry,
};
use skillopt_core::job::Profile;
use skillopt_core::secret::Secret;
use skillopt_sim::mock::{Mock, Script};
use skillopt_tests::support::clis;
use tokio::net::TcpListener;

const KEY: &str = "canary-vendor-key";

/// A backend, and the switch that makes its answers come in pieces.
const BACKENDS: &[(&str, &str, &str)] = &[
    ("claude_chat", "claude", "claude-sonnet-4-5"),
    ("gemini_chat", "gemini", "gemini-3.5-flash"),
];

struct Scene {
    mock: Mock,
    client: Arc<dyn ChatModel>,
    model: &'static str,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Scene {
    async fn new(backend: (&str, &str, &'static str), streams: bool, reply: &Value) -> Self {
        let script = json!({"key": KEY, "default": reply}).to_string();
        let mock = Mock::new(Script::parse(&script).expect("a script"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = mock.clone();
        let server = tokio::spawn(async move { serving.serve(listener).await });
        let (name, prefix, model) = backend;
        let get = |key: &str| match key.strip_prefix(prefix)? {
            "_base_url" => Some(format!("http://{address}").into()),
            "_stream" => Some(streams.to_string().into()),
            _ => None,
        };
        let options = Options(&get);
        let mut profile = Profile {
            role: "target".to_owned(),
            backend: name.to_owned(),
            model: model.to_owned(),
            endpoint: String::new(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: Map::new(),
        };
        let declared = registry::find(name).expect("a backend");
        (declared.describe)(options, &mut profile);
        let local = Local {
            options,
            secret: &|_| Some(Secret::new(KEY)),
            env: &|name| (name == "PATH").then(clis::path),
            http: &Http::new(),
        };
        let client = registry::connect(&profile, &local).expect("a client");
        Self {
            mock,
            client,
            model,
            server,
        }
    }

    fn request(&self) -> ChatRequest {
        let messages = vec![
            Message::text(Role::System, "S"),
            Message::text(Role::User, "U"),
        ];
        ChatRequest::new(self.model, messages, 2_048, Duration::from_secs(20))
    }
}

/// Says something to every backend, whole and in pieces.
#[track_caller]
fn check(reply: &Value, expected: &str) {
    for backend in BACKENDS {
        for streams in [false, true] {
            one(*backend, streams, reply, expected);
        }
    }
}

#[track_caller]
fn one(backend: (&str, &str, &'static str), streams: bool, reply: &Value, expected: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let scene = Scene::new(backend, streams, reply).await;
        let seen = scene.client.chat(&scene.request()).await;
        let word = Outcome::of(&seen).as_str();
        assert_eq!(word, expected, "{backend:?}, streams: {streams}: {seen:?}");
        assert!(!format!("{seen:?}").contains(KEY), "{seen:?}");
        assert_eq!(scene.mock.requests().len(), 1, "one exchange, no retry");
    });
}

#[test]
fn answers_have_their_outcome() {
    check(&json!({"text": "pong"}), "answer");
    check(&json!({"text": "po", "finish": "length"}), "truncated");
    check(&json!({"text": ""}), "empty");
    let tool = json!({"name": "f", "arguments": {"a": 1}});
    check(&json!({"tool_calls": [tool]}), "tool_calls");
    for streams in [false, true] {
        let refusal = json!({"text": "no", "finish": "refusal"});
        one(BACKENDS[0], streams, &refusal, "refused");
        let filtered = json!({"text": "", "finish": "content_filter"});
        one(BACKENDS[1], streams, &filtered, "filtered");
    }
}

#[test]
fn failures_have_their_class() {
    let status = |status: u16| json!({"fault": {"kind": "status", "status": status}});
    check(&status(401), "unauthorized");
    check(&status(403), "unauthorized");
    check(&status(404), "misconfigured");
    check(&status(400), "misconfigured");
    check(&status(429), "throttled");
    check(&status(500), "server_error");
    check(&status(529), "server_error");
    check(&json!({"fault": {"kind": "close"}}), "connection");
    check(&json!({"fault": {"kind": "html"}}), "malformed");
    check(&json!({"fault": {"kind": "empty"}}), "malformed");
    let echo = json!({"fault": {"kind": "status", "status": 400, "message": KEY}});
    check(&echo, "misconfigured");
}

#[test]
fn a_stream_that_breaks_off_is_no_answer() {
    for backend in BACKENDS {
        let fault = |kind: &str| json!({"kind": kind});
        let broken = |kind: &str| json!({"text": "pong", "chunk_chars": 1, "fault": fault(kind)});
        one(*backend, true, &broken("drop"), "connection");
        one(*backend, true, &broken("no_terminal"), "malformed");
        one(*backend, true, &broken("malformed"), "malformed");
        one(*backend, true, &broken("error_event"), "server_error");
    }
}

#[tokio::test]
async fn tokens_are_counted_alike() {
    let usage = json!({"input": 100, "output": 30, "cached": 40, "reasoning": 10});
    let reply = json!({"text": "pong", "usage": usage});
    for backend in BACKENDS {
        for streams in [false, true] {
            let scene = Scene::new(*backend, streams, &reply).await;
            let used = scene.client.chat(&scene.request()).await.unwrap().usage;
            let seen = (used.calls, used.prompt_tokens, used.cached_tokens);
            assert_eq!(seen, (1, 100, 40), "{backend:?}: {used:?}");
            assert_eq!(used.completion_tokens, 30, "{backend:?}: {used:?}");
        }
    }
}

#[tokio::test]
async fn a_tool_is_called_and_its_answer_goes_back() {
    let tool = json!({"name": "f", "arguments": {"a": 1}});
    let reply = json!({"tool_calls": [tool]});
    for backend in BACKENDS {
        let scene = Scene::new(*backend, false, &reply).await;
        let mut request = scene.request();
        request.tools = vec![Tool::Function {
            name: "f".to_owned(),
            description: "does".to_owned(),
            parameters: json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        }];
        request.tool_choice = Some(ToolChoice::Required);
        let asked = scene.client.chat(&request).await.unwrap();
        assert_eq!(asked.tool_calls[0].name, "f");
        let arguments: Value = serde_json::from_str(&asked.tool_calls[0].arguments).unwrap();
        assert_eq!(arguments, json!({"a": 1}));
        let mut said = Message::text(Role::Assistant, asked.text);
        said.tool_calls.clone_from(&asked.tool_calls);
        request.messages.push(said);
        let id = asked.tool_calls[0].id.clone();
        request.messages.push(Message::tool(id, "the tool's words"));
        scene.client.chat(&request).await.unwrap();
        let requests = scene.mock.requests();
        let last = requests.last().unwrap();
        assert_eq!(last.turn, 1, "{backend:?}: {}", last.body);
        assert!(last.body.to_string().contains("the tool's words"));
    }
}

const OPENCODE: (&str, &str, &str) = ("opencode_chat", "opencode_chat", "model-1");

#[tokio::test]
async fn opencode_asks_a_server_without_tools_and_its_answer_is_counted() {
    let usage = json!({"input": 100, "output": 30, "cached": 40, "reasoning": 10});
    let reply = json!({"text": "pong", "usage": usage});
    let scene = Scene::new(OPENCODE, false, &reply).await;
    let mut request = scene.request();
    request.timeout = Duration::from_secs(120);
    let seen = scene.client.chat(&request).await.expect("an answer");
    assert_eq!(seen.text, "pong");
    assert_eq!(seen.usage.prompt_tokens, 100);
    assert_eq!(seen.usage.completion_tokens, 30);
    let requests = scene.mock.requests();
    assert_eq!(requests.len(), 1, "it asks for no title");
    let body = &requests[0].body;
    assert_eq!(body["model"], "model-1");
    assert_eq!(body["max_tokens"], 2_048);
    assert!(body["tools"].is_null(), "{body}");
    let said = |role: &str| {
        let messages = body["messages"].as_array().into_iter().flatten();
        let mut of_role = messages.filter(|message| message["role"] == role);
        of_role.next().map(|message| message["content"].clone())
    };
    let system = said("system").unwrap_or_default();
    assert!(
        system.as_str().is_some_and(|text| text.starts_with("S\n")),
        "{body}"
    );
    assert_eq!(said("user"), Some("U".into()), "{body}");
}

#[tokio::test]
async fn what_the_server_refuses_opencode_has_its_class() {
    let refusal = json!({"fault": {"kind": "status", "status": 401, "message": KEY}});
    let scene = Scene::new(OPENCODE, false, &refusal).await;
    let mut request = scene.request();
    request.timeout = Duration::from_secs(120);
    let seen = scene.client.chat(&request).await;
    assert_eq!(Outcome::of(&seen), Outcome::Unauthorized, "{seen:?}");
    assert!(!format!("{seen:?}").contains(KEY), "{seen:?}");
}
