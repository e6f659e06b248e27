use std::time::Duration;

use super::*;
use crate::contract::{Image, ToolCall};

fn request(messages: Vec<Message>) -> ChatRequest {
    ChatRequest::new("m", messages, 9, Duration::from_secs(9))
}

#[track_caller]
fn check(request: &ChatRequest, with_system: bool, expected: &str) {
    let prompt = Prompt {
        request,
        with_system,
    };
    assert_eq!(prompt.text(), expected);
}

#[test]
fn a_conversation_is_written_down_line_by_line() {
    let mut asks = Message::text(Role::Assistant, "a1");
    asks.tool_calls.push(ToolCall {
        id: "c1".to_owned(),
        name: "grep".to_owned(),
        arguments: "{\"p\":\"é\"}".to_owned(),
    });
    let request = request(vec![
        Message::text(Role::System, " S1 "),
        Message::text(Role::User, "q1\nline2"),
        asks,
        Message::tool("c1", "hit"),
        Message::text(Role::System, "S2"),
        Message::text(Role::User, ""),
    ]);
    let history = "- User: q1\n  line2\n- Assistant: a1\n  It asked for these tools:\n[\n  {\n    \
        \"name\": \"grep\",\n    \"arguments\": \"{\\\"p\\\":\\\"é\\\"}\"\n  }\n]\n\
        - Tool result (tool_call_id=c1): hit\n- User:";
    check(
        &request,
        false,
        &format!("{HISTORY}\n{history}\n\n{ANSWER}"),
    );
    check(
        &request,
        true,
        &format!("S1\n\nS2\n\n{HISTORY}\n{history}\n\n{ANSWER}"),
    );
}

#[test]
fn tools_are_described_and_asked_for() {
    let mut request = request(vec![Message::text(Role::User, "q")]);
    request.tools.push(Tool::Function {
        name: "f".to_owned(),
        description: "does".to_owned(),
        parameters: json!({"type": "object"}),
    });
    request.tool_choice = Some(ToolChoice::Function("f".to_owned()));
    let text = Prompt {
        request: &request,
        with_system: true,
    }
    .text();
    for part in [
        "\"parameters\": {\n      \"type\": \"object\"\n    }",
        "You must ask for the tool `f`.",
        ANSWER_JSON,
        ANSWER_JSON_TOOLS,
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn images_are_numbered() {
    let mut message = Message::text(Role::User, "");
    let image = Part::Image(Image {
        url: "data:image/png;base64,AAAA".to_owned(),
        detail: None,
    });
    message.content = Content::Parts(vec![Part::Text("see".to_owned()), image.clone(), image]);
    let request = request(vec![message]);
    let seen = "see[Attached image 1][Attached image 2]";
    check(
        &request,
        true,
        &format!("{HISTORY}\n- User: {seen}\n\n{ANSWER}"),
    );
    assert_eq!(images(&request.messages).count(), 2);
}
