//! The vendors' own client libraries send what we send, field by field: address, credential,
//! version, body.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use skillopt_backends::conformance::server::{Reply, Seen, Server};
use skillopt_backends::conformance::{KEY, Kit, kits};
use skillopt_backends::{
    ChatRequest, Content, Http, Image, Message, Part, Role, Tool, ToolCall, ToolChoice,
};
use skillopt_core::job::Schema;

/// Where the libraries are, if not where `cargo xtask test` puts them.
const LIBRARIES: &str = "SKILLOPT_PYTHON_CLIENTS";
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SYSTEM: &str = "Answer briefly, \"in words\".";
const TASK: &str = "What is on it?\nAnd in Zürich \u{1f600}?";
const ARGUMENTS: &str = r#"{"city":"Zürich"}"#;

fn libraries() -> PathBuf {
    if let Some(named) = std::env::var_os(LIBRARIES) {
        return named.into();
    }
    // `<target>/<profile>/deps/<this test>`
    let test = std::env::current_exe().expect("a test has a path");
    let target = test.ancestors().nth(3).expect("tests lie in the target");
    target.join("tools/clients")
}

/// Sends `request` through a vendor's library.
#[track_caller]
fn theirs(vendor: &str, address: &str, request: &Value) {
    let folder = libraries();
    assert!(
        folder.is_dir(),
        "the vendors' libraries are not in `{}`; `cargo xtask test` installs them, and \
         `{LIBRARIES}` names another folder",
        folder.display()
    );
    let mut python = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracles/ask.py"))
        .args([vendor, address, KEY])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .spawn()
        .expect("python3 can be started");
    let mut stdin = python.stdin.take().expect("it is piped");
    let text = request.to_string();
    stdin.write_all(text.as_bytes()).expect("it is read");
    drop(stdin);
    let status = python.wait().expect("it ends");
    assert!(status.success(), "{vendor}: {status}");
}

/// A whole conversation: instructions, an image, a call of a tool and its answer, a schema.
fn conversation(model: &str) -> ChatRequest {
    let called = Message {
        tool_calls: vec![ToolCall {
            id: "call_1".to_owned(),
            name: "look_up".to_owned(),
            arguments: ARGUMENTS.to_owned(),
        }],
        ..Message::text(Role::Assistant, "Let me see.")
    };
    let task = Message {
        content: Content::Parts(vec![
            Part::Text(TASK.to_owned()),
            Part::Image(Image {
                url: format!("data:image/png;base64,{IMAGE}"),
                detail: None,
            }),
        ]),
        ..Message::text(Role::User, "")
    };
    let messages = vec![
        Message::text(Role::System, SYSTEM),
        task,
        called,
        Message::tool("call_1", "A city."),
    ];
    let mut request = ChatRequest::new(model, messages, 64, skillopt_backends::conformance::LONG);
    request.temperature = Some(0.5);
    request.tools = vec![Tool::Function {
        name: "look_up".to_owned(),
        description: "Looks a city up.".to_owned(),
        parameters: parameters(),
    }];
    request.tool_choice = Some(ToolChoice::Function("look_up".to_owned()));
    request.schema = Some(Schema {
        name: "place".to_owned(),
        schema: parameters(),
    });
    request
}

fn parameters() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": false})
}

/// Headers that say what is asked, not who asks.
fn meaning(seen: &Seen) -> Vec<(&str, Option<&str>)> {
    [
        "content-type",
        "authorization",
        "x-api-key",
        "anthropic-version",
    ]
    .map(|name| (name, seen.header(name)))
    .to_vec()
}

/// Sends the same twice, once through a vendor's library, and compares what comes.
#[track_caller]
fn check(kit: Kit, vendor: &str, base: &str, request: &ChatRequest, same: &Value) {
    let body = (kit.wire.answer)("Paris");
    let server = Server::start(move |_, _| Reply::json(200, &body));
    let client = kit.client_at(&server.url(), &Http::new());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    // What is answered does not matter here: no call of a tool is an error where one is required.
    let _ = runtime.block_on(client.chat(request));
    theirs(vendor, &format!("{}{base}", server.url()), same);
    let seen = server.seen();
    let [ours, theirs] = seen.as_slice() else {
        panic!("two requests: {seen:?}");
    };
    assert_eq!(
        (&ours.method, &ours.path, meaning(ours)),
        (&theirs.method, &theirs.path, meaning(theirs))
    );
    let (ours, theirs) = (ours.json(), theirs.json());
    let fields = |value: &Value| {
        value.as_object().map(|map| {
            map.keys()
                .cloned()
                .collect::<std::collections::BTreeSet<_>>()
        })
    };
    assert_eq!(fields(&ours), fields(&theirs));
    for (field, value) in ours.as_object().expect("an object") {
        assert_eq!(*value, theirs[field], "{field}");
    }
}

/// What [`conversation`] is in Chat Completions, with the limit of tokens under this name.
fn as_chat_completions(limit: &str) -> Value {
    let mut same = json!({
        "model": "model-1",
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": [
                {"type": "text", "text": TASK},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{IMAGE}")}},
            ]},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [
                {"id": "call_1", "type": "function",
                    "function": {"name": "look_up", "arguments": ARGUMENTS}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "A city."},
        ],
        "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "look_up",
            "description": "Looks a city up.", "parameters": parameters()}}],
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
        "response_format": {"type": "json_schema", "json_schema":
            {"name": "place", "strict": true, "schema": parameters()}},
    });
    same[limit] = 64.into();
    same
}

#[test]
fn chat_completions_are_what_the_library_of_openai_sends() {
    let request = conversation("model-1");
    for (kit, limit) in [
        (kits::OPENAI_COMPATIBLE, "max_tokens"),
        (kits::OPENAI_CHAT, "max_completion_tokens"),
    ] {
        check(kit, "openai", "/v1", &request, &as_chat_completions(limit));
    }
}

/// With tools it is left out, which several models refuse together.
#[test]
fn the_reasoning_effort_is_what_the_library_of_openai_sends() {
    let messages = vec![
        Message::text(Role::System, SYSTEM),
        Message::text(Role::User, TASK),
    ];
    let long = skillopt_backends::conformance::LONG;
    let mut request = ChatRequest::new("model-1", messages, 64, long);
    request.reasoning_effort = Some("low".to_owned());
    let same = json!({
        "model": "model-1",
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": TASK},
        ],
        "max_completion_tokens": 64,
        "reasoning_effort": "low",
    });
    check(kits::OPENAI_CHAT, "openai", "/v1", &request, &same);
}

#[test]
fn responses_are_what_the_library_of_openai_sends() {
    let same = json!({
        "model": "gpt-5-codex",
        "instructions": SYSTEM,
        "input": [
            {"role": "user", "content": [
                {"type": "input_text", "text": TASK},
                {"type": "input_image", "image_url": format!("data:image/png;base64,{IMAGE}")},
            ]},
            {"role": "assistant", "content": "Let me see."},
            {"type": "function_call", "call_id": "call_1", "name": "look_up",
                "arguments": ARGUMENTS},
            {"type": "function_call_output", "call_id": "call_1", "output": "A city."},
        ],
        "max_output_tokens": 64,
        "temperature": 0.5,
        "reasoning": {"effort": "low"},
        "tools": [{"type": "function", "name": "look_up", "description": "Looks a city up.",
            "parameters": parameters()}],
        "tool_choice": {"type": "function", "name": "look_up"},
        "text": {"format": {"type": "json_schema", "name": "place", "strict": true,
            "schema": parameters()}},
    });
    let mut request = conversation("gpt-5-codex");
    request.reasoning_effort = Some("low".to_owned());
    check(
        kits::OPENAI_RESPONSES,
        "openai-responses",
        "/v1",
        &request,
        &same,
    );
}

#[test]
fn messages_are_what_the_library_of_anthropic_sends() {
    let same = json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 64,
        "system": [{"type": "text", "text": SYSTEM}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": TASK},
                {"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": IMAGE}},
            ]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "call_1", "name": "look_up",
                    "input": {"city": "Zürich"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "A city."},
            ]},
        ],
        "temperature": 0.5,
        "tools": [{"name": "look_up", "description": "Looks a city up.",
            "input_schema": parameters()}],
        "tool_choice": {"type": "tool", "name": "look_up"},
        "output_config": {"format": {"type": "json_schema", "schema": parameters()}},
    });
    let kit = Kit {
        model: "claude-sonnet-4-5",
        ..kits::CLAUDE_CHAT
    };
    let request = conversation("claude-sonnet-4-5");
    check(kit, "anthropic", "", &request, &same);
}
