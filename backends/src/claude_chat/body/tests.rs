use std::time::Duration;

use serde_json::json;
use skillopt_core::job::Schema;

use super::*;

const PLAIN: Style = Style {
    thinks: true,
    streams: false,
    caches: false,
};

fn request(model: &str, messages: Vec<Message>) -> ChatRequest {
    ChatRequest::new(model, messages, 4_096, Duration::from_secs(9))
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

#[track_caller]
fn check(request: &ChatRequest, style: Style, expected: &Value) {
    let body = Body::new(request, request.temperature, style);
    assert_eq!(&serde_json::to_value(&body).unwrap(), expected);
}

#[test]
fn a_plain_question() {
    let messages = vec![Message::text(Role::System, "S"), user("U")];
    check(
        &request("claude-sonnet-4-6", messages),
        PLAIN,
        &json!({
            "model": "claude-sonnet-4-6",
            "max_tokens": 4096,
            "system": [{"type": "text", "text": "S"}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "U"}]}],
        }),
    );
}

#[test]
fn images_inline_and_from_afar() {
    let image = |url: &str| {
        Part::Image(Image {
            url: url.to_owned(),
            detail: None,
        })
    };
    let mut message = user("");
    message.content = Content::Parts(vec![
        Part::Text("see".to_owned()),
        image("data:image/png;base64,AAAA"),
        image("https://h/a.png"),
    ]);
    check(
        &request("m", vec![message]),
        PLAIN,
        &json!({
            "model": "m",
            "max_tokens": 4096,
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": "https://h/a.png"}},
            ]}],
        }),
    );
}

fn tool_round() -> ChatRequest {
    let mut asks = Message::text(Role::Assistant, "");
    for (id, arguments) in [("a", "{\"x\":1}"), ("b", "{broken")] {
        asks.tool_calls.push(ToolCall {
            id: id.to_owned(),
            name: "f".to_owned(),
            arguments: arguments.to_owned(),
        });
    }
    let answers = [Message::tool("a", "1"), Message::tool("b", "2")];
    let mut request = request("claude-sonnet-4-5", vec![user("q"), asks]);
    request.messages.extend(answers);
    request.tools = vec![Tool::Function {
        name: "f".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    }];
    request.reasoning_effort = Some("low".to_owned());
    request
}

#[test]
fn answers_of_tools_make_one_turn_and_thoughts_that_nobody_kept_are_not_asked_for() {
    check(
        &tool_round(),
        PLAIN,
        &json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 4096,
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "q"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                    {"type": "tool_use", "id": "b", "name": "f",
                        "input": {"arguments": "{broken"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                ]},
            ],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        }),
    );
}

#[test]
fn a_tool_may_be_required() {
    for (choice, expected) in [
        (ToolChoice::Auto, json!({"type": "auto"})),
        (ToolChoice::None, json!({"type": "none"})),
        (ToolChoice::Required, json!({"type": "any"})),
        (
            ToolChoice::Function("f".to_owned()),
            json!({"type": "tool", "name": "f"}),
        ),
    ] {
        let mut request = tool_round();
        request.messages.truncate(1);
        request.tool_choice = Some(choice.clone());
        let body = serde_json::to_value(Body::new(&request, None, PLAIN)).unwrap();
        assert_eq!(body["tool_choice"], expected);
        let forced = matches!(choice, ToolChoice::Required | ToolChoice::Function(_));
        assert_eq!(body.get("thinking").is_none(), forced, "{choice:?}");
    }
}

#[test]
fn a_schema_binds_the_answer_or_a_tool_does() {
    let schema = json!({"type": "object"});
    let mut request = request("claude-sonnet-4-6", vec![user("q")]);
    request.schema = Some(Schema {
        name: "edits".to_owned(),
        schema: schema.clone(),
    });
    let body = serde_json::to_value(Body::new(&request, None, PLAIN)).unwrap();
    assert_eq!(
        body["output_config"],
        json!({"format": {"type": "json_schema", "schema": schema}})
    );
    "claude-3-5-haiku-latest".clone_into(&mut request.model);
    let body = serde_json::to_value(Body::new(&request, None, PLAIN)).unwrap();
    assert_eq!(body["tools"][0]["name"], "edits");
    assert_eq!(body["tool_choice"]["type"], "tool");
    assert!(body.get("output_config").is_none());
}

#[test]
fn effort_and_thinking_go_together_unless_a_temperature_is_set() {
    let mut request = request("claude-sonnet-4-6", vec![user("q")]);
    request.reasoning_effort = Some("high".to_owned());
    let body = serde_json::to_value(Body::new(&request, None, PLAIN)).unwrap();
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"], json!({"effort": "high"}));
    let body = serde_json::to_value(Body::new(&request, Some(0.5), PLAIN)).unwrap();
    assert!(body.get("thinking").is_none());
    assert_eq!(body["temperature"], 0.5);
}

#[test]
fn what_comes_again_is_marked_for_the_cache() {
    let caches = Style {
        caches: true,
        ..PLAIN
    };
    let long = "s".repeat(CACHED_BYTES_MIN);
    let messages = vec![Message::text(Role::System, &long), user("q")];
    let mut request = request("m", messages);
    let body = serde_json::to_value(Body::new(&request, None, caches)).unwrap();
    let kept = json!({"type": "ephemeral"});
    assert_eq!(body["system"][0]["cache_control"], kept);
    assert!(
        body["messages"][0]["content"][0]
            .get("cache_control")
            .is_none()
    );
    request.messages.push(Message::text(Role::Assistant, "a"));
    request.messages.push(user("more"));
    let body = serde_json::to_value(Body::new(&request, None, caches)).unwrap();
    assert_eq!(body["messages"][2]["content"][0]["cache_control"], kept);
    request.messages[0] = Message::text(Role::System, "short");
    request.messages.truncate(2);
    let body = serde_json::to_value(Body::new(&request, None, caches)).unwrap();
    assert!(body["system"][0].get("cache_control").is_none());
}
