//! Requests one way, answers the other.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_request_keeps_what_chat_completions_can_say() {
    let (chat, _) = request(&json!({
        "model": "m", "instructions": "SYS", "stream": true, "max_output_tokens": 9,
        "reasoning": {"effort": "high"}, "parallel_tool_calls": false, "tool_choice": "auto",
        "tools": [
            {"type": "function", "name": "exec", "description": "d", "parameters": {"type": "object"}},
            {"type": "custom", "name": "apply_patch"},
            {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
            {"type": "web_search"},
        ],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "DEV"}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "high"},
            ]},
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I will"}]},
            {"type": "function_call", "call_id": "a", "name": "exec", "arguments": "{\"cmd\":\"ls\"}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "*** x"},
            {"type": "function_call_output", "call_id": "a", "output": "out"},
            {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "ok"}]},
        ],
        "text": {"format": {"type": "json_schema", "name": "s", "strict": true, "schema": {"type": "object"}}},
    }))
    .unwrap();
    let roles: Vec<&str> = chat["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["system", "system", "user", "assistant", "tool", "tool"]
    );
    assert_eq!(
        chat["messages"][2]["content"][1]["image_url"]["detail"],
        "high"
    );
    let calls = &chat["messages"][3]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], "{\"cmd\":\"ls\"}");
    assert_eq!(calls[1]["function"]["arguments"], "{\"input\":\"*** x\"}");
    assert_eq!(chat["messages"][5]["content"], "ok");
    let names: Vec<&str> = chat["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["exec", "apply_patch", "agents__spawn"]);
    assert_eq!(chat["max_tokens"], 9);
    assert_eq!(chat["reasoning_effort"], "high");
    assert_eq!(chat["parallel_tool_calls"], false);
    assert_eq!(chat["stream_options"]["include_usage"], true);
    assert_eq!(chat["response_format"]["json_schema"]["name"], "s");
}

#[test]
fn images_of_outputs_follow_the_last_of_them() {
    let image = |name: &str| json!({"type": "input_image", "image_url": format!("data:{name}")});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "view", "arguments": "{}"});
    let (chat, _) = request(&json!({"model": "m", "input": [
        call("a"),
        call("b"),
        {"type": "function_call_output", "call_id": "a", "output": [image("1")]},
        {"type": "function_call_output", "call_id": "b", "output": [
            {"type": "input_text", "text": "done"}, image("2"),
        ]},
        call("c"),
        {"type": "function_call_output", "call_id": "c", "output": [image("3")]},
    ]}))
    .unwrap();
    let messages = chat["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        [
            "assistant",
            "tool",
            "tool",
            "user",
            "assistant",
            "tool",
            "user"
        ]
    );
    let output = messages[2]["content"].as_str().unwrap();
    assert!(output.starts_with("done\n[its images"), "{output}");
    let urls = |at: usize| -> Vec<&str> {
        let parts = messages[at]["content"].as_array().unwrap().iter();
        parts
            .filter_map(|part| part["image_url"]["url"].as_str())
            .collect()
    };
    assert_eq!(urls(3), ["data:1", "data:2"]);
    assert_eq!(urls(6), ["data:3"]);
}

#[test]
fn what_chat_completions_cannot_say_is_refused_by_its_kind() {
    let user = |part: Value| json!({"type": "message", "role": "user", "content": [part]});
    for (item, kind) in [
        (
            json!({"type": "item_reference", "id": "x"}),
            "`item_reference`",
        ),
        (json!({"type": "web_search_call"}), "`web_search_call`"),
        (
            user(json!({"type": "input_file", "file_id": "f"})),
            "`input_file`",
        ),
        (
            user(json!({"type": "input_image", "file_id": "f"})),
            "without an address",
        ),
        (json!({"role": "user"}), "without content"),
        (
            json!({"type": "function_call_output", "call_id": "a", "output": [{"type": "input_audio"}]}),
            "`input_audio`",
        ),
    ] {
        let refused = request(&json!({"model": "m", "input": [item]})).unwrap_err();
        assert!(refused.contains(kind), "{refused}");
    }
    let (chat, _) = request(&json!({"input": [{"role": "user", "content": "hi"}]})).unwrap();
    assert_eq!(chat["messages"][0]["content"], "hi");
}

/// Streams chunks through; returns the events that came out.
fn streamed(names: Names, chunks: &[Value]) -> Vec<Value> {
    let mut answering = Answering::new(names);
    let mut out = String::new();
    for chunk in chunks {
        answering.event(&chunk.to_string(), &mut out);
    }
    answering.end(&mut out);
    let events = out
        .split("\n\n")
        .filter_map(|event| event.split_once("\ndata: "));
    events
        .map(|(_, data)| serde_json::from_str(data).unwrap())
        .collect()
}

fn delta(delta: Value, finish: Option<&str>) -> Value {
    json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

#[test]
fn an_answer_comes_back_as_the_cli_wants_it() {
    let (_, names) = request(&json!({"tools": [
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
    ]}))
    .unwrap();
    let call = |index: u64, id: &str, name: &str, arguments: &str| json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]});
    let events = streamed(
        names,
        &[
            delta(json!({"role": "assistant", "content": ""}), None),
            delta(json!({"content": "I "}), None),
            delta(json!({"content": "will"}), None),
            delta(call(0, "a", "apply_patch", "{\"input\":"), None),
            delta(call(1, "b", "agents__spawn", "{}"), None),
            delta(call(0, "", "", "\"*** x\"}"), None),
            delta(json!({}), Some("tool_calls")),
            json!({"choices": [], "usage": {
                "prompt_tokens": 10, "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 3},
            }}),
        ],
    );
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.output_item.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_item.done",
            "response.output_item.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let response = &events[7]["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], "I will");
    assert_eq!(response["output"][1]["type"], "custom_tool_call");
    assert_eq!(response["output"][1]["input"], "*** x");
    assert_eq!(response["output"][2]["name"], "spawn");
    assert_eq!(response["output"][2]["namespace"], "agents");
    assert_eq!(response["usage"]["total_tokens"], 14);
    assert_eq!(
        response["usage"]["input_tokens_details"]["cached_tokens"],
        3
    );
}

#[test]
fn each_end_has_its_event() {
    let last = |chunks: &[Value]| {
        let events = streamed(Names::default(), chunks);
        events
            .last()
            .map(|event| event["type"].as_str().unwrap().to_owned())
    };
    let said = delta(json!({"content": "half"}), None);
    for (chunks, want) in [
        (
            vec![said.clone(), delta(json!({}), Some("stop"))],
            "response.completed",
        ),
        (
            vec![said.clone(), delta(json!({}), Some("length"))],
            "response.incomplete",
        ),
        (
            vec![said.clone(), delta(json!({}), Some("content_filter"))],
            "response.incomplete",
        ),
        (
            vec![said.clone(), json!({"error": {"message": "down"}})],
            "response.failed",
        ),
        // A stream that broke off must not look whole.
        (vec![said], "response.output_text.delta"),
    ] {
        assert_eq!(last(&chunks).as_deref(), Some(want));
    }
}

#[test]
fn a_whole_answer_is_what_the_stream_would_have_been() {
    let chat = json!({
        "model": "m",
        "choices": [{"message": {"content": "I will", "tool_calls": [
            {"id": "a", "function": {"name": "exec", "arguments": "{}"}},
        ]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 4},
    });
    let response = whole(&chat, &Names::default());
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["content"][0]["text"], "I will");
    assert_eq!(response["output"][1]["call_id"], "a");
    assert_eq!(response["usage"]["input_tokens"], 10);
}
