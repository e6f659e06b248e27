//! Sandboxes, and a model for the agents in them to ask.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde_json::json;
use skillopt_agents::Agent;
use skillopt_backends::CallError;
use skillopt_backends::declare::{Local, Options};
use skillopt_core::job::Profile;
use skillopt_core::role::Role;
use skillopt_sandbox::{Host, Policy, Settings};
use skillopt_sim::mock::{Mock, Script};
use tokio::net::TcpListener;

use crate::parity::backends::setup::Setup;
use crate::support::program;
use crate::support::way_out::Plain;

/// What the model says; nobody reads it but the relay.
pub(super) const TOKENS: (u64, u64) = (11, 7);

/// The sandboxes of this process: what a machine offers is tried out once.
fn host() -> Result<Host, String> {
    static HOST: OnceLock<Result<(Host, tempfile::TempDir), String>> = OnceLock::new();
    let made = HOST.get_or_init(|| {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let host = Host::open(Settings {
            folder: folder.path().join("s"),
            init: program::path().to_owned(),
            init_args: vec!["sandbox-init".to_owned()],
            policy: Policy::Auto,
            bubblewrap: None,
            cgroup: None,
        });
        Ok((host.map_err(|e| e.to_string())?, folder))
    });
    made.as_ref()
        .map(|(host, _)| host.clone())
        .map_err(Clone::clone)
}

/// Runs a case to its end.
pub(super) fn block_on(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    runtime.block_on(work)
}

/// A model that listens.
pub(super) struct Rig {
    mock: Mock,
    port: u16,
}

impl Rig {
    pub(super) async fn start() -> Result<Self, String> {
        let (input, output) = TOKENS;
        let script = json!({"default": {"text": "x", "usage": {"input": input, "output": output}}});
        let script = Script::parse(&script.to_string()).map_err(|e| e.to_string())?;
        let mock = Mock::new(script);
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let server = mock.clone();
        tokio::spawn(async move { server.serve(listener).await });
        Ok(Self { mock, port })
    }

    /// Settings that give a backend this model as its provider.
    pub(super) fn settings(&self, backend: &str) -> serde_json::Map<String, serde_json::Value> {
        let address = format!("http://127.0.0.1:{}", self.port);
        let settings = match backend {
            "claude_code_exec" => json!({
                "claude_base_url": address, "claude_api_key": "canary-provider",
            }),
            "cursor_exec" => json!({
                "cursor_exec_egress": format!("127.0.0.1:{}", self.port),
                "cursor_api_key": "key-of-cursor",
            }),
            _ => json!({
                "agent_provider": "openai_compatible",
                "openai_compatible_base_url": format!("{address}/v1"),
                "openai_compatible_api_key": "canary-provider",
            }),
        };
        settings.as_object().cloned().unwrap_or_default()
    }

    /// Returns how many questions reached the model.
    pub(super) fn asked(&self) -> usize {
        let entries = self.mock.requests();
        entries.iter().filter(|entry| !entry.api.is_empty()).count()
    }
}

/// What an agent asks its model, by the interface that it speaks.
pub(super) fn question(backend: &str, model: &str) -> Option<(&'static str, String)> {
    let (path, body) = match backend {
        "codex_exec" => ("/v1/responses", json!({"model": model, "input": "hi"})),
        "claude_code_exec" => (
            "/v1/messages",
            json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
        ),
        "copilot_exec" => (
            "/v1/chat/completions",
            json!({"model": model, "messages": [{"role": "user", "content": "hi"}]}),
        ),
        // It asks its vendor, in a way of its own.
        _ => return None,
    };
    Some((path, body.to_string()))
}

/// Makes an agent as a worker does.
pub(super) fn agent(setup: &Setup, profile: &Profile, bin: &Path) -> Result<Agent, CallError> {
    let host = host().map_err(|why| CallError::Malformed {
        endpoint: "sandbox".to_owned(),
        detail: why,
    })?;
    let backends = &setup.config.backends;
    let option = |key: &str| backends.get(Role::Target, key).cloned();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let local = Local {
        options: Options(&option),
        secret: &|key| backends.secret(Role::Target, key).cloned(),
        env: &|name| match name {
            "PATH" => Some(path.clone()),
            name => setup.variable(name),
        },
        http: &setup.http,
    };
    Agent::new(profile, &local, host, Arc::new(Plain::new()))
}
