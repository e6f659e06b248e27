//! `cursor_chat`: the Cursor CLI as a text model.
//!
//! It asks its vendor with its own key, in a mode that only asks, with settings of ours that deny
//! every tool.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillopt_core::job::{Profile, Usage};

use crate::clean::clean;
use crate::cli::{Desk, Fault, Output, Plain, Run, environment};
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::{BackendKey, Declaration, Label, Local, Options, SECONDS, Work, key, ops};
use crate::error::CallError;

/// What the program knows of `cursor_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "cursor_chat",
    about: "the Cursor CLI as a text model",
    labels: &[Label {
        name: "cursor_chat",
        aliases: &["cursor_cli"],
        optimizer: "cursor_chat",
        target: "cursor_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some(""),
    timeout_seconds: Some(240.0),
    keys: KEYS,
    describe,
    connect: Some(|_, local| Ok(Arc::new(Client::new(local)))),
};

const KEYS: &[BackendKey] = &[ops(key(
    "cursor_chat_timeout_seconds",
    SECONDS,
    "240",
    "Seconds for one exchange. The program is `cursor_exec_path`, its key `cursor_api_key`; without a \
     model it chooses one.",
))];

const NAME: &str = "cursor-agent";
/// Its own login; nothing else of the vendor's is shown to it.
const KEY: &str = "CURSOR_API_KEY";
/// What to do about a missing login.
const LOGIN: &str = "set CURSOR_API_KEY";

fn describe(_: Options<'_>, profile: &mut Profile) {
    // It has no word for it.
    profile.reasoning_effort.clear();
}

/// A client that starts the program for each exchange.
struct Client {
    program: PathBuf,
    env: Vec<(String, String)>,
    secrets: Vec<String>,
}

impl Client {
    fn new(local: &Local<'_>) -> Self {
        let program = local.options.text("cursor_exec_path");
        let set = (local.secret)("cursor_api_key").map(|key| key.expose().to_owned());
        let given = set.or_else(|| (local.env)(KEY));
        let given = given.map(|key| key.trim().to_owned());
        let given = given.filter(|key| !key.is_empty());
        let mut env = environment::allowed(local.env, &[]);
        env.extend(given.iter().map(|key| (KEY.to_owned(), key.clone())));
        Self {
            program: environment::program(program.as_deref().unwrap_or(NAME)),
            env,
            secrets: given.into_iter().collect(),
        }
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let prompt = Plain {
            request,
            with_system: true,
        };
        prompt.refuse(NAME, "cursor_chat")?;
        let desk = Desk::new(NAME)?;
        let denied = [
            "Read(**)",
            "Write(**)",
            "Shell(*)",
            "WebFetch(*)",
            "Mcp(*:*)",
        ];
        let settings = json!({
            "version": 1,
            "editor": {"vimMode": false},
            "permissions": {"allow": [], "deny": denied},
        });
        desk.write_home(".cursor/cli-config.json", settings.to_string(), NAME)?;
        let own = [
            ("CURSOR_CONFIG_DIR", desk.home().join(".cursor").into()),
            ("CURSOR_DATA_DIR", desk.home_folder("data", NAME)?.into()),
            ("NO_OPEN_BROWSER", "1".into()),
        ];
        let run = Run {
            endpoint: NAME,
            program: self.program.clone(),
            args: arguments(request, &desk),
            env: desk.env(&self.env, own),
            folder: desk.work(),
            stdin: prompt.text().into_bytes(),
            limit: request.timeout,
            setting: "cursor_exec_path",
        };
        let output = run.output().await?;
        let secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        let reader = Reader {
            model: &request.model,
            secrets: &secrets,
        };
        clean(reader.read(&output), &secrets)
    }
}

fn arguments(request: &ChatRequest, desk: &Desk) -> Vec<OsString> {
    let plain = ["-p", "--output-format", "json", "--trust", "--mode", "ask"];
    let mut args: Vec<OsString> = plain.map(Into::into).into();
    args.extend(["--workspace".into(), desk.work().into()]);
    if !request.model.is_empty() {
        args.extend(["--model".into(), request.model.as_str().into()]);
    }
    args
}

/// Reads what the program prints: one result.
struct Reader<'a> {
    /// The model that was asked for.
    model: &'a str,
    /// Kept out of messages.
    secrets: &'a [&'a str],
}

#[derive(Deserialize)]
struct Ended {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    subtype: String,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    result: String,
    #[serde(default)]
    usage: Tokens,
}

/// What was in the cache is not among the input. Older releases tell nothing.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
}

impl Tokens {
    fn usage(&self) -> Usage {
        Usage {
            calls: 1,
            prompt_tokens: self.input_tokens + self.cache_read_tokens,
            completion_tokens: self.output_tokens,
            cached_tokens: self.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens,
            ..Usage::default()
        }
    }
}

impl Reader<'_> {
    fn read(&self, output: &Output) -> Result<ChatReply, CallError> {
        let lines = output.stdout.split(|byte| *byte == b'\n');
        let mut events = lines.filter_map(|line| serde_json::from_slice::<Ended>(line).ok());
        let ended = events.rfind(|event| event.kind == "result");
        let usage = ended
            .as_ref()
            .map_or_else(Usage::default, |e| e.usage.usage());
        match ended {
            Some(ended) if ended.is_error || !matches!(&*ended.subtype, "" | "success") => {
                Err(self.fault(&ended.result, usage))
            }
            Some(ended) if output.code == Some(0) => {
                Ok(ChatReply::text(ended.result.trim(), usage))
            }
            _ => {
                let stdout = output.plain_words();
                let told = [output.stderr.trim(), stdout.as_str()];
                let words = told.into_iter().find(|words| !words.is_empty());
                Err(self.fault(words.unwrap_or("there is no result in its output"), usage))
            }
        }
    }

    fn fault(&self, words: &str, usage: Usage) -> CallError {
        Fault {
            endpoint: NAME,
            words,
            status: None,
            login: LOGIN,
            model: self.model,
            usage,
            secrets: self.secrets,
        }
        .class()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":" pong ","usage":{"inputTokens":8,"outputTokens":7,"cacheReadTokens":3}}"#;

    #[track_caller]
    fn check(stdout: &str, stderr: &str, code: i32, expected: &str) {
        let reader = Reader {
            model: "m",
            secrets: &["sk-secret"],
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
    fn the_result_is_the_answer() {
        check(WELL, "", 0, r#"text: "pong""#);
        check(
            WELL,
            "",
            0,
            "prompt_tokens: 11, completion_tokens: 7, cached_tokens: 3",
        );
        check(WELL, "", 1, "Malformed");
        check("garbage", "", 0, "garbage");
        check(&WELL[..WELL.len() / 2], "", 0, "no result");
    }

    #[test]
    fn failures_have_their_class() {
        let failed =
            |words: &str| format!(r#"{{"type":"result","is_error":true,"result":"{words}"}}"#);
        check(&failed("invalid api key sk-secret"), "", 0, "Unauthorized");
        check(&failed("you hit your limit"), "", 0, "Unauthorized");
        check(&failed("error 429"), "", 0, "Throttled");
        check("", "Unknown option --x", 0, "Misconfigured");
        check("", "boom", 1, "boom");
    }
}
