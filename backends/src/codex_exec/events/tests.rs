use std::time::Duration;

use serde_json::json;

use super::*;
use crate::contract::{Tool, ToolChoice};

const DONE: &str = r#"{"type":"turn.completed","usage":{"input_tokens":42,"cached_input_tokens":6,"output_tokens":18,"reasoning_output_tokens":4}}"#;

fn request() -> ChatRequest {
    ChatRequest::new("m", Vec::new(), 9, Duration::from_secs(9))
}

#[track_caller]
fn check(request: &ChatRequest, events: &[&str], file: &str, code: i32, expected: &str) {
    let reader = Reader {
        endpoint: "codex",
        secrets: &["sk-secret"],
        request,
    };
    let output = Output {
        code: Some(code),
        stdout: events.join("\n").into_bytes(),
        stderr: "from stderr\n".to_owned(),
    };
    let seen = format!("{:?}", reader.read(&output, file));
    assert!(seen.contains(expected), "{seen}");
    assert!(!seen.contains("sk-secret"), "{seen}");
}

fn said(text: &str) -> String {
    json!({"type": "item.completed", "item": {"type": "agent_message", "text": text}}).to_string()
}

fn failed(message: &str) -> String {
    json!({"type": "turn.failed", "error": {"message": message}}).to_string()
}

#[test]
fn the_last_words_are_the_answer_with_their_tokens() {
    let text = request();
    let words = said("from the stream");
    check(&text, &[&words, DONE], " pong\n", 0, "text: \"pong\"");
    check(&text, &[&words, DONE], "", 0, "text: \"from the stream\"");
    check(
        &text,
        &["noise", &words, DONE],
        "",
        0,
        "prompt_tokens: 42, completion_tokens: 18, cached_tokens: 6, reasoning_tokens: 4",
    );
    check(&text, &[DONE], "", 0, "text: \"\"");
}

#[test]
fn a_failed_turn_fails_whatever_the_exit_code() {
    let text = request();
    let partial = said("partial");
    check(
        &text,
        &[&partial, &failed("context window")],
        "",
        0,
        "Rejected",
    );
    let retry = r#"{"type":"error","message":"Reconnecting... 1/1"}"#;
    check(
        &text,
        &[
            retry,
            &failed("unexpected status 401 Unauthorized: sk-secret"),
        ],
        "",
        1,
        "Unauthorized",
    );
    check(
        &text,
        &[&failed("last status: 429 Too Many")],
        "",
        1,
        "Throttled",
    );
    check(&text, &[&failed("high demand")], "", 1, "Server");
    check(&text, &[retry], "", 1, "Reconnecting");
    check(&text, &[], "", 2, "from stderr");
    check(&text, &[&partial], "", 0, "the turn has no end");
}

#[test]
fn an_answer_at_its_limit_is_cut() {
    let cut = failed("Incomplete response returned, reason: max_output_tokens");
    let expected = "text: \"The answer is\", tool_calls: [], finish: Length";
    check(&request(), &[&said("The answer is"), &cut], "", 1, expected);
}

#[test]
fn tools_are_asked_for_in_an_envelope() {
    let mut request = request();
    request.tools.push(Tool::Provided(json!({"name": "grep"})));
    let file = json!({"content": "hi", "tool_calls": [{"name": "grep", "arguments": {"x": 1}}]});
    let file = file.to_string();
    check(&request, &[DONE], &file, 0, "text: \"hi\"");
    check(&request, &[DONE], &file, 0, r#"arguments: "{\"x\":1}""#);
    check(&request, &[DONE], "words", 0, "Unfit");
    request.tool_choice = Some(ToolChoice::Function("other".to_owned()));
    check(
        &request,
        &[DONE],
        &file,
        0,
        "usage: Usage { calls: 1, prompt_tokens: 42",
    );
    request.tool_choice = Some(ToolChoice::Required);
    let none = r#"{"content":"no","tool_calls":[]}"#;
    check(&request, &[DONE], none, 0, "no tool is called");
}
