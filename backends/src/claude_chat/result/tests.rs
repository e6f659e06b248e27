use std::time::Duration;

use serde_json::json;
use skillopt_core::job::Schema;

use super::*;
use crate::contract::{Tool, ToolChoice};

fn request() -> ChatRequest {
    ChatRequest::new("m", Vec::new(), 9, Duration::from_secs(9))
}

#[track_caller]
fn check(request: &ChatRequest, stdout: &str, stderr: &str, code: i32, expected: &str) {
    let reader = Reader {
        endpoint: "claude",
        secrets: &["sk-secret"],
        request,
    };
    let output = Output {
        code: Some(code),
        stdout: stdout.as_bytes().to_owned(),
        stderr: stderr.to_owned(),
    };
    let seen = format!("{:?}", reader.read(&output));
    assert!(seen.contains(expected), "{seen}");
    assert!(!seen.contains("sk-secret"), "{seen}");
}

#[test]
fn the_last_result_is_the_answer() {
    let text = request();
    let first = r#"{"type":"result","is_error":false,"result":"first"}"#;
    let second = r#"{"type":"result","is_error":false,"result":"second","usage":{"input_tokens":11,"output_tokens":7}}"#;
    let noise = format!("noise\n{{\"type\":\"assistant\"}}\n{first}\n{{broken\n{second}\n");
    check(&text, &noise, "", 0, "text: \"second\"");
    check(
        &text,
        &noise,
        "",
        0,
        "prompt_tokens: 11, completion_tokens: 7",
    );
    check(
        &text,
        "{\n \"type\": \"result\",\n \"result\": \"x\"\n}",
        "",
        0,
        "text: \"x\"",
    );
    check(
        &text,
        r#"{"type":"result","content":"c"}"#,
        "",
        0,
        "text: \"c\"",
    );
}

#[test]
fn tokens_are_summed_by_model() {
    check(
        &request(),
        r#"{"type":"result","num_turns":1,"result":"x","usage":{"input_tokens":0},"modelUsage":{"a":{"inputTokens":5,"outputTokens":7,"cacheReadInputTokens":2,"cacheCreationInputTokens":1,"thinkingTokens":3},"b":{"inputTokens":1}}}"#,
        "",
        0,
        "prompt_tokens: 9, completion_tokens: 7, cached_tokens: 2, reasoning_tokens: 3",
    );
}

#[test]
fn a_failure_is_no_answer_whatever_the_exit_code() {
    let text = request();
    let failed = |words: &str, more: &str| {
        format!(
            r#"{{"type":"result","subtype":"success","is_error":true,"result":"{words}"{more}}}"#
        )
    };
    check(&text, &failed("API Error: 529", ""), "", 0, "Server");
    check(&text, &failed("Not logged in", ""), "", 1, "Unauthorized");
    check(
        &text,
        &failed("sk-secret is wrong", ",\"api_error_status\":401"),
        "",
        1,
        "Unauthorized",
    );
    check(
        &text,
        &failed("Prompt is too long", ",\"api_error_status\":400"),
        "",
        1,
        "Rejected",
    );
    check(
        &text,
        &failed("exceeded the 32000 output token maximum", ""),
        "",
        1,
        "Length",
    );
    check(
        &text,
        &failed("no", ",\"stop_reason\":\"refusal\""),
        "",
        1,
        "Refused",
    );
    check(&text, "", "Invalid API key sk-secret", 1, "Unauthorized");
    check(&text, "", "model not available", 1, "Misconfigured");
    check(&text, "", "kaboom", 3, "Malformed");
    check(&text, "plain words\n", "", 0, "Malformed");
    check(
        &text,
        r#"{"type":"result","is_error":false,"num_turns":0,"result":"Unknown command: /x"}"#,
        "",
        0,
        "Unfit",
    );
}

#[test]
fn tools_are_taken_out_of_a_bound_answer() {
    let mut request = request();
    request.tools.push(Tool::Provided(json!({"name": "grep"})));
    let bound = json!({"content": "hi", "tool_calls": [{"name": "grep", "arguments": "{}"}]});
    let stdout = json!({"type": "result", "result": bound.to_string(), "structured_output": bound});
    let stdout = stdout.to_string();
    request.tool_choice = Some(ToolChoice::Function("grep".to_owned()));
    check(
        &request,
        &stdout,
        "",
        0,
        r#"text: "hi", tool_calls: [ToolCall { id: "claude_tool_1", name: "grep", arguments: "{}" }], finish: ToolCalls"#,
    );
    request.tool_choice = Some(ToolChoice::Function("other".to_owned()));
    check(&request, &stdout, "", 0, "the tool `other` is not called");
    check(
        &request,
        r#"{"type":"result","result":"words"}"#,
        "",
        0,
        "Unfit",
    );
}

#[test]
fn a_schema_of_the_caller_binds_the_text() {
    let mut request = request();
    request.schema = Some(Schema {
        name: "s".to_owned(),
        schema: json!({"type": "object"}),
    });
    check(
        &request,
        r#"{"type":"result","result":"see below","structured_output":{"a":1}}"#,
        "",
        0,
        r#"text: "{\"a\":1}""#,
    );
}
