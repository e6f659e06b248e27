use std::time::Duration;

use skillopt_core::job::Schema;

use super::*;

fn request(messages: Vec<Message>) -> ChatRequest {
    ChatRequest::new("gemini-3-flash", messages, 4_096, Duration::from_secs(9))
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

#[track_caller]
fn check(request: &ChatRequest, expected: &Value) {
    let body = Body::new(request, request.temperature, true);
    assert_eq!(&serde_json::to_value(&body).unwrap(), expected);
}

#[test]
fn a_plain_question() {
    let mut request = request(vec![Message::text(Role::System, "S"), user("U")]);
    request.temperature = Some(0.5);
    request.reasoning_effort = Some("low".to_owned());
    check(
        &request,
        &json!({
            "systemInstruction": {"parts": [{"text": "S"}]},
            "contents": [{"role": "user", "parts": [{"text": "U"}]}],
            "generationConfig": {
                "maxOutputTokens": 4096,
                "temperature": 0.5,
                "thinkingConfig": {"thinkingLevel": "LOW"},
            },
        }),
    );
}

#[test]
fn a_schema_and_images() {
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
    let mut request = request(vec![message]);
    request.schema = Some(Schema {
        name: "edits".to_owned(),
        schema: json!({"type": "object"}),
    });
    check(
        &request,
        &json!({
            "contents": [{"role": "user", "parts": [
                {"text": "see"},
                {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                {"fileData": {"fileUri": "https://h/a.png"}},
            ]}],
            "generationConfig": {
                "maxOutputTokens": 4096,
                "responseMimeType": "application/json",
                "responseJsonSchema": {"type": "object"},
            },
        }),
    );
}

#[test]
fn a_round_of_tools_with_the_thoughts_of_its_calls() {
    let mut asks = Message::text(Role::Assistant, "");
    for (id, name) in [("x#thought=c2ln", "f"), ("gemini_tool_2", "g")] {
        asks.tool_calls.push(ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: "{\"a\":1}".to_owned(),
        });
    }
    let mut request = request(vec![user("q"), asks]);
    request.messages.extend([
        Message::tool("x#thought=c2ln", "1"),
        Message::tool("gemini_tool_2", "2"),
    ]);
    request.tools = vec![
        Tool::Function {
            name: "f".to_owned(),
            description: "does".to_owned(),
            parameters: json!({"type": "object"}),
        },
        Tool::Provided(json!({"googleSearch": {}})),
    ];
    request.tool_choice = Some(ToolChoice::Function("f".to_owned()));
    check(
        &request,
        &json!({
            "contents": [
                {"role": "user", "parts": [{"text": "q"}]},
                {"role": "model", "parts": [
                    {"functionCall": {"id": "x", "name": "f", "args": {"a": 1}},
                        "thoughtSignature": "c2ln"},
                    {"functionCall": {"name": "g", "args": {"a": 1}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse":
                        {"id": "x", "name": "f", "response": {"output": "1"}}},
                    {"functionResponse": {"name": "g", "response": {"output": "2"}}},
                ]},
            ],
            "tools": [
                {"functionDeclarations": [{"name": "f", "description": "does",
                    "parametersJsonSchema": {"type": "object"}}]},
                {"googleSearch": {}},
            ],
            "toolConfig": {"functionCallingConfig":
                {"mode": "ANY", "allowedFunctionNames": ["f"]}},
            "generationConfig": {"maxOutputTokens": 4096},
        }),
    );
}
