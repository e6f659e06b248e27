//! An agent behind the contract of models: what a worker calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skillopt_backends::declare::Local;
use skillopt_backends::{
    CallError, ChatModel, ChatReply, ChatRequest, Gate, Role, Worked, Workspace,
};
use skillopt_core::job::{Profile, Usage};
use skillopt_sandbox::{Host, Limits};

use crate::cli::{self, Cli};
use crate::installed::Installed;
use crate::relay::{Caps, Plan, Tries, WayOut};
use crate::run::{Finished, Order, Program, run};
use crate::verdict::{Verdict, usage};
use crate::{provider, trace};

/// An agent with its provider, in sandboxes of one host.
pub struct Agent {
    host: Host,
    cli: &'static Cli,
    installed: Installed,
    plan: Plan,
    settings: Map<String, Value>,
    effort: String,
    max_tokens: u32,
    way_out: Arc<dyn WayOut>,
}

impl Agent {
    /// Returns whether a backend is an agent that can be run.
    #[must_use]
    pub fn is_known(backend: &str) -> bool {
        cli::find(backend).is_some()
    }

    /// Prepares an agent; starts nothing.
    ///
    /// # Errors
    /// [`CallError::Misconfigured`]: it is not installed here, of another release than the profile
    /// wants, or has no provider that it can speak to.
    pub fn new(
        profile: &Profile,
        local: &Local<'_>,
        host: Host,
        way_out: Arc<dyn WayOut>,
    ) -> Result<Self, CallError> {
        let wrong = |detail: String| CallError::Misconfigured {
            endpoint: profile.backend.clone(),
            status: 0,
            detail,
        };
        let cli = cli::find(&profile.backend)
            .ok_or_else(|| wrong("this release cannot run it".to_owned()))?;
        let provider = provider::find(profile, cli.wire, local)?;
        let configured = local.options.text(&format!("{}_path", cli.backend));
        // A bare name is looked up, as in a shell.
        let path = (local.env)("PATH").unwrap_or_default();
        let installed =
            Installed::find(cli, configured.as_deref(), &path).map_err(|e| wrong(e.to_string()))?;
        let count = |key: &str| {
            profile
                .settings
                .get(key)
                .and_then(Value::as_u64)
                .unwrap_or(0)
        };
        Ok(Self {
            host,
            cli,
            installed,
            plan: Plan {
                cli: cli.wire,
                provider: provider.wire,
                address: provider.address,
                credential: provider.credential,
                model: profile.model.clone(),
                marker: String::new(),
                caps: Caps {
                    requests: count("agent_max_requests"),
                    tokens: count("agent_max_tokens"),
                },
                tries: Tries::default(),
            },
            settings: profile.settings.clone(),
            effort: profile.reasoning_effort.clone(),
            max_tokens: profile.max_tokens,
            way_out,
        })
    }
}

#[async_trait]
impl ChatModel for Agent {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply, CallError> {
        Err(CallError::Misconfigured {
            endpoint: self.cli.backend.to_owned(),
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
        let order = Order {
            program: Program::Known(self.cli),
            installed: &self.installed,
            prompt: &prompt.join("\n\n"),
            skill: &workspace.skill,
            skill_files: &workspace.skill_files,
            effort: request.reasoning_effort.as_deref().unwrap_or(&self.effort),
            max_tokens: self.max_tokens,
            settings: &self.settings,
            files: &files,
            collect: &workspace.collect,
            limits: Limits {
                wall: request.timeout.saturating_sub(MARGIN).max(MARGIN),
                ..Limits::default()
            },
            plan: self.plan.clone(),
        };
        let way_out = Arc::clone(&self.way_out);
        let finished = run(&self.host, order, way_out, Arc::clone(gate)).await?;
        reply(finished, self.cli)
    }
}

/// What a sandbox needs to end a program that is out of time, before whoever waits gives up.
const MARGIN: Duration = Duration::from_secs(3);

fn reply(finished: Finished, cli: &Cli) -> Result<(ChatReply, Worked), CallError> {
    let (text, failed) = match &finished.verdict {
        Verdict::Answered(text) => (text.clone(), None),
        Verdict::Failed(why) => {
            let text = finished.account.final_text.clone().unwrap_or_default();
            (text, Some(why.clone()))
        }
        Verdict::NotJudged(error) => return Err(error.clone()),
    };
    let usage = Usage {
        calls: usage(&finished.record).calls.max(1),
        ..usage(&finished.record)
    };
    let mut facts = Map::new();
    let mut put = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    put("agent", cli.backend.into());
    put("skill_reached_the_model", finished.is_skill_seen.into());
    put("requests", finished.record.exchanges.len().into());
    put("ending", json!(finished.account.outcome));
    if !finished.record.refused.is_empty() {
        let words = finished.record.refused.iter().map(ToString::to_string);
        put("refused", words.collect());
        put("refusals", finished.record.refusals.into());
    }
    if !finished.refused.is_empty() {
        let words = finished.refused.iter();
        let words = words.map(|file| format!("{}: {}", file.path.display(), file.why));
        put("files_refused", words.collect());
    }
    let files: BTreeMap<String, Vec<u8>> = finished
        .files
        .into_iter()
        .map(|(path, bytes)| (path.to_string_lossy().into_owned(), bytes))
        .collect();
    Ok((
        ChatReply::text(text, usage),
        Worked {
            failed,
            files,
            facts,
            trace: trace::entries(&finished.record),
        },
    ))
}
