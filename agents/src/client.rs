//! An agent behind the contract of models: what a worker calls.

mod reply;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use skillopt_backends::declare::Local;
use skillopt_backends::{
    CallError, ChatModel, ChatReply, ChatRequest, Gate, Open, Role, Worked, Workspace,
};
use skillopt_core::job::Profile;
use skillopt_sandbox::{Host, Limits};
use tokio::sync::OnceCell;

use crate::cli::{Vendor, Version};
use crate::installed::Installed;
use crate::relay::{Caps, Plan, Tries, WayOut};
use crate::run::{Direct, Finished, Order, run};
use crate::{cli, options, provider, release, tunnel};

use self::wanted::{DECLARED, Wanted};

/// An agent with its provider, in sandboxes of one host.
pub struct Agent {
    host: Host,
    backend: String,
    cli: Wanted,
    installed: Installed,
    /// The release that is wanted; empty if any will do.
    release: String,
    /// What the program says of its release, where no package tells it.
    told: OnceCell<Option<Version>>,
    plan: Plan,
    /// Where it goes by itself, if it takes no relay.
    direct: Option<Direct>,
    settings: Map<String, Value>,
    effort: String,
    max_tokens: u32,
    way_out: Arc<dyn WayOut>,
}

impl Agent {
    /// Returns whether a backend is an agent that can be run.
    #[must_use]
    pub fn is_known(backend: &str) -> bool {
        backend == DECLARED || cli::find(backend).is_some()
    }

    /// Refuses what no agent can have, wherever it runs: for whoever gives a run to other machines, and
    /// knows neither their programs nor their keys.
    ///
    /// # Errors
    /// [`CallError::Misconfigured`]: a setting asks for what no agent can have, or the agent cannot speak
    /// to its provider.
    pub fn check(profile: &Profile) -> Result<(), CallError> {
        let cli = wanted(profile)?;
        if cli.is_direct() {
            return Ok(());
        }
        provider::check(profile, cli.wire())
    }

    /// Prepares an agent; starts nothing.
    ///
    /// # Errors
    /// [`CallError::Misconfigured`]: a setting asks for what no agent can have, it is not installed
    /// here, is of another release than the profile wants, or has no provider that it can speak to.
    pub fn new(
        profile: &Profile,
        local: &Local<'_>,
        host: Host,
        way_out: Arc<dyn WayOut>,
    ) -> Result<Self, CallError> {
        let wrong = |detail| provider::wrong(profile, detail);
        let cli = wanted(profile)?;
        let direct = cli.vendor().map(|vendor| direct(&vendor, local));
        let direct = direct.transpose().map_err(&wrong)?;
        let release = Self::release_of(profile).to_owned();
        let installed = cli.install(local, &release);
        let installed = installed.map_err(|e| wrong(e.to_string()))?;
        let count = |key: &str| {
            profile
                .settings
                .get(key)
                .and_then(Value::as_u64)
                .unwrap_or(0)
        };
        let mut plan = Plan {
            cli: cli.wire(),
            provider: cli.wire(),
            address: profile.backend.clone(),
            credential: http::HeaderMap::new(),
            model: profile.model.clone(),
            marker: String::new(),
            caps: Caps {
                requests: count("agent_max_requests"),
                tokens: count("agent_max_tokens"),
            },
            tries: Tries {
                first_byte: local
                    .http
                    .transport()
                    .first_byte
                    .unwrap_or(Tries::default().first_byte),
                silence: local.http.transport().between_chunks,
                ..Tries::default()
            },
        };
        if direct.is_none() {
            let provider = provider::find(profile, cli.wire(), local)?;
            plan.provider = provider.wire;
            plan.address = provider.address;
            plan.credential = provider.credential;
        }
        Ok(Self {
            host,
            backend: profile.backend.clone(),
            cli,
            installed,
            release,
            told: OnceCell::new(),
            plan,
            direct,
            settings: profile.settings.clone(),
            effort: profile.reasoning_effort.clone(),
            max_tokens: profile.max_tokens,
            way_out,
        })
    }

    /// Does a task, and tells everything that became of it.
    ///
    /// # Errors
    /// It could not begin.
    ///
    /// # Cancel safety
    /// Dropping the future ends everything that was started.
    pub async fn finish(
        &self,
        request: &ChatRequest,
        workspace: &Workspace,
    ) -> Result<Finished, CallError> {
        let gate: Arc<dyn Gate> = Arc::new(Open);
        self.under(request, workspace, &gate).await
    }

    /// Refuses a program that says it is of another release; it is asked once, before its first task.
    async fn is_of_its_release(&self) -> Result<(), CallError> {
        if self.installed.version.is_some() || !self.cli.asks(&self.release) {
            return Ok(());
        }
        let asked = || release::ask(&self.host, &self.installed);
        let told = self.told.get_or_try_init(asked).await;
        let told = told.map_err(|e| CallError::Machine {
            detail: format!("the agent's program could not be asked for its release: {e}"),
        })?;
        let fits = self.cli.fits(&self.installed, *told, &self.release);
        fits.map_err(|e| CallError::Misconfigured {
            endpoint: self.backend.clone(),
            status: 0,
            detail: e.to_string(),
        })
    }

    /// Does a task whose requests ask `gate` first.
    async fn under(
        &self,
        request: &ChatRequest,
        workspace: &Workspace,
        gate: &Arc<dyn Gate>,
    ) -> Result<Finished, CallError> {
        self.is_of_its_release().await?;
        let said = request
            .messages
            .iter()
            .filter(|message| message.role == Role::User);
        let prompt: Vec<_> = said.map(|message| message.content.as_text()).collect();
        let files: Vec<(String, Vec<u8>)> = workspace
            .files
            .iter()
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect();
        let open = self.cli.vendor().map(|vendor| vendor.open);
        let open = open
            .filter(|(key, value)| self.settings.get(*key).and_then(Value::as_str) == Some(*value));
        if let (Some((key, value)), false) = (open, workspace.collect.is_empty()) {
            return Err(CallError::Misconfigured {
                endpoint: self.backend.clone(),
                status: 0,
                detail: format!(
                    "this benchmark wants files changed, which `{key}: {value}` does not go with: the \
                     program's key and its way out lie open to every command; leave it out"
                ),
            });
        }
        let order = Order {
            program: self.cli.program(),
            installed: &self.installed,
            release: self.its_release(),
            prompt: &prompt.join("\n\n"),
            skill: &workspace.skill,
            skill_files: &workspace.skill_files,
            effort: request.reasoning_effort.as_deref().unwrap_or(&self.effort),
            max_tokens: self.max_tokens,
            settings: &self.settings,
            files: &files,
            collect: &workspace.collect,
            limits: Limits {
                wall: request.timeout - MARGIN.min(request.timeout / 4),
                ..options::limits(&self.settings)
            },
            plan: self.plan.clone(),
            direct: self.direct.as_ref(),
        };
        run(
            &self.host,
            order,
            Arc::clone(&self.way_out),
            Arc::clone(gate),
        )
        .await
    }
}

/// Reads which CLI a profile names, with settings that it can have.
fn wanted(profile: &Profile) -> Result<Wanted, CallError> {
    let wrong = |detail| provider::wrong(profile, detail);
    let cli = Wanted::of(profile).map_err(wrong)?;
    options::check(profile, cli.known()).map_err(wrong)?;
    Ok(cli)
}

/// Reads where a CLI may go that has no relay: the machine's own business, not the run's.
fn direct(vendor: &Vendor, local: &Local<'_>) -> Result<Direct, String> {
    let (name, example) = (vendor.hosts, vendor.example);
    let Some(hosts) = local.options.text(name) else {
        return Err(format!(
            "it asks its vendor's servers by itself: it cannot be given a relay, so that its key lies in \
             the sandbox and nothing but itself counts its tokens; if that is wanted, set `{name}: \
             \"{example}\"` on this machine (docs/agents.md)"
        ));
    };
    let hosts = tunnel::Host::list(&hosts).map_err(|why| format!("`{name}`: {why}"))?;
    let key = (local.secret)(vendor.key).filter(|key| !key.expose().trim().is_empty());
    let key = key.ok_or_else(|| format!("`{}` is not set", vendor.key.to_uppercase()))?;
    Ok(Direct { hosts, key })
}

#[async_trait]
impl ChatModel for Agent {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply, CallError> {
        Err(CallError::Misconfigured {
            endpoint: self.backend.clone(),
            status: 0,
            detail: "it is an agent and answers no conversation; this benchmark has no form for \
                     agents yet, choose a chat backend"
                .to_owned(),
        })
    }

    async fn work(
        &self,
        request: &ChatRequest,
        workspace: &Workspace,
        gate: &Arc<dyn Gate>,
    ) -> Result<(ChatReply, Worked), CallError> {
        if self.direct.is_some() && gate.answer_limit().is_some() {
            return Err(CallError::Misconfigured {
                endpoint: self.backend.clone(),
                status: 0,
                detail: "it asks its vendor by itself, so that no cap can be kept; run it without \
                         caps of the run, its sweep and its tenant, or choose another agent"
                    .to_owned(),
            });
        }
        self.told(self.under(request, workspace, gate).await?)
    }
}

/// What a sandbox needs to end a program that is out of time, before whoever waits gives up.
const MARGIN: Duration = Duration::from_secs(3);
