//! What servers of each interface say.

use serde_json::{Value, json};
use skillopt_core::job::Usage;

use super::pieces::{self, Pieces};

/// One interface: the bodies in which its servers say the same things.
#[derive(Clone, Copy)]
pub struct Wire {
    /// A whole answer, with [`Wire::usage`].
    pub answer: fn(&str) -> Value,
    /// An answer that the token limit cut.
    pub truncated: fn(&str) -> Value,
    /// The answer was withheld.
    pub filtered: fn() -> Value,
    /// A call of a tool, with its arguments.
    pub tool_call: fn(&str, &Value) -> Value,
    /// An error with a message.
    pub error: fn(&str) -> Value,
    /// What is said of a prompt that does not fit, and with which status, as real servers word it.
    pub too_long: &'static [(u16, &'static str)],
    /// Any of these bodies in pieces.
    pub pieces: Pieces,
    /// An error with a message in the midst of such.
    pub error_event: fn(&str) -> Value,
    /// What the answers say was used.
    pub usage: Usage,
}

/// Chat Completions.
pub const CHAT_COMPLETIONS: Wire = Wire {
    answer: |text| completion(&json!({"role": "assistant", "content": text}), "stop"),
    truncated: |text| completion(&json!({"role": "assistant", "content": text}), "length"),
    filtered: || {
        completion(
            &json!({"role": "assistant", "content": ""}),
            "content_filter",
        )
    },
    tool_call: |name, arguments| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"id": "c1", "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        completion(&message, "tool_calls")
    },
    error: |message| json!({"error": {"message": message, "type": "x", "code": null}}),
    too_long: &[
        // OpenAI.
        (
            400,
            "This model's maximum context length is 4096 tokens. However, your messages resulted in \
             9000 tokens. Please reduce the length of the messages.",
        ),
        (
            400,
            "Your input exceeds the context window of this model. Please adjust your input and try \
             again.",
        ),
        // vLLM, of several ages; the first is OpenAI's as well.
        (
            400,
            "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens \
             (8900 in the messages, 100 in the completion). Please reduce the length of the messages \
             or completion.",
        ),
        (
            400,
            "This model's maximum context length is 4096 tokens. However, your request has 9000 \
             input tokens. Please reduce the length of the input messages.",
        ),
        (
            400,
            "You passed 4096 input tokens and requested 1 output tokens. However, the model's \
             context length is only 4096 tokens, resulting in a maximum input length of 4095 tokens. \
             Please reduce the length of the input prompt.",
        ),
    ],
    pieces: pieces::chat_completions,
    error_event: |message| json!({"error": {"message": message, "type": "x", "code": null}}),
    usage: Usage {
        calls: 1,
        prompt_tokens: 11,
        completion_tokens: 7,
        cached_tokens: 3,
        reasoning_tokens: 2,
        cache_write_tokens: 0,
        truncated_calls: 0,
    },
};

fn completion(message: &Value, finish: &str) -> Value {
    json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    })
}

/// OpenAI's Responses.
pub const RESPONSES: Wire = Wire {
    answer: |text| response(&said(text), "completed", &Value::Null),
    truncated: |text| {
        let why = json!({"reason": "max_output_tokens"});
        response(&said(text), "incomplete", &why)
    },
    filtered: || {
        let why = json!({"reason": "content_filter"});
        response(&json!([]), "incomplete", &why)
    },
    tool_call: |name, arguments| {
        let call = json!({"type": "function_call", "id": "f1", "call_id": "c1", "name": name,
            "arguments": arguments.to_string(), "status": "completed"});
        response(&json!([call]), "completed", &Value::Null)
    },
    pieces: pieces::responses,
    error_event: |message| json!({"type": "error", "code": "x", "message": message}),
    ..CHAT_COMPLETIONS
};

fn said(text: &str) -> Value {
    json!([{
        "type": "message", "id": "m1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }])
}

fn response(output: &Value, status: &str, incomplete: &Value) -> Value {
    json!({
        "id": "x", "object": "response", "created_at": 1, "model": "m", "status": status,
        "error": null, "incomplete_details": incomplete, "output": output,
        "usage": {
            "input_tokens": 11, "output_tokens": 7, "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
    })
}

/// Anthropic's Messages.
pub const MESSAGES: Wire = Wire {
    answer: |text| message(&json!([{"type": "text", "text": text}]), "end_turn"),
    truncated: |text| message(&json!([{"type": "text", "text": text}]), "max_tokens"),
    filtered: || message(&json!([]), "refusal"),
    tool_call: |name, arguments| {
        let call = json!({"type": "tool_use", "id": "c1", "name": name, "input": arguments});
        message(&json!([call]), "tool_use")
    },
    error: |text| json!({"type": "error", "error": {"type": "x", "message": text}}),
    too_long: &[
        (400, "prompt is too long: 9000 tokens > 4096 maximum"),
        (413, "prompt is too long"),
    ],
    pieces: pieces::messages,
    error_event: |text| json!({"type": "error", "error": {"type": "x", "message": text}}),
    usage: Usage {
        calls: 1,
        prompt_tokens: 11,
        completion_tokens: 7,
        cached_tokens: 3,
        reasoning_tokens: 0,
        cache_write_tokens: 0,
        truncated_calls: 0,
    },
};

fn message(content: &Value, stop: &str) -> Value {
    json!({
        "id": "x", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 8, "output_tokens": 7, "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 0},
    })
}

/// Google's `generateContent`.
pub const GENERATE_CONTENT: Wire = Wire {
    answer: |text| candidate(&json!([{"text": text}]), "STOP"),
    truncated: |text| candidate(&json!([{"text": text}]), "MAX_TOKENS"),
    filtered: || candidate(&json!([]), "SAFETY"),
    tool_call: |name, arguments| {
        candidate(
            &json!([{"functionCall": {"name": name, "args": arguments}}]),
            "STOP",
        )
    },
    error: |text| json!({"error": {"code": 1, "message": text, "status": "INVALID_ARGUMENT"}}),
    too_long: &[(
        400,
        "The input token count (9000) exceeds the maximum number of tokens allowed (4096).",
    )],
    pieces: pieces::generate_content,
    error_event: |text| json!({"error": {"code": 1, "message": text, "status": "INTERNAL"}}),
    usage: Usage {
        calls: 1,
        prompt_tokens: 11,
        completion_tokens: 7,
        cached_tokens: 3,
        reasoning_tokens: 2,
        cache_write_tokens: 0,
        truncated_calls: 0,
    },
};

fn candidate(parts: &Value, finish: &str) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish,
            "index": 0}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5,
            "thoughtsTokenCount": 2, "cachedContentTokenCount": 3, "totalTokenCount": 18},
        "modelVersion": "m",
    })
}
