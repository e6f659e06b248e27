//! Reads the events of `opencode run --format json`, strictly: a line that is none, events of two
//! sessions or a step without an end are no answer, whatever was said in them.

use serde_json::Value;
use skillopt_core::job::Usage;

use crate::cli::Output;
use crate::contract::{ChatReply, Finish};
use crate::error::CallError;

/// What to do about a missing login.
pub(super) const LOGIN: &str = "log in with `opencode auth login`, or name the variable that holds \
    a key in `opencode_chat_keys`";

/// A stream of events as far as it was read.
#[derive(Default)]
struct Stream {
    session: Option<String>,
    text: String,
    usage: Usage,
    /// Whether a step has begun, and why the last one ended.
    has_begun: bool,
    ended: Option<String>,
    failure: Option<(Option<u16>, String)>,
}

/// Reads the output for one request; `fault` classifies a failure that the program tells of.
pub(super) fn read(
    output: &Output,
    fault: impl Fn(&str, Option<u16>, Usage) -> CallError,
) -> Result<ChatReply, CallError> {
    let mut stream = Stream {
        usage: Usage {
            calls: 1,
            ..Usage::default()
        },
        ..Stream::default()
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let taken = lines.map(|line| stream.take(line)).find(Result::is_err);
    let usage = stream.usage;
    if let Some((status, words)) = &stream.failure {
        return Err(fault(words, *status, usage));
    }
    if output.code != Some(0) {
        let stdout = output.plain_words();
        let told = [output.stderr.trim(), stdout.as_str()];
        let words = told.into_iter().find(|words| !words.is_empty());
        return Err(fault(words.unwrap_or("it printed nothing"), None, usage));
    }
    if let Some(Err(why)) = taken {
        return Err(fault(why, None, usage));
    }
    let finish = match stream.ended.as_deref() {
        None => return Err(fault("its output has no end", None, usage)),
        Some("length") => Finish::Length,
        Some("content-filter") => return Err(fault("content_filter", None, usage)),
        Some("tool-calls") => return Err(fault("it wants a tool, and has none", None, usage)),
        Some("stop" | "") => Finish::Stop,
        Some(reason) => return Err(fault(&format!("it ended with `{reason}`"), None, usage)),
    };
    Ok(ChatReply {
        finish,
        ..ChatReply::text(stream.text.trim(), usage)
    })
}

impl Stream {
    /// Takes one line.
    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        let event: Value = serde_json::from_str(line).map_err(|_| "a line is no event")?;
        let (Some(kind), Some(session)) = (event["type"].as_str(), event["sessionID"].as_str())
        else {
            return Err("a line is no event");
        };
        let first = self.session.get_or_insert_with(|| session.to_owned());
        if *first != session {
            return Err("its events are of two sessions");
        }
        let part = &event["part"];
        match kind {
            "step_start" => {
                self.has_begun = true;
                self.ended = None;
                self.text.clear();
            }
            "text" | "step_finish" if !self.has_begun || self.ended.is_some() => {
                return Err("an event stands outside of a step");
            }
            "text" => self
                .text
                .push_str(part["text"].as_str().unwrap_or_default()),
            "step_finish" => {
                self.count(&part["tokens"]);
                self.ended = Some(part["reason"].as_str().unwrap_or_default().to_owned());
            }
            "tool_use" => return Err("a tool was used, and there should be none"),
            "error" => self.failure = Some(failure(&event["error"])),
            _ => {}
        }
        Ok(())
    }

    /// What was in the cache, and what was thought, stands apart.
    fn count(&mut self, tokens: &Value) {
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let (read, written) = (&tokens["cache"]["read"], &tokens["cache"]["write"]);
        let (read, written) = (count(read), count(written));
        let thoughts = count(&tokens["reasoning"]);
        self.usage += Usage {
            prompt_tokens: count(&tokens["input"]) + read + written,
            completion_tokens: count(&tokens["output"]) + thoughts,
            cached_tokens: read,
            cache_write_tokens: written,
            reasoning_tokens: thoughts,
            ..Usage::default()
        };
    }
}

/// Returns the provider's status, if it is told, and the words.
fn failure(error: &Value) -> (Option<u16>, String) {
    let status = error["data"]["statusCode"].as_u64();
    let words = [&error["data"]["message"], &error["name"]];
    let words = words.into_iter().find_map(Value::as_str);
    (
        status.and_then(|status| u16::try_from(status).ok()),
        words.unwrap_or("an error without words").to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"type":"step_start","sessionID":"s1","part":{"type":"step-start"}}"#;
    const TEXT: &str = r#"{"type":"text","sessionID":"s1","part":{"type":"text","text":" pong"}}"#;
    /// As release 1.18.33 prints it.
    const END: &str = r#"{"type":"step_finish","sessionID":"s1","part":{"reason":"stop","type":"step-finish","tokens":{"total":18,"input":8,"output":5,"reasoning":2,"cache":{"write":0,"read":3}},"cost":0}}"#;

    #[track_caller]
    fn check(lines: &[&str], stderr: &str, code: i32, expected: &str) {
        let output = Output {
            code: Some(code),
            stdout: lines.join("\n").into_bytes(),
            stderr: stderr.to_owned(),
        };
        let fault = |words: &str, status: Option<u16>, _| CallError::Malformed {
            endpoint: "opencode".to_owned(),
            detail: format!("{status:?} {words}"),
        };
        let seen = format!("{:?}", read(&output, fault));
        assert!(seen.contains(expected), "{seen}");
    }

    #[test]
    fn the_words_of_the_last_step_are_the_answer() {
        check(&[START, TEXT, END], "", 0, r#"text: "pong""#);
        check(
            &[START, TEXT, END, START, TEXT, END],
            "",
            0,
            r#"text: "pong""#,
        );
        let usage = "prompt_tokens: 11, completion_tokens: 7, cached_tokens: 3";
        check(&[START, TEXT, END], "", 0, usage);
        let unsaid = END.replace(r#""reason":"stop","#, "");
        check(&[START, TEXT, &unsaid], "", 0, r#"text: "pong""#);
        let cut = END.replace("stop\"", "length\"");
        check(&[START, TEXT, &cut], "", 0, "finish: Length");
    }

    #[test]
    fn whatever_is_not_whole_is_no_answer() {
        check(&[], "", 0, "no end");
        check(&[START, TEXT], "", 0, "no end");
        check(&[START, TEXT, END, "{bad"], "", 0, "no event");
        check(&[START, TEXT, END, "words"], "", 0, "no event");
        check(&[START, TEXT, END, START], "", 0, "no end");
        check(&[TEXT, END], "", 0, "outside of a step");
        check(&[START, END, TEXT], "", 0, "outside of a step");
        let other = TEXT.replace("s1", "s2");
        check(&[START, &other, END], "", 0, "two sessions");
        let tool = TEXT.replace("\"text\",\"sess", "\"tool_use\",\"sess");
        check(&[START, &tool, END], "", 0, "a tool was used");
        let calls = END.replace("stop\"", "tool-calls\"");
        check(&[START, TEXT, &calls], "", 0, "wants a tool");
        for reason in ["error", "other", "unknown", "a word of tomorrow"] {
            let ended = END.replace("stop\"", &format!("{reason}\""));
            check(
                &[START, TEXT, &ended],
                "",
                0,
                &format!("it ended with `{reason}`"),
            );
        }
        check(&[START, TEXT, END], "kaboom", 3, "None kaboom");
    }

    #[test]
    fn a_failure_comes_with_its_status() {
        let error = r#"{"type":"error","sessionID":"s1","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}"#;
        check(&[error], "", 1, "Some(401) no");
        check(&[START, error], "", 0, "Some(401) no");
        let bare = r#"{"type":"error","sessionID":"s1","error":{"name":"X"}}"#;
        check(&[bare], "", 1, "None X");
    }
}
