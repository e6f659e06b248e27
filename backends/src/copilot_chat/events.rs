//! Reads what the Copilot program prints, and the file in which it counts tokens.

use serde::Deserialize;
use serde_json::Value;
use skillopt_core::job::Usage;

use crate::cli::{Fault, Output};
use crate::contract::ChatReply;
use crate::error::CallError;

/// What to do about a missing login.
const LOGIN: &str = "set COPILOT_GITHUB_TOKEN, or `copilot_exec_home` to a home in which \
    `copilot` is logged in";

/// Reads the output for one request.
pub(super) struct Reader<'a> {
    /// The program, for messages.
    pub(super) endpoint: &'a str,
    /// Kept out of messages.
    pub(super) secrets: &'a [&'a str],
    /// The model that was asked for.
    pub(super) model: &'a str,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    data: Value,
}

impl Reader<'_> {
    pub(super) fn read(&self, output: &Output, counted: &[u8]) -> Result<ChatReply, CallError> {
        let usage = usage(counted);
        let mut said: Vec<String> = Vec::new();
        let mut has_answered = false;
        let mut error = None;
        let lines = output.stdout.split(|byte| *byte == b'\n');
        for event in lines.filter_map(|line| serde_json::from_slice::<Event>(line).ok()) {
            match event.kind.as_str() {
                "assistant.message" => {
                    has_answered = true;
                    let text = event.data["content"].as_str().unwrap_or_default();
                    if !text.trim().is_empty() {
                        said.push(text.to_owned());
                    }
                }
                "session.error" => error = Some(event.data),
                _ => {}
            }
        }
        if output.code != Some(0) {
            let stdout = output.plain_words();
            let words = error.as_ref().and_then(|error| error["message"].as_str());
            let told = [words, Some(output.stderr.trim()), Some(stdout.as_str())];
            let words = told.into_iter().flatten().find(|words| !words.is_empty());
            let status = error
                .as_ref()
                .and_then(|error| error["statusCode"].as_u64());
            let status = status.and_then(|status| u16::try_from(status).ok());
            return Err(self.fault(words.unwrap_or("it printed nothing"), status, usage));
        }
        if !has_answered {
            return Err(self.fault("there is no message in its output", None, usage));
        }
        Ok(ChatReply::text(said.join("\n").trim(), usage))
    }

    fn fault(&self, words: &str, status: Option<u16>, usage: Usage) -> CallError {
        Fault {
            endpoint: self.endpoint,
            words,
            status,
            login: LOGIN,
            model: self.model,
            usage,
            secrets: self.secrets,
        }
        .class()
    }
}

/// Sums the tokens of all models; cached ones are among the input. Zeros if nothing was counted.
fn usage(counted: &[u8]) -> Usage {
    let counted: Value = serde_json::from_slice(counted).unwrap_or_default();
    let models = counted["modelMetrics"].as_object();
    let sum = |key: &str| -> u64 {
        let models = models.into_iter().flat_map(|models| models.values());
        models
            .filter_map(|model| model["usage"][key].as_u64())
            .sum()
    };
    Usage {
        calls: 1,
        prompt_tokens: sum("inputTokens"),
        completion_tokens: sum("outputTokens"),
        cached_tokens: sum("cacheReadTokens"),
        reasoning_tokens: sum("reasoningTokens"),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stdout: &str, stderr: &str, code: i32, expected: &str) {
        let reader = Reader {
            endpoint: "copilot",
            secrets: &["sk-secret"],
            model: "m",
        };
        let output = Output {
            code: Some(code),
            stdout: stdout.as_bytes().to_owned(),
            stderr: stderr.to_owned(),
        };
        let counted = br#"{"modelMetrics":{"a":{"usage":{"inputTokens":21,"outputTokens":3,"cacheReadTokens":2}},"b":{"usage":{"inputTokens":1}}}}"#;
        let seen = format!("{:?}", reader.read(&output, counted));
        assert!(seen.contains(expected), "{seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }

    #[test]
    fn messages_are_joined_and_junk_is_left() {
        let stdout = concat!(
            "hello\n[]\nnull\n{broken\n",
            r#"{"type":"tool.call","data":{"content":"no"}}"#,
            "\n",
            r#"{"type":"assistant.message","data":{"content":"first"}}"#,
            "\n",
            r#"{"type":"assistant.message","data":"str"}"#,
            "\n",
            r#"{"type":"assistant.message","data":{"content":["x"]}}"#,
            "\n",
            r#"{"type":"assistant.message","data":{"content":"second "}}"#,
        );
        check(stdout, "", 0, r#"text: "first\nsecond""#);
        check(
            stdout,
            "",
            0,
            "prompt_tokens: 22, completion_tokens: 3, cached_tokens: 2",
        );
    }

    #[test]
    fn failures_have_their_class() {
        check("", "", 0, "Malformed");
        // What the model said before a crash is not what the program says of it.
        for words in [
            "the context window",
            "content_filter",
            "please login",
            "HTTP 401",
        ] {
            let said = serde_json::json!({"type": "assistant.message", "data": {"content": words}});
            let said = said.to_string();
            check(&said, "", 139, "Malformed");
            check(&said[..said.len() - 3], "", 139, "Malformed");
        }
        check(
            "",
            "Error: No authentication information found.",
            1,
            "Unauthorized",
        );
        check(
            r#"{"type":"session.error","data":{"message":"rejected sk-secret","statusCode":401}}"#,
            "",
            1,
            "Unauthorized",
        );
        check(
            r#"{"type":"session.error","data":{"message":"m","statusCode":429}}"#,
            "",
            1,
            "Throttled",
        );
        check("", "kaboom", 3, "kaboom");
    }
}
