//! What holds for the events of every CLI.

use super::*;
use crate::account::{Account, Outcome};
use crate::streams::{End, Stream};

#[track_caller]
fn read(dialect: Dialect, lines: &[&str], end: End) -> Account {
    let mut stream = Stream::new(dialect);
    for line in lines {
        stream.line(line.as_bytes());
    }
    stream.end(end)
}

const WELL: End = End {
    exit_code: Some(0),
    was_told_to_go: false,
};

#[test]
fn what_is_no_event_is_counted_and_kept_out() {
    for dialect in ALL.iter().map(|cli| cli.dialect) {
        let lines = [
            "",
            "[]",
            "7",
            "not json",
            "{\"type\":\"of the future\"}",
            "{}",
        ];
        let account = read(dialect, &lines, WELL);
        assert_eq!(account.unread_lines, 3, "{dialect:?}");
        assert_eq!(
            account.outcome,
            Outcome::Crashed,
            "{dialect:?}: it said nothing"
        );
    }
}

fn codex() -> Dialect {
    find("codex_exec").unwrap().dialect
}

#[test]
fn a_signal_of_ours_ends_it_whatever_it_printed() {
    let lines = [
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"done"}}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#,
    ];
    let told = End {
        was_told_to_go: true,
        ..WELL
    };
    assert_eq!(read(codex(), &lines, WELL).outcome, Outcome::Success);
    assert_eq!(read(codex(), &lines, told).outcome, Outcome::Killed);
}

#[test]
fn a_stray_value_in_an_event_does_no_harm() {
    for dialect in ALL.iter().map(|cli| cli.dialect) {
        for kind in [
            "item.completed",
            "turn.completed",
            "turn.failed",
            "assistant",
            "user",
            "result",
            "text",
            "tool_use",
            "tool_result",
            "step_finish",
            "error",
            "message",
            "assistant.message",
            "tool.execution_complete",
            "session.error",
            "tool_call",
        ] {
            for rest in [
                "",
                ",\"item\":7",
                ",\"message\":[1]",
                ",\"data\":null",
                ",\"part\":\"x\"",
            ] {
                let line = format!("{{\"type\":\"{kind}\"{rest}}}");
                let account = read(dialect, &[&line], WELL);
                assert_eq!(account.unread_lines, 0, "{dialect:?} {line}");
            }
        }
    }
}
