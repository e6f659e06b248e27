//! Events of a CLI that a user declared: which lines mean what is said in the declaration.

use serde_json::Value;
use skillopt_backends::agents::declared::{Events, TextIn};

use super::{End, Reader, failure, text_at};
use crate::account::{Account, Outcome, ToolUse};

pub(super) struct Declared {
    events: Events,
    answer: Option<String>,
    tools: Vec<ToolUse>,
    failure: Option<String>,
}

impl Declared {
    pub(super) fn new(events: &Events) -> Self {
        Self {
            events: events.clone(),
            answer: None,
            tools: Vec::new(),
            failure: None,
        }
    }
}

impl Reader for Declared {
    fn event(&mut self, event: &Value) {
        let kind = text_at(event, &["type"]).unwrap_or_default();
        let holds = |text: &TextIn| text.event == kind;
        if holds(&self.events.answer)
            && let Some(text) = found(event, &self.events.answer.text).and_then(Value::as_str)
        {
            self.answer = Some(text.to_owned());
        }
        if let Some(tool) = self.events.tool.as_ref().filter(|tool| tool.event == kind) {
            let name = found(event, &tool.name).and_then(Value::as_str);
            let ok = tool.ok.as_ref().and_then(|ok| found(event, ok)?.as_bool());
            self.tools.push(ToolUse {
                name: name.unwrap_or_default().to_owned(),
                ok: ok != Some(false),
            });
        }
        if let Some(text) = self.events.failure.as_ref().filter(|text| holds(text)) {
            let words = found(event, &text.text).and_then(Value::as_str);
            self.failure = Some(words.unwrap_or_default().to_owned());
        }
    }

    fn account(self: Box<Self>, end: End) -> Account {
        let mut account = Account {
            tool_calls: self.tools,
            ..Account::of(ended(end))
        };
        if let Some(words) = self.failure {
            account.outcome = failure::of_words(&words);
            account.errors.push(words);
        } else if self.answer.is_none() && account.outcome == Outcome::Success {
            // It ended well without the line that its declaration promises.
            account.outcome = Outcome::Crashed;
        } else {
            account.final_text = self.answer;
        }
        account
    }
}

/// What the end of a program means whose events nobody knows.
pub(super) const fn ended(end: End) -> Outcome {
    match end.exit_code {
        _ if end.by_signal() => Outcome::Killed,
        Some(0) => Outcome::Success,
        _ => Outcome::Crashed,
    }
}

fn found<'a>(event: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(event, |value, key| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::streams::Stream;

    use super::*;

    fn read(lines: &[&str], exit_code: Option<i32>) -> Account {
        let events = serde_json::from_value(json!({
            "answer": {"event": "message", "text": "parts.0.text"},
            "tool": {"event": "tool", "name": "name", "ok": "worked"},
            "failure": {"event": "error", "text": "why"},
        }));
        let mut stream = Stream::declared(&events.unwrap());
        lines.iter().for_each(|line| stream.line(line.as_bytes()));
        stream.end(End {
            exit_code,
            was_told_to_go: false,
        })
    }

    #[test]
    fn lines_mean_what_the_declaration_says() {
        let one = r#"{"type":"message","parts":[{"text":"one"}]}"#;
        let two = r#"{"type":"message","parts":[{"text":"two"}]}"#;
        let tool = r#"{"type":"tool","name":"ls","worked":false}"#;
        let account = read(&[one, "noise", tool, two], Some(0));
        assert_eq!(account.outcome, Outcome::Success);
        assert_eq!(account.final_text.as_deref(), Some("two"));
        assert_eq!(account.unread_lines, 1);
        assert!(!account.tool_calls[0].ok);
        for (lines, exit_code, want) in [
            (&[][..], Some(0), Outcome::Crashed),
            (&[one][..], Some(3), Outcome::Crashed),
            (&[one][..], None, Outcome::Killed),
            (
                &[one, r#"{"type":"error","why":"status 401"}"#][..],
                Some(0),
                Outcome::AuthError,
            ),
        ] {
            assert_eq!(
                read(lines, exit_code).outcome,
                want,
                "{lines:?} {exit_code:?}"
            );
        }
    }
}
