//! The programs that serve as text models.

use serde_json::{Value, json};

use super::{ProgramKit, Said, Says};
use crate::conformance::wire::{CHAT_COMPLETIONS, MESSAGES};

/// The Claude program, behind `claude_chat`.
pub const CLAUDE: ProgramKit = ProgramKit {
    backend: "claude_chat",
    role: "target",
    model: "model-1",
    program: "claude_cli_bin",
    settings: &[("claude_transport", "cli")],
    login: "CLAUDE_CODE_OAUTH_TOKEN",
    takes_images: true,
    takes_tools: true,
    beforehand: None,
    says: Says {
        answer: |text| lines(&[result(text, "end_turn")]),
        truncated: Some(|text| lines(&[result(text, "max_tokens")])),
        failure: |status, message| Said {
            code: 1,
            ..lines(&[json!({
                "type": "result", "subtype": "success", "is_error": true, "num_turns": 1,
                "result": message, "api_error_status": status,
            })])
        },
        usage: MESSAGES.usage,
    },
};

fn result(text: &str, stop_reason: &str) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "num_turns": 1,
        "result": text, "stop_reason": stop_reason,
        "usage": {"input_tokens": 8, "output_tokens": 7, "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 0},
    })
}

/// The Codex program, which talks as the optimizer.
pub const CODEX: ProgramKit = ProgramKit {
    backend: "codex_exec",
    role: "optimizer",
    model: "model-1",
    program: "codex_exec_path",
    settings: &[],
    login: "CODEX_API_KEY",
    takes_images: true,
    takes_tools: true,
    beforehand: None,
    says: Says {
        answer: |text| Said {
            file: Some(("--output-last-message", text.to_owned())),
            ..lines(&[
                json!({"type": "thread.started", "thread_id": "t1"}),
                words(text),
                json!({"type": "turn.completed", "usage": {"input_tokens": 11,
                    "cached_input_tokens": 3, "output_tokens": 7, "reasoning_output_tokens": 2}}),
            ])
        },
        truncated: Some(|text| {
            turn_failed(
                Some(text),
                "Incomplete response returned, reason: max_output_tokens",
            )
        }),
        failure: |status, message| {
            turn_failed(None, &format!("unexpected status {status} x: {message}"))
        },
        usage: CHAT_COMPLETIONS.usage,
    },
};

fn words(text: &str) -> Value {
    json!({"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": text}})
}

fn turn_failed(text: Option<&str>, message: &str) -> Said {
    let failed = json!({"type": "turn.failed", "error": {"message": message}});
    let events: Vec<Value> = text.map(words).into_iter().chain([failed]).collect();
    Said {
        code: 1,
        ..lines(&events)
    }
}

/// The Copilot program. It does not tell that an answer was cut.
pub const COPILOT: ProgramKit = ProgramKit {
    backend: "copilot_chat",
    role: "target",
    model: "model-1",
    program: "copilot_exec_path",
    settings: &[],
    login: "COPILOT_GITHUB_TOKEN",
    takes_images: false,
    takes_tools: false,
    beforehand: None,
    says: Says {
        answer: |text| Said {
            file: Some((
                "--usage-output-file",
                json!({"modelMetrics": {"model-1": {"usage": {"inputTokens": 11,
                    "outputTokens": 7, "cacheReadTokens": 3, "reasoningTokens": 2}}}})
                .to_string(),
            )),
            ..lines(&[json!({"type": "assistant.message", "data": {"content": text}})])
        },
        truncated: None,
        failure: |status, message| Said {
            code: 1,
            ..lines(&[
                json!({"type": "session.error", "data": {"message": message, "statusCode": status}}),
            ])
        },
        usage: CODEX.says.usage,
    },
};

/// The Cursor program. It does not tell that an answer was cut, nor its provider's status apart.
pub const CURSOR: ProgramKit = ProgramKit {
    backend: "cursor_chat",
    role: "target",
    model: "model-1",
    program: "cursor_exec_path",
    settings: &[],
    login: "CURSOR_API_KEY",
    takes_images: false,
    takes_tools: false,
    beforehand: None,
    says: Says {
        answer: |text| {
            lines(&[json!({
                "type": "result", "subtype": "success", "is_error": false, "result": text,
                "usage": {"inputTokens": 8, "outputTokens": 7, "cacheReadTokens": 3},
            })])
        },
        truncated: None,
        failure: |status, message| Said {
            code: 1,
            ..lines(&[json!({
                "type": "result", "subtype": "error", "is_error": true,
                "result": format!("error {status}: {message}"),
            })])
        },
        usage: MESSAGES.usage,
    },
};

/// opencode, which is asked for its settings first.
pub const OPENCODE: ProgramKit = ProgramKit {
    backend: "opencode_chat",
    role: "target",
    model: "vendor/model-1",
    program: "opencode_exec_path",
    settings: &[],
    login: "OPENCODE_API_KEY",
    takes_images: false,
    takes_tools: false,
    beforehand: Some(("debug", r#"{"snapshot": false}"#)),
    says: Says {
        answer: |text| step(text, "stop"),
        truncated: Some(|text| step(text, "length")),
        failure: |status, message| Said {
            code: 1,
            ..lines(&[json!({
                "type": "error", "sessionID": "s1",
                "error": {"name": "APIError", "data": {"message": message, "statusCode": status}},
            })])
        },
        usage: CODEX.says.usage,
    },
};

fn step(text: &str, reason: &str) -> Said {
    let event = |kind: &str, part: Value| json!({"type": kind, "sessionID": "s1", "part": part});
    lines(&[
        event("step_start", json!({"type": "step-start"})),
        event("text", json!({"type": "text", "text": text})),
        event(
            "step_finish",
            json!({"type": "step-finish", "reason": reason, "tokens": {"input": 8, "output": 5,
                "reasoning": 2, "cache": {"read": 3, "write": 0}}}),
        ),
    ])
}

/// pi, which tells of a failure with exit code 0.
pub const PI: ProgramKit = ProgramKit {
    backend: "pi_chat",
    role: "target",
    model: "vendor/model-1",
    program: "pi_chat_path",
    settings: &[("pi_chat_keys", "VENDOR_API_KEY")],
    login: "VENDOR_API_KEY",
    takes_images: false,
    takes_tools: false,
    beforehand: None,
    says: Says {
        answer: |text| message(text, json!({"stopReason": "stop"})),
        truncated: Some(|text| message(text, json!({"stopReason": "length"}))),
        failure: |status, words| {
            let words = format!("{status} {words}");
            message("", json!({"stopReason": "error", "errorMessage": words}))
        },
        usage: MESSAGES.usage,
    },
};

fn message(text: &str, end: Value) -> Said {
    let mut message = json!({
        "role": "assistant", "content": [{"type": "text", "text": text}],
        "usage": {"input": 8, "output": 7, "cacheRead": 3, "cacheWrite": 0},
    });
    for (key, value) in end.as_object().into_iter().flatten() {
        message[key] = value.clone();
    }
    lines(&[
        json!({"type": "session", "id": "s1"}),
        json!({"type": "message_end", "message": message}),
        json!({"type": "agent_end", "messages": []}),
    ])
}

/// Prints events, one a line.
fn lines(events: &[Value]) -> Said {
    Said {
        stdout: events.iter().map(|event| format!("{event}\n")).collect(),
        ..Said::default()
    }
}

/// All of them by the name of their backend.
pub const ALL: &[(&str, ProgramKit)] = &[
    ("claude_chat", CLAUDE),
    ("codex_exec", CODEX),
    ("copilot_chat", COPILOT),
    ("cursor_chat", CURSOR),
    ("opencode_chat", OPENCODE),
    ("pi_chat", PI),
];
