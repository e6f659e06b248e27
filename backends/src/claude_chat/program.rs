//! The Claude program as a text model, for people with a subscription. It gets no tools, and a
//! system prompt of ours in place of its own.

use std::ffi::OsString;
use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillopt_core::job::Profile;

use super::generation;
use super::result;
use crate::clean::clean;
use crate::cli::{Desk, Envelope, Prompt, Run, environment, images, system};
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;
use crate::picture::Picture;

const NAME: &str = "claude";
/// What is said where the caller says nothing: without a word the program would say who it is.
const NO_SYSTEM: &str = "You answer in text.";
/// Logins that the program takes from its environment.
const LOGINS: &[&str] = &["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];

/// A client that starts the program for each exchange.
pub(super) struct Client {
    program: PathBuf,
    env: Vec<(String, String)>,
    secrets: Vec<String>,
    /// Where the machine's user is logged in; looked at if no credential is given.
    login: Option<PathBuf>,
}

impl Client {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the clients of both transports are made alike"
    )]
    pub(super) fn new(profile: &Profile, local: &Local<'_>) -> Result<Self, CallError> {
        let program = local.options.text("claude_cli_bin");
        let mut env = environment::allowed(local.env, LOGINS);
        if let Some(key) = super::api_key(local) {
            env.push(("ANTHROPIC_API_KEY".to_owned(), key));
        }
        let is_login = |name: &str| LOGINS.contains(&name) || name == "ANTHROPIC_API_KEY";
        let given = env.iter().filter(|(name, _)| is_login(name));
        let secrets: Vec<String> = given.map(|(_, value)| value.trim().to_owned()).collect();
        let folder = environment::folder(local.env, "CLAUDE_CONFIG_DIR", ".claude");
        if !profile.endpoint.is_empty() {
            let base = profile.endpoint.clone();
            env.push(("ANTHROPIC_BASE_URL".to_owned(), base));
        }
        Ok(Self {
            program: environment::program(program.as_deref().unwrap_or(NAME)),
            login: folder
                .filter(|_| secrets.is_empty())
                .map(|folder| folder.join(".credentials.json")),
            env,
            secrets,
        })
    }

    /// Returns the environment of one exchange.
    fn env(
        &self,
        request: &ChatRequest,
        desk: &Desk,
        settings: PathBuf,
    ) -> Vec<(String, OsString)> {
        let general = self.env.iter();
        let general = general.map(|(name, value)| (name.clone(), OsString::from(value)));
        let own: [(&str, OsString); 8] = [
            ("HOME", desk.home().into()),
            ("TMPDIR", desk.temporary().into()),
            ("CLAUDE_CONFIG_DIR", settings.into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            // Whoever called decides whether to try again.
            ("CLAUDE_CODE_MAX_RETRIES", "0".into()),
            (
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
                request.max_tokens.to_string().into(),
            ),
            (
                "API_TIMEOUT_MS",
                request.timeout.as_millis().to_string().into(),
            ),
        ];
        let own = own
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        general.chain(own).collect()
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let desk = Desk::new(NAME)?;
        let settings = desk.home_folder(".claude", NAME)?;
        let credentials = settings.join(".credentials.json");
        desk.link(self.login.as_deref(), &credentials, NAME)?;
        let said = system(&request.messages);
        let said = if said.is_empty() { NO_SYSTEM } else { &said };
        let said = desk.write("system_prompt.txt", said, NAME)?;
        let has_images = images(&request.messages).next().is_some();
        let mut args = arguments(request, has_images);
        args.extend(["--system-prompt-file".into(), said.into()]);
        let prompt = Prompt {
            request,
            with_system: false,
        };
        let prompt = prompt.text();
        let run = Run {
            endpoint: NAME,
            program: self.program.clone(),
            args,
            env: self.env(request, &desk, settings),
            folder: desk.work(),
            stdin: if has_images {
                with_images(request, prompt).into_bytes()
            } else {
                prompt.into_bytes()
            },
            limit: request.timeout,
            setting: "claude_cli_bin",
        };
        let output = run.output().await?;
        let known = environment::known(self.login.as_deref(), &self.secrets);
        let secrets: Vec<&str> = known.iter().map(String::as_str).collect();
        let reader = result::Reader {
            endpoint: NAME,
            secrets: &secrets,
            request,
        };
        clean(reader.read(&output), &secrets)
    }
}

fn arguments(request: &ChatRequest, has_images: bool) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["-p".into()];
    let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
    if has_images {
        // Only a stream of messages holds images.
        add(&["--input-format", "stream-json"]);
        add(&["--output-format", "stream-json", "--verbose"]);
    } else {
        add(&["--output-format", "json"]);
    }
    // No tools, no settings, servers, skills or memory of the machine's user, nothing kept.
    add(&["--tools", "", "--setting-sources", ""]);
    add(&["--strict-mcp-config", "--disable-slash-commands"]);
    add(&["--no-session-persistence"]);
    if !request.model.is_empty() {
        add(&["--model", &request.model]);
    }
    let effort = request.reasoning_effort.as_deref();
    if let Some(effort) = effort.and_then(generation::known) {
        add(&["--effort", effort]);
    }
    if let Some(schema) = Envelope::schema(request) {
        add(&["--json-schema", &schema.to_string()]);
    }
    args
}

/// Writes the one message that holds the images and the prompt, which names them by number.
fn with_images(request: &ChatRequest, prompt: String) -> String {
    let images = images(&request.messages).map(|picture| match picture {
        Picture::Inline { media_type, base64 } => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": base64},
        }),
        Picture::Remote(url) => json!({"type": "image", "source": {"type": "url", "url": url}}),
    });
    let text = json!({"type": "text", "text": prompt});
    let content: Vec<Value> = images.chain([text]).collect();
    let message = json!({"role": "user", "content": content});
    format!("{}\n", json!({"type": "user", "message": message}))
}
