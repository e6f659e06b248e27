//! `pi_chat`: the pi CLI as a text model.
//!
//! It is asked for its events (`--mode json`): its plain output tells neither a cut answer from a
//! whole one nor what was used, and a failure of its provider ends with exit code 0 in its events.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillopt_core::job::{Profile, Usage};
use skillopt_core::kind::Kind;

use crate::clean::clean;
use crate::cli::{Desk, Fault, Output, Plain, Run, environment, system};
use crate::contract::{ChatModel, ChatReply, ChatRequest, Finish};
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, Work, checked, key, ops,
};
use crate::error::CallError;

/// What the program knows of `pi_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "pi_chat",
    about: "the pi CLI as a text model",
    labels: &[Label {
        name: "pi_chat",
        aliases: &["pi", "pi_cli"],
        optimizer: "pi_chat",
        target: "pi_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some(""),
    timeout_seconds: Some(180.0),
    keys: KEYS,
    describe,
    connect: Some(|_, local| Ok(Arc::new(Client::new(local)))),
};

const KEYS: &[BackendKey] = &[
    ops(key(
        "pi_chat_path",
        Kind::Path,
        NAME,
        "The pi program. `model.optimizer` and `model.target` name its models as `provider/model`; without \
         one the program chooses.",
    )),
    checked(
        ops(key(
            "pi_chat_keys",
            Kind::Words,
            "none",
            "Variables of the environment with keys of providers that the program may see, e.g. \
         `OPENAI_API_KEY`. Without any, the login of the machine's user counts.",
        )),
        |options| environment::names_variables(options, "pi_chat_keys").map(|()| None),
    ),
    ops(key(
        "pi_chat_timeout_seconds",
        SECONDS,
        "180",
        "Seconds for one exchange.",
    )),
];

const NAME: &str = "pi";
/// What is said where the caller says nothing: without a word the program would say who it is.
const NO_SYSTEM: &str = "You answer in text.";
/// What to do about a missing login.
const LOGIN: &str = "log in with `pi`, or name the variable that holds a key in `pi_chat_keys`";
/// A text model: no tools, nothing that is found on the machine, nothing kept.
const PLAIN: &[&str] = &[
    "-p",
    "--mode",
    "json",
    "--no-session",
    "--no-tools",
    "--no-skills",
    "--no-context-files",
    "--no-extensions",
    "--no-prompt-templates",
    "--no-themes",
];

fn describe(_: Options<'_>, profile: &mut Profile) {
    // Its models do not all take one.
    profile.reasoning_effort.clear();
}

/// A client that starts the program for each exchange.
struct Client {
    program: PathBuf,
    env: Vec<(String, String)>,
    secrets: Vec<String>,
    /// Where the machine's user is logged in; looked at if no key is given.
    login: Option<PathBuf>,
}

impl Client {
    fn new(local: &Local<'_>) -> Self {
        let program = local.options.text("pi_chat_path");
        let keys = environment::named(local.options, "pi_chat_keys");
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let env = environment::allowed(local.env, &keys);
        let given = env.iter().filter(|(name, _)| keys.contains(&name.as_str()));
        let secrets: Vec<String> = given.map(|(_, value)| value.trim().to_owned()).collect();
        let folder = environment::folder(local.env, "PI_CODING_AGENT_DIR", ".pi/agent");
        Self {
            program: environment::program(program.as_deref().unwrap_or(NAME)),
            login: folder
                .filter(|_| secrets.is_empty())
                .map(|folder| folder.join("auth.json")),
            env,
            secrets,
        }
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let prompt = Plain {
            request,
            with_system: false,
        };
        prompt.refuse(NAME, "pi_chat")?;
        let desk = Desk::new(NAME)?;
        let folder = desk.home_folder(".pi/agent", NAME)?;
        desk.link(self.login.as_deref(), &folder.join("auth.json"), NAME)?;
        // Whoever called decides whether to try again.
        let settings = json!({"retry": {"enabled": false, "provider": {"maxRetries": 0}}});
        desk.write_home(".pi/agent/settings.json", settings.to_string(), NAME)?;
        let own = [
            ("PI_CODING_AGENT_DIR", folder.into()),
            ("PI_OFFLINE", "1".into()),
            ("PI_SKIP_VERSION_CHECK", "1".into()),
            ("PI_TELEMETRY", "0".into()),
        ];
        let run = Run {
            endpoint: NAME,
            program: self.program.clone(),
            args: arguments(request, &desk)?,
            env: desk.env(&self.env, own),
            folder: desk.work(),
            stdin: prompt.text().into_bytes(),
            limit: request.timeout,
            setting: "pi_chat_path",
        };
        let output = run.output().await?;
        let known = environment::known(self.login.as_deref(), &self.secrets);
        let secrets: Vec<&str> = known.iter().map(String::as_str).collect();
        let reader = Reader {
            model: &request.model,
            secrets: &secrets,
        };
        clean(reader.read(&output), &secrets)
    }
}

fn arguments(request: &ChatRequest, desk: &Desk) -> Result<Vec<OsString>, CallError> {
    let mut args: Vec<OsString> = PLAIN.iter().map(OsString::from).collect();
    let said = system(&request.messages);
    let said = if said.is_empty() { NO_SYSTEM } else { &said };
    // The path of a file stands for what is in it; an argument could be too long.
    let said = desk.write("system_prompt.txt", said, NAME)?;
    args.extend(["--system-prompt".into(), said.into()]);
    args.extend(["--append-system-prompt".into(), "".into()]);
    if !request.model.is_empty() {
        args.extend(["--model".into(), request.model.as_str().into()]);
    }
    Ok(args)
}

/// Reads what the program prints.
struct Reader<'a> {
    /// The model that was asked for.
    model: &'a str,
    /// Kept out of messages.
    secrets: &'a [&'a str],
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageEnd {
        message: Message,
    },
    AgentEnd,
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Message {
    role: String,
    content: Vec<Part>,
    usage: Tokens,
    stop_reason: String,
    error_message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: String,
}

/// What was in the cache, or went into it, is not among the input.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl Tokens {
    fn usage(&self) -> Usage {
        Usage {
            calls: 1,
            prompt_tokens: self.input + self.cache_read + self.cache_write,
            completion_tokens: self.output,
            cached_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            ..Usage::default()
        }
    }
}

impl Reader<'_> {
    fn read(&self, output: &Output) -> Result<ChatReply, CallError> {
        let mut last = None;
        let mut has_ended = false;
        let lines = output.stdout.split(|byte| *byte == b'\n');
        for event in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            match event {
                Event::MessageEnd { message } if message.role == "assistant" => {
                    last = Some(message);
                }
                Event::AgentEnd => has_ended = true,
                Event::MessageEnd { .. } | Event::Other => {}
            }
        }
        let message = last.unwrap_or_default();
        let usage = message.usage.usage();
        if matches!(message.stop_reason.as_str(), "error" | "aborted") {
            return Err(self.fault(&message.error_message, usage));
        }
        if output.code != Some(0) {
            let stdout = output.plain_words();
            let told = [output.stderr.trim(), stdout.as_str()];
            let words = told.into_iter().find(|words| !words.is_empty());
            return Err(self.fault(words.unwrap_or("it printed nothing"), usage));
        }
        let finish = match message.stop_reason.as_str() {
            "stop" if has_ended => Finish::Stop,
            "length" if has_ended => Finish::Length,
            _ => return Err(self.fault("there is no whole message in its output", usage)),
        };
        let parts = message.content.iter().filter(|part| part.kind == "text");
        let text: String = parts.map(|part| part.text.as_str()).collect();
        Ok(ChatReply {
            finish,
            ..ChatReply::text(text.trim(), usage)
        })
    }

    fn fault(&self, words: &str, usage: Usage) -> CallError {
        // What its provider said begins with the status.
        let first = words.split_whitespace().next().unwrap_or_default();
        Fault {
            endpoint: NAME,
            words,
            status: first.parse().ok().filter(|n| (400..600).contains(n)),
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

    /// What release 0.74.2 prints, without what nobody reads.
    const ANSWER: &str = concat!(
        r#"{"type":"session","version":3,"id":"s","cwd":"w"}"#,
        "\n",
        r#"{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"q"}]}}"#,
        "\n",
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"pong"}],"usage":{"input":8,"output":7,"cacheRead":3,"cacheWrite":0},"stopReason":"stop"}}"#,
        "\n",
        r#"{"type":"agent_end","messages":[]}"#,
        "\n",
    );

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
    fn the_last_message_is_the_answer() {
        check(ANSWER, "", 0, r#"text: "pong""#);
        check(
            ANSWER,
            "",
            0,
            "prompt_tokens: 11, completion_tokens: 7, cached_tokens: 3",
        );
        check(
            &ANSWER.replace("\"stop\"", "\"length\""),
            "",
            0,
            "finish: Length",
        );
    }

    #[test]
    fn a_message_that_is_not_whole_is_no_answer() {
        let cut = ANSWER.replace("agent_end", "turn_end");
        check(&cut, "", 0, "no whole message");
        let calls = ANSWER.replace("\"stop\"", "\"toolUse\"");
        check(&calls, "", 0, "no whole message");
        check(ANSWER, "", 1, "Malformed");
        check("oops", "", 1, "oops");
        check(" ", "", 0, "Malformed");
    }

    #[test]
    fn failures_have_their_class() {
        let failed = |words: &str| {
            ANSWER.replace(
                r#""stopReason":"stop""#,
                &format!(r#""stopReason":"error","errorMessage":"{words}""#),
            )
        };
        check(&failed("401 no sk-secret"), "", 0, "Unauthorized");
        check(&failed("429 slowly"), "", 0, "Throttled");
        check(&failed("500 oh"), "", 0, "Server");
        check(&failed("400 prompt is too long"), "", 0, "Rejected");
        check(
            "",
            "Error: Model \"x\" not found. Use --list-models to see them",
            1,
            "Misconfigured",
        );
    }
}
