//! Starts the Copilot program for one exchange, without tools.

use std::ffi::OsString;
use std::path::PathBuf;

use async_trait::async_trait;

use super::events;
use crate::clean::clean;
use crate::cli::{Desk, Plain, Run, environment};
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;

const NAME: &str = "copilot";
/// Logins of its own, and providers of the user's own. A token for other things of the vendor's
/// stays here, though the program would take it.
const OWN: &[&str] = &[
    "COPILOT_GITHUB_TOKEN",
    "COPILOT_GH_HOST",
    "COPILOT_OFFLINE",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
    "COPILOT_PROVIDER_WIRE_API",
    "COPILOT_PROVIDER_WIRE_MODEL",
    "COPILOT_PROVIDER_MODEL_ID",
    "COPILOT_PROVIDER_AZURE_API_VERSION",
];
/// Those of them that nobody may see.
const SECRET: &[&str] = &[
    "COPILOT_GITHUB_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
];

/// A client that starts the program for each exchange.
pub(super) struct Client {
    program: PathBuf,
    env: Vec<(String, String)>,
    secrets: Vec<String>,
    /// A home that holds a login, if one is set.
    home: Option<PathBuf>,
    /// Where the program unpacks itself, once for all exchanges.
    cache: Option<PathBuf>,
}

impl Client {
    pub(super) fn new(local: &Local<'_>) -> Self {
        let program = local.options.text("copilot_exec_path");
        let home = local.options.text("copilot_exec_home");
        let env = environment::allowed(local.env, OWN);
        let secret = env
            .iter()
            .filter(|(name, _)| SECRET.contains(&name.as_str()));
        let cache = environment::folder(local.env, "XDG_CACHE_HOME", ".cache");
        Self {
            program: environment::program(program.as_deref().unwrap_or(NAME)),
            secrets: secret.map(|(_, value)| value.trim().to_owned()).collect(),
            env,
            home: home.map(|home| std::path::absolute(&home).unwrap_or_else(|_| home.into())),
            cache: cache.map(|cache| cache.join("skillopt")),
        }
    }

    fn env(&self, desk: &Desk) -> Vec<(String, OsString)> {
        let home = self
            .home
            .clone()
            .unwrap_or_else(|| desk.home().join(".copilot"));
        let cache = self
            .cache
            .clone()
            .unwrap_or_else(|| desk.home().join(".cache"));
        let own = [
            ("XDG_CACHE_HOME", cache.into()),
            ("COPILOT_HOME", home.into()),
            ("COPILOT_AUTO_UPDATE", "false".into()),
        ];
        desk.env(&self.env, own)
    }
}

const USAGE: &str = "usage.json";

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let prompt = Plain {
            request,
            with_system: true,
        };
        prompt.refuse(NAME, "copilot_chat")?;
        let desk = Desk::new(NAME)?;
        let run = Run {
            endpoint: NAME,
            program: self.program.clone(),
            args: arguments(request, &desk),
            env: self.env(&desk),
            folder: desk.work(),
            stdin: prompt.text().into_bytes(),
            limit: request.timeout,
            setting: "copilot_exec_path",
        };
        let output = run.output().await?;
        let usage = std::fs::read(desk.file(USAGE)).unwrap_or_default();
        let secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        let reader = events::Reader {
            endpoint: NAME,
            secrets: &secrets,
            model: &request.model,
        };
        clean(reader.read(&output, &usage), &secrets)
    }
}

fn arguments(request: &ChatRequest, desk: &Desk) -> Vec<OsString> {
    let plain = [
        "--output-format",
        "json",
        "--stream",
        "off",
        "--no-color",
        "--log-level",
        "none",
        "--disable-builtin-mcps",
        "--no-custom-instructions",
        // The name of no tool. With an empty list, release 1.0.102 offers all that it has.
        "--available-tools=none",
        "--no-auto-update",
    ];
    let mut args: Vec<OsString> = plain.map(Into::into).into();
    args.extend(["--usage-output-file".into(), desk.file(USAGE).into()]);
    if !request.model.is_empty() {
        args.extend(["--model".into(), request.model.as_str().into()]);
    }
    args
}
