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
];
