//! Makes the calls of a case, with the retries that a worker makes.

use std::time::Duration;

use serde_json::{Value, json};
use skillopt_backends::policy::next_wait;
use skillopt_backends::{
    CallError, ChatModel, ChatReply, ChatRequest, Content, Image, Message, Part, Role as Speaker,
    Tool, ToolCall, ToolChoice,
};
use skillopt_core::job::{Profile, Usage};
use skillopt_core::role::Role;
use skillopt_runtime::Retry;

use super::setup::Setup;
use super::tempo;

/// What a caller asks for where it says nothing (backends spec 2.1).
const MAX_TOKENS: u64 = 16_384;
const RETRIES: u64 = 5;
/// Spreads the waits; any number will do.
const UNIT: f64 = 0.4;

/// What came of a call.
pub(super) struct Called {
    pub(super) stage: String,
    /// `None` if the budget allowed no try at all.
    pub(super) outcome: Option<Result<ChatReply, CallError>>,
    pub(super) tries: u32,
    /// What each try used, as far as the other side says.
    pub(super) billed: Vec<Usage>,
    pub(super) waits: Vec<Wait>,
    /// The limit of one exchange.
    pub(super) timeout: Duration,
}

/// A wait that would have been made.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) lasted: Duration,
    /// What the server had asked for.
    pub(super) hint: Option<Duration>,
}

impl Called {
    /// Returns what was billed, if anything was answered.
    pub(super) fn usage(&self) -> Option<Usage> {
        match self.outcome.as_ref()? {
            Ok(reply) => Some(reply.usage),
            Err(error) => error.usage(),
        }
    }
}

/// What came of all calls of a case.
pub(super) struct Seen {
    pub(super) calls: Vec<Called>,
    pub(super) target: Profile,
    pub(super) region: String,
    pub(super) warnings: usize,
}

/// Makes all calls of a case, one after the other.
pub(super) fn make(setup: &Setup, case: &Value) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut calls = Vec::new();
    let mut clients = Clients::default();
    for call in &calls_of(case) {
        calls.push(runtime.block_on(one(setup, &mut clients, case, call)));
    }
    let region = setup.config.backends.get(Role::Target, "minimax_region");
    Seen {
        calls,
        target: setup.profile(Role::Target),
        region: region
            .and_then(Value::as_str)
            .unwrap_or("global_en")
            .to_owned(),
        warnings: setup.warnings,
    }
}

/// The clients by role: a worker keeps them too.
#[derive(Default)]
struct Clients([Option<std::sync::Arc<dyn ChatModel>>; 2]);

impl Clients {
    fn of(
        &mut self,
        setup: &Setup,
        profile: &Profile,
        role: Role,
    ) -> Result<std::sync::Arc<dyn ChatModel>, CallError> {
        let slot = &mut self.0[usize::from(role == Role::Target)];
        if let Some(client) = slot {
            return Ok(std::sync::Arc::clone(client));
        }
        let client = setup.connect(profile, role)?;
        *slot = Some(std::sync::Arc::clone(&client));
        Ok(client)
    }
}

/// The calls of a case. A benchmark's case names none: its prompts are the benchmark's own, so
/// that its messages and tools are taken from the request that is expected.
fn calls_of(case: &Value) -> Vec<Value> {
    let input = &case["input"];
    if let Some(calls) = input["calls"].as_array() {
        return calls.clone();
    }
    if input["call"].is_object() {
        return vec![input["call"].clone()];
    }
    if input["benchmark"].is_string() {
        let expected = &case["expected_request"];
        let requests = match expected["requests"].as_array() {
            Some(requests) => requests.clone(),
            None => vec![expected["request"].clone()],
        };
        return requests.iter().map(benchmark_call).collect();
    }
    Vec::new()
}

fn benchmark_call(request: &Value) -> Value {
    let body = &request["body"];
    let mut call = json!({
        "op": "chat_messages", "role": "target", "stage": "rollout",
        "messages": body["messages"], "timeout": request["read_timeout_s"],
    });
    for name in ["tools", "tool_choice"] {
        if let Some(value) = body.get(name) {
            call[name] = value.clone();
        }
    }
    call
}

async fn one(setup: &Setup, clients: &mut Clients, case: &Value, call: &Value) -> Called {
    // A call for a named deployment is the optimizer's (backends spec 2.1).
    let is_custom = call["op"] == "chat_with_deployment";
    let role = match call["role"].as_str() {
        Some("target") => Role::Target,
        _ => Role::Optimizer,
    };
    let profile = setup.profile(role);
    let timeout = match call["timeout"].as_f64() {
        Some(seconds) if seconds > 0.0 => Duration::from_secs_f64(seconds),
        _ => setup.timeout(role),
    };
    let default_stage = if is_custom { "custom" } else { role.as_str() };
    let stage = call["stage"].as_str().unwrap_or(default_stage).to_owned();
    let mut called = Called {
        stage,
        outcome: None,
        tries: 0,
        billed: Vec::new(),
        waits: Vec::new(),
        timeout,
    };
    let client = match clients.of(setup, &profile, role) {
        Ok(client) => client,
        Err(refused) => {
            called.outcome = Some(Err(refused));
            return called;
        }
    };
    let pace = tempo::pace(case);
    let request = request(call, &profile, timeout.mul_f64(pace), &called.stage);
    let retry = Retry {
        attempts: tempo::budget(case, call["retries"].as_u64().unwrap_or(RETRIES)),
        base: Duration::from_secs(1),
        cap: Duration::from_secs(30),
    };
    while called.tries < retry.attempts {
        let answer = client.chat(&request).await;
        called.tries += 1;
        called.billed.extend(match &answer {
            Ok(reply) => Some(reply.usage),
            Err(error) => error.usage(),
        });
        let wait = answer.as_ref().err().and_then(|error| {
            let disposition = error.disposition();
            let lasted = next_wait(disposition, &retry, called.tries, UNIT)?;
            let hint = match disposition {
                skillopt_backends::Disposition::Retry(hint) => hint,
                _ => None,
            };
            Some(Wait { lasted, hint })
        });
        called.outcome = Some(answer);
        match wait {
            Some(wait) => called.waits.push(wait),
            None => break,
        }
    }
    called
}

fn request(call: &Value, profile: &Profile, timeout: Duration, stage: &str) -> ChatRequest {
    let messages = match call["messages"].as_array() {
        Some(messages) => messages.iter().map(message).collect(),
        None => vec![
            Message::text(Speaker::System, call["system"].as_str().unwrap_or_default()),
            Message::text(Speaker::User, call["user"].as_str().unwrap_or_default()),
        ],
    };
    let max_tokens = call["max_completion_tokens"].as_u64();
    let max_tokens = u32::try_from(max_tokens.unwrap_or(MAX_TOKENS)).unwrap_or(u32::MAX);
    let model = call["deployment"].as_str().unwrap_or(&profile.model);
    let of_call = call["reasoning_effort"].as_str().filter(|e| !e.is_empty());
    let of_profile = Some(profile.reasoning_effort.as_str()).filter(|e| !e.is_empty());
    ChatRequest {
        tools: call["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .map(tool)
            .collect(),
        tool_choice: tool_choice(&call["tool_choice"]),
        reasoning_effort: of_call.or(of_profile).map(str::to_owned),
        stage: stage.to_owned(),
        ..ChatRequest::new(model, messages, max_tokens, timeout)
    }
}

fn message(value: &Value) -> Message {
    let role = match value["role"].as_str() {
        Some("system") => Speaker::System,
        Some("developer") => Speaker::Developer,
        Some("assistant") => Speaker::Assistant,
        Some("tool") => Speaker::Tool,
        _ => Speaker::User,
    };
    let content = match &value["content"] {
        Value::Array(parts) => Content::Parts(parts.iter().map(part).collect()),
        other => Content::from(other.as_str().unwrap_or_default()),
    };
    let calls = value["tool_calls"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Message {
        role,
        content,
        tool_calls: calls
            .map(|call| ToolCall {
                id: text(&call["id"]),
                name: text(&call["function"]["name"]),
                arguments: text(&call["function"]["arguments"]),
            })
            .collect(),
        tool_call_id: value["tool_call_id"].as_str().map(str::to_owned),
    }
}

fn part(value: &Value) -> Part {
    let image = &value["image_url"];
    match image["url"].as_str() {
        Some(url) => Part::Image(Image {
            url: url.to_owned(),
            detail: image["detail"].as_str().map(str::to_owned),
        }),
        None => Part::Text(value["text"].as_str().unwrap_or_default().to_owned()),
    }
}

fn tool(value: &Value) -> Tool {
    let function = &value["function"];
    match function["name"].as_str() {
        Some(name) => Tool::Function {
            name: name.to_owned(),
            description: function["description"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            parameters: function["parameters"].clone(),
        },
        None => Tool::Provided(value.clone()),
    }
}

fn tool_choice(value: &Value) -> Option<ToolChoice> {
    Some(match value {
        Value::String(word) => match word.as_str() {
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => ToolChoice::Auto,
        },
        Value::Object(_) => {
            let name = value["function"]["name"]
                .as_str()
                .or(value["name"].as_str());
            ToolChoice::Function(name.unwrap_or_default().to_owned())
        }
        _ => return None,
    })
}
