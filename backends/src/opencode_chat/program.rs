//! Starts opencode for one exchange: to ask for its settings, then to ask its model.

use std::ffi::OsString;
use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::Value;
use skillopt_core::job::{Profile, Usage};

use super::events::{self, LOGIN};
use super::quiet::{self, AGENT, KEY, Own, PROVIDER, Resolved};
use crate::clean::clean;
use crate::cli::{Desk, Fault, Output, Plain, Run, environment, system};
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;

const NAME: &str = "opencode";
/// What is said where the caller says nothing: without a word the program would say who it is.
const NO_SYSTEM: &str = "You answer in text.";
/// The vendor's own key.
const VENDOR_KEY: &str = "OPENCODE_API_KEY";
/// Switches of its own: no plugins, no settings of a project, nothing told to others, no tool.
const QUIET: &[(&str, &str)] = &[
    ("NO_COLOR", "1"),
    ("OPENCODE_PURE", "1"),
    ("OPENCODE_PERMISSION", r#"{"*":"deny"}"#),
    ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
    ("OPENCODE_DISABLE_SHARE", "1"),
    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1"),
    ("OPENCODE_DISABLE_TERMINAL_TITLE", "1"),
    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
];

/// A client that starts the program for each exchange.
pub(super) struct Client {
    program: PathBuf,
    env: Vec<(String, String)>,
    secrets: Vec<String>,
    /// A server of the user's own.
    address: Option<String>,
    /// Where the machine's user is logged in; looked at if no key is given.
    login: Option<PathBuf>,
}

impl Client {
    pub(super) fn new(profile: &Profile, local: &Local<'_>) -> Self {
        let program = local.options.text("opencode_exec_path");
        let mut keys = environment::named(local.options, "opencode_chat_keys");
        keys.push(VENDOR_KEY.to_owned());
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let mut env = environment::allowed(local.env, &keys);
        let given = env.iter().filter(|(name, _)| keys.contains(&name.as_str()));
        let mut secrets: Vec<String> = given.map(|(_, value)| value.trim().to_owned()).collect();
        let address = Some(profile.endpoint.clone()).filter(|address| !address.is_empty());
        if address.is_some() {
            let key = (local.secret)("opencode_chat_api_key");
            let key = key.map(|key| key.expose().trim().to_owned());
            // Local servers want something there, and take anything.
            let key = key.filter(|key| !key.is_empty());
            let key = key.unwrap_or_else(|| "dummy".to_owned());
            env.push((KEY.to_owned(), key.clone()));
            secrets.push(key);
        }
        let folder = environment::folder(local.env, "XDG_DATA_HOME", ".local/share");
        Self {
            program: environment::program(program.as_deref().unwrap_or(NAME)),
            login: folder
                .filter(|_| secrets.is_empty())
                .map(|folder| folder.join("opencode/auth.json")),
            address,
            env,
            secrets,
        }
    }

    async fn ask(&self, request: &ChatRequest, prompt: String) -> Result<ChatReply, CallError> {
        let desk = Desk::new(NAME)?;
        let place = desk.home_folder(".local/share/opencode", NAME)?;
        desk.link(self.login.as_deref(), &place.join("auth.json"), NAME)?;
        let said = system(&request.messages);
        let said = if said.is_empty() { NO_SYSTEM } else { &said };
        let own = self.address.as_deref().map(|address| Own {
            address,
            model: &request.model,
            max_tokens: request.max_tokens,
        });
        let mut settings = quiet::settings(said, own.as_ref());
        let mut resolved = self.resolved(request, &desk, &settings).await?;
        if resolved.noise().is_some() {
            resolved.silence(&mut settings);
            resolved = self.resolved(request, &desk, &settings).await?;
        }
        if let Some(noise) = resolved.noise() {
            return Err(CallError::Misconfigured {
                endpoint: NAME.to_owned(),
                status: 0,
                detail: format!("{noise}, although they were switched off"),
            });
        }
        let args = self.arguments(request, &desk);
        let run = self.run(request, &desk, &settings, args);
        let run = Run {
            stdin: prompt.into_bytes(),
            ..run
        };
        let output = run.output().await?;
        events::read(&output, |words, status, usage| {
            self.fault(request, words, status, usage)
        })
    }

    /// Asks the program what its settings are.
    async fn resolved(
        &self,
        request: &ChatRequest,
        desk: &Desk,
        settings: &Value,
    ) -> Result<Resolved, CallError> {
        let args = ["debug", "config", "--pure"].map(OsString::from).into();
        let output: Output = self.run(request, desk, settings, args).output().await?;
        if output.code != Some(0) {
            let words = output.stderr.trim();
            return Err(self.fault(request, words, None, Usage::default()));
        }
        Resolved::read(&output.stdout, NAME)
    }

    fn arguments(&self, request: &ChatRequest, desk: &Desk) -> Vec<OsString> {
        let plain = ["run", "--pure", "--format", "json", "--agent", AGENT];
        let mut args: Vec<OsString> = plain.map(Into::into).into();
        // Without a title it would ask its model for one.
        args.extend(["--title".into(), "skillopt".into()]);
        args.extend(["--dir".into(), desk.work().into()]);
        let model = &request.model;
        let model = match &self.address {
            Some(_) => format!("{PROVIDER}/{model}"),
            None => model.clone(),
        };
        if !model.is_empty() {
            args.extend(["--model".into(), model.into()]);
        }
        args
    }

    /// Returns how the program is started; it is told nothing yet.
    fn run(
        &self,
        request: &ChatRequest,
        desk: &Desk,
        settings: &Value,
        args: Vec<OsString>,
    ) -> Run<'_> {
        let switches = QUIET.iter().map(|(name, value)| (*name, value.into()));
        // An own server has no list of models that could be fetched.
        let own = self.address.iter();
        let own = own.map(|_| ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()));
        let told = [
            ("OPENCODE_CONFIG_CONTENT", settings.to_string().into()),
            (
                "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX",
                request.max_tokens.to_string().into(),
            ),
        ];
        Run {
            endpoint: NAME,
            program: self.program.clone(),
            args,
            env: desk.env(&self.env, switches.chain(own).chain(told)),
            folder: desk.work(),
            stdin: Vec::new(),
            limit: request.timeout,
            setting: "opencode_exec_path",
        }
    }

    fn fault(
        &self,
        request: &ChatRequest,
        words: &str,
        status: Option<u16>,
        usage: Usage,
    ) -> CallError {
        let known = environment::known(self.login.as_deref(), &self.secrets);
        let secrets: Vec<&str> = known.iter().map(String::as_str).collect();
        Fault {
            endpoint: NAME,
            words,
            status,
            login: LOGIN,
            model: &request.model,
            usage,
            secrets: &secrets,
        }
        .class()
    }
}

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let prompt = Plain {
            request,
            with_system: false,
        };
        prompt.refuse(NAME, "opencode_chat")?;
        // One limit for all that is started.
        let asked = tokio::time::timeout(request.timeout, self.ask(request, prompt.text()));
        let answer = asked.await.unwrap_or_else(|_| {
            Err(CallError::Timeout {
                endpoint: NAME.to_owned(),
                limit: request.timeout,
            })
        });
        let known = environment::known(self.login.as_deref(), &self.secrets);
        let secrets: Vec<&str> = known.iter().map(String::as_str).collect();
        clean(answer, &secrets)
    }
}
