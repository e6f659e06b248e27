//! A sandbox, a scripted model, and a CLI between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use skillopt_agents::cli::{self, Cli};
use skillopt_agents::installed::Installed;
use skillopt_agents::relay::{Caps, Open, Plan, Tries, Wire};
use skillopt_agents::run::{Finished, Order, Program, run};
use skillopt_sandbox::{Host, Limits, Policy, Settings};
use skillopt_sim::mock::{Mock, Script};
use skillopt_tests::support::{clis, program};
use tokio::net::TcpListener;

use crate::way_out::Plain;

pub(crate) const KEY: &str = "sk-the-real-credential";

pub(crate) const SKILL: &str = "---\nname: skillopt-target\ndescription: Rules for counting.\n---\n\n\
    # Counting\n\nAlways count twice before you write the number down.\n";

/// Returns where a CLI lies.
pub(crate) fn installed(cli: &'static Cli) -> Installed {
    Installed::find(cli, None, &clis::path()).unwrap_or_else(|e| {
        let folder = clis::FOLDER;
        panic!("{e}; `cargo xtask test` installs it, or {folder} names a folder")
    })
}

pub(crate) struct Rig {
    pub(crate) mock: Mock,
    host: Host,
    address: String,
    _folder: tempfile::TempDir,
}

pub(crate) struct Job<'a> {
    pub(crate) cli: &'static Cli,
    pub(crate) prompt: &'a str,
    pub(crate) files: &'a [(String, Vec<u8>)],
    pub(crate) collect: &'a [&'a str],
    pub(crate) wall: Duration,
    pub(crate) caps: Caps,
    /// Wait after a first failure.
    pub(crate) base: Duration,
    /// How long the provider may be silent.
    pub(crate) silence: Duration,
    /// What the provider speaks; `None`: what the CLI does.
    pub(crate) provider: Option<Wire>,
    /// Another program than the real one.
    pub(crate) installed: Option<Installed>,
}

impl Job<'_> {
    pub(crate) fn of(backend: &str) -> Self {
        Self {
            cli: cli::find(backend).unwrap(),
            prompt: "How many words are in task.md? Answer within <answer> tags.",
            files: &[],
            collect: &[],
            wall: Duration::from_secs(120),
            caps: Caps::default(),
            base: Duration::from_millis(1),
            silence: Tries::default().silence,
            provider: None,
            installed: None,
        }
    }
}

impl Rig {
    pub(crate) async fn start(script: Value) -> Self {
        let mut script = Script::parse(&script.to_string()).unwrap();
        script.key = Some(KEY.to_owned());
        let mock = Mock::new(script);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = mock.clone();
        tokio::spawn(async move { server.serve(listener).await });
        let folder = tempfile::tempdir().unwrap();
        let host = Host::open(Settings {
            folder: folder.path().join("s"),
            init: program::path().to_owned(),
            init_args: vec!["sandbox-init".to_owned()],
            policy: Policy::Auto,
            bubblewrap: None,
            cgroup: None,
        });
        Self {
            mock,
            host: host.unwrap(),
            address,
            _folder: folder,
        }
    }

    pub(crate) async fn run(&self, job: Job<'_>) -> Finished {
        let provider = job.provider.unwrap_or(job.cli.wire);
        let mut credential = HeaderMap::new();
        let (name, value) = match provider {
            Wire::Messages => ("x-api-key", KEY.to_owned()),
            Wire::Gemini => ("x-goog-api-key", KEY.to_owned()),
            Wire::Chat | Wire::Responses => ("authorization", format!("Bearer {KEY}")),
        };
        credential.insert(name, HeaderValue::from_str(&value).unwrap());
        let installed = job.installed.unwrap_or_else(|| installed(job.cli));
        let collect: Vec<String> = job.collect.iter().map(|p| (*p).to_owned()).collect();
        let order = Order {
            program: Program::Known(job.cli),
            installed: &installed,
            release: None,
            prompt: job.prompt,
            skill: SKILL,
            skill_files: &BTreeMap::new(),
            effort: "",
            max_tokens: 0,
            settings: &Map::new(),
            files: job.files,
            collect: &collect,
            limits: Limits {
                wall: job.wall,
                ..Limits::default()
            },
            plan: Plan {
                cli: job.cli.wire,
                provider,
                address: self.address.clone(),
                credential,
                model: "mock-model".to_owned(),
                marker: String::new(),
                caps: job.caps,
                tries: Tries {
                    base: job.base,
                    silence: job.silence,
                    ..Tries::default()
                },
            },
            direct: None,
        };
        let done = run(&self.host, order, Arc::new(Plain::new()), Arc::new(Open)).await;
        done.unwrap_or_else(|e| panic!("{e}"))
    }
}

/// A model that loads the skill where there is a tool for it, has the shell tool of whichever CLI
/// write a file, then answers.
pub(crate) fn works() -> Value {
    let command = "wc -w < task.md > result.txt; cat result.txt";
    let call = |tool: &str, turn: usize, arguments: Value| {
        json!({"when": {"tool": tool, "turn": turn}, "reply": {
            "tool_calls": [{"name": tool, "arguments": arguments}],
            "usage": {"input": 1000, "output": 50, "cached": 200},
        }})
    };
    let described = json!({"command": command, "description": "count"});
    let skill = json!({"name": cli::SKILL_NAME, "skill": cli::SKILL_NAME});
    json!({
        "rules": [
            call("exec_command", 0, json!({"cmd": command})),
            call("Bash", 0, described.clone()),
            call("skill", 0, skill),
            call("activate_skill", 0, json!({"name": cli::SKILL_NAME})),
            call("bash", 1, described.clone()),
            call("run_shell_command", 1, {
                let mut with_more = described;
                with_more["is_background"] = false.into();
                with_more
            }),
        ],
        "default": {"text": "<answer>4</answer>", "usage": {"input": 1200, "output": 10, "cached": 900}},
    })
}
