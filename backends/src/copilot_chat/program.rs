//! Starts the Copilot program for one exchange, without tools.

use std::ffi::OsString;
use std::path::PathBuf;

use async_trait::async_trait;

use super::events;
use crate::clean::clean;
use crate::cli::{Desk, Run, environment, images};
use crate::contract::{ChatModel, ChatReply, ChatRequest, Message, Role};
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
/// Between messages.
const RULE: &str = "\n\n---\n\n";

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
        let general = self.env.iter();
        let general = general.map(|(name, value)| (name.clone(), OsString::from(value)));
        let home = self
            .home
            .clone()
            .unwrap_or_else(|| desk.home().join(".copilot"));
        let cache = self
            .cache
            .clone()
            .unwrap_or_else(|| desk.home().join(".cache"));
        let own: [(&str, OsString); 5] = [
            ("HOME", desk.home().into()),
            ("TMPDIR", desk.temporary().into()),
            ("XDG_CACHE_HOME", cache.into()),
            ("COPILOT_HOME", home.into()),
            ("COPILOT_AUTO_UPDATE", "false".into()),
        ];
        let own = own
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        general.chain(own).collect()
    }
}

const USAGE: &str = "usage.json";

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        refuse(request)?;
        let desk = Desk::new(NAME)?;
        let run = Run {
            endpoint: NAME,
            program: self.program.clone(),
            args: arguments(request, &desk),
            env: self.env(&desk),
            folder: desk.work(),
            stdin: prompt(request).into_bytes(),
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

/// What the program has no way to take is refused before it starts.
fn refuse(request: &ChatRequest) -> Result<(), CallError> {
    let what = if !request.tools.is_empty() || request.tool_choice.is_some() {
        "tools"
    } else if images(&request.messages).next().is_some() {
        "images"
    } else {
        return Ok(());
    };
    Err(CallError::Misconfigured {
        endpoint: NAME.to_owned(),
        status: 0,
        detail: format!("copilot_chat takes no {what}; choose another backend for this role"),
    })
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

fn prompt(request: &ChatRequest) -> String {
    let mut parts: Vec<String> = request.messages.iter().filter_map(part).collect();
    if let Some(named) = &request.schema {
        let schema = &named.schema;
        parts.push(format!(
            "Answer with one JSON document of this schema, and with nothing else:\n{schema:#}"
        ));
    }
    parts.join(RULE)
}

/// Writes one message; only the user's stands without a name.
fn part(message: &Message) -> Option<String> {
    let text = message.content.as_text();
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    Some(match message.role {
        Role::User => text.to_owned(),
        role => format!("[{}]\n{text}", role.as_str()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::contract::{Content, Image, Part, ToolChoice};

    fn request(messages: Vec<Message>) -> ChatRequest {
        ChatRequest::new("m", messages, 9, Duration::from_secs(9))
    }

    #[test]
    fn messages_are_parted_by_rules() {
        let mut parts = Message::text(Role::User, "");
        let text = |text: &str| Part::Text(text.to_owned());
        parts.content = Content::Parts(vec![text("a"), text("b")]);
        let request = request(vec![
            Message::text(Role::System, " S "),
            parts,
            Message::text(Role::Assistant, "prev"),
            Message::text(Role::User, " "),
            Message::text(Role::User, "last"),
        ]);
        assert_eq!(
            prompt(&request),
            "[system]\nS\n\n---\n\na\nb\n\n---\n\n[assistant]\nprev\n\n---\n\nlast"
        );
    }

    #[test]
    fn what_it_cannot_take_is_refused() {
        let mut image = Message::text(Role::User, "");
        image.content = Content::Parts(vec![Part::Image(Image {
            url: "data:image/png;base64,AAAA".to_owned(),
            detail: None,
        })]);
        let mut choice = request(Vec::new());
        choice.tool_choice = Some(ToolChoice::Auto);
        for request in [request(vec![image]), choice] {
            let error = refuse(&request).unwrap_err();
            assert!(matches!(error, CallError::Misconfigured { .. }), "{error}");
        }
    }
}
