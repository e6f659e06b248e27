//! The Codex program as a text model. Its shell and other tools are switched off, the sandbox is
//! read-only, its own instructions give way to a line of ours.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use skillopt_core::job::Profile;

use super::events;
use crate::clean::clean;
use crate::cli::{Desk, Envelope, Prompt, Run, environment, images};
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;
use crate::picture::Picture;

pub(super) const NAME: &str = "codex";
/// In place of the program's own instructions to a coding agent.
const INSTRUCTIONS: &str = "You answer in text. You have no tools.";
/// What makes a text model of it, as settings of its own.
const PLAIN: &[&str] = &[
    "sandbox_workspace_write.network_access=false",
    "web_search=\"disabled\"",
    "analytics.enabled=false",
    "skills.bundled.enabled=false",
    "include_permissions_instructions=false",
    "include_environment_context=false",
    "project_doc_max_bytes=0",
];
/// What it offers to its model, or does by itself, beyond text.
const FEATURES: &[&str] = &[
    "shell_tool",
    "unified_exec",
    "code_mode_host",
    "apps",
    "plugins",
    "multi_agent",
    "goals",
    "tool_suggest",
    "image_generation",
    "view_image",
    "browser_use",
    "computer_use",
    "hooks",
    "skill_search",
    // A provider that cannot be reached would be waited for without end.
    "unbounded_connection_retries",
];

/// A client that starts the program for each exchange.
pub(super) struct Client {
    program: PathBuf,
    env: Vec<(String, String)>,
    secrets: Vec<String>,
    /// A profile of the program's settings, which a run names.
    profile: Option<(String, PathBuf)>,
    /// Where the machine's user is logged in; looked at if no key is given.
    login: Option<PathBuf>,
}

impl Client {
    pub(super) fn new(profile: &Profile, local: &Local<'_>) -> Self {
        let env = local.env;
        let program = local.options.text("codex_exec_path");
        let folder = environment::folder(env, "CODEX_HOME", ".codex");
        let name = profile.settings.get("profile").and_then(Value::as_str);
        let profile = name.zip(folder.as_ref()).map(|(name, folder)| {
            let file = folder.join(format!("{name}.config.toml"));
            (name.to_owned(), file)
        });
        let mut own = vec!["CODEX_API_KEY".to_owned()];
        if let Some((_, file)) = &profile {
            own.extend(keys_of(file));
        }
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let pairs = environment::allowed(env, &own);
        let given = pairs
            .iter()
            .filter(|(name, _)| own.contains(&name.as_str()));
        let secrets: Vec<String> = given.map(|(_, value)| value.trim().to_owned()).collect();
        Self {
            program: environment::program(program.as_deref().unwrap_or(NAME)),
            login: folder
                .filter(|_| secrets.is_empty())
                .map(|folder| folder.join("auth.json")),
            env: pairs,
            secrets,
            profile,
        }
    }

    fn arguments(&self, request: &ChatRequest, desk: &Desk) -> Result<Vec<OsString>, CallError> {
        let mut args: Vec<OsString> = ["exec", "--json", "--ephemeral"].map(Into::into).into();
        let mut add = |name: &str, value: OsString| args.extend([name.into(), value]);
        let set = |name: &str, value: &str| OsString::from(format!("{name}={}", quoted(value)));
        add("-c", set("approval_policy", "never"));
        add("--sandbox", "read-only".into());
        add("--cd", desk.work().into());
        if !request.model.is_empty() {
            add("--model", request.model.as_str().into());
        }
        add("--output-last-message", desk.file(LAST_MESSAGE).into());
        for setting in PLAIN {
            add("-c", setting.into());
        }
        for feature in FEATURES {
            add("-c", format!("features.{feature}=false").into());
        }
        let instructions = desk.write("instructions.md", INSTRUCTIONS, NAME)?;
        let instructions = instructions.to_string_lossy();
        add("-c", set("model_instructions_file", &instructions));
        if let Some((name, _)) = &self.profile {
            add("--profile", name.into());
        }
        let effort = request.reasoning_effort.as_deref().unwrap_or("");
        if !matches!(effort, "" | "none") {
            add("-c", set("model_reasoning_effort", effort));
        }
        if let Some(schema) = Envelope::schema(request) {
            let file = desk.write("schema.json", schema.to_string(), NAME)?;
            add("--output-schema", file.into());
        }
        for (i, picture) in images(&request.messages).enumerate() {
            add("--image", image(desk, i + 1, picture)?.into());
        }
        args.extend(["--skip-git-repo-check".into(), "-".into()]);
        Ok(args)
    }
}

const LAST_MESSAGE: &str = "last_message.txt";

#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let desk = Desk::new(NAME)?;
        let home = desk.home_folder(".codex", NAME)?;
        desk.link(self.login.as_deref(), &home.join("auth.json"), NAME)?;
        if let Some((name, file)) = &self.profile {
            let place = home.join(format!("{name}.config.toml"));
            desk.link(Some(file), &place, NAME)?;
        }
        let general = self.env.iter();
        let general = general.map(|(name, value)| (name.clone(), OsString::from(value)));
        let own: [(&str, OsString); 4] = [
            ("HOME", desk.home().into()),
            ("CODEX_HOME", home.into()),
            ("TMPDIR", desk.temporary().into()),
            ("TERM", "dumb".into()),
        ];
        let own = own
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let prompt = Prompt {
            request,
            with_system: true,
        };
        let run = Run {
            endpoint: NAME,
            program: self.program.clone(),
            args: self.arguments(request, &desk)?,
            env: general.chain(own).collect(),
            folder: desk.work(),
            stdin: prompt.text().into_bytes(),
            limit: request.timeout,
            setting: "codex_exec_path",
        };
        let output = run.output().await?;
        let last_message = std::fs::read_to_string(desk.file(LAST_MESSAGE)).unwrap_or_default();
        let known = environment::known(self.login.as_deref(), &self.secrets);
        let secrets: Vec<&str> = known.iter().map(String::as_str).collect();
        let reader = events::Reader {
            endpoint: NAME,
            secrets: &secrets,
            request,
        };
        clean(reader.read(&output, &last_message), &secrets)
    }
}

/// Quotes a text as the program's settings want it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the variables that hold the keys of a profile's providers.
fn keys_of(profile: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(profile).unwrap_or_default();
    let named = text.lines().filter_map(|line| {
        let value = line.trim().strip_prefix("env_key")?.trim_start();
        let value = value.strip_prefix('=')?.trim();
        Some(value.strip_prefix('"')?.split('"').next()?.to_owned())
    });
    named.collect()
}

/// Writes an image where the program can read it.
fn image(desk: &Desk, number: usize, picture: Picture<'_>) -> Result<PathBuf, CallError> {
    let unusable = |detail: &str| CallError::Rejected {
        endpoint: NAME.to_owned(),
        status: 0,
        detail: format!("image {number} {detail}"),
    };
    let Picture::Inline { media_type, base64 } = picture else {
        return Err(unusable("is not inline, and the program fetches none"));
    };
    let bytes = STANDARD
        .decode(base64)
        .map_err(|_| unusable("is not base64"))?;
    let kind = match media_type {
        "image/jpeg" => "jpg",
        other => other.strip_prefix("image/").unwrap_or("bin"),
    };
    let kind: String = kind.chars().filter(char::is_ascii_alphanumeric).collect();
    desk.write(&format!("image_{number}.{kind}"), bytes, NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_tells_where_its_keys_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.config.toml");
        let text = "model = \"m\"\n[model_providers.x]\nenv_key = \"X_KEY\"\n env_key=\"Y\"\n";
        std::fs::write(&file, text).unwrap();
        assert_eq!(keys_of(&file), ["X_KEY", "Y"]);
        assert!(keys_of(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn images_become_files() {
        let desk = Desk::new(NAME).unwrap();
        let picture = Picture::of("data:image/jpeg;base64,aGk=");
        let file = image(&desk, 1, picture).unwrap();
        assert!(file.ends_with("image_1.jpg"));
        assert_eq!(std::fs::read(file).unwrap(), b"hi");
        for url in ["https://h/a.png", "data:image/png;base64,?"] {
            assert!(image(&desk, 1, Picture::of(url)).is_err());
        }
    }
}
