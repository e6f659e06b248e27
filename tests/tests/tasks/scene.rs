//! A folder with data, a scripted model, and a program in the place of a CLI.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};
use skillopt_tests::support::cluster::Shape;
use skillopt_tests::support::http::exchange;
use skillopt_tests::support::program::{Process, command};
use skillopt_tests::support::wait::{LONG, for_some};
use skillopt_tests::support::{Cluster, World};

/// The credential of the model, which only workers know.
pub(crate) const KEY: &str = "sk-the-real-credential";
/// Items of the split that is evaluated.
pub(crate) const ITEMS: u64 = 12;

const CONFIG: &str = "\
model:
  optimizer_backend: openai_compatible
  target_backend: codex_exec
  agent_provider: openai_compatible
  optimizer: mock-model
  target: mock-model
  retry_attempts: 6
  retry_base_ms: 1
  retry_cap_ms: 50
budget:
  prices: prices.yaml
env:
  name: searchqa
  split_mode: split_dir
  split_dir: data
  max_completion_tokens: 200
";

const PRICES: &str = "\
prices:
  - model: mock-model
    input: 10
    output: 100
    as_of: 2026-01-01
";

/// What stands at the beginning of each program: where its model is, and how it is asked.
const HEAD: &str = r#"#!/bin/bash
base=$(sed -n 's/^base_url = "http:\/\/\(.*\)\/v1"$/\1/p' "$CODEX_HOME/config.toml")
host=${base%:*} port=${base##*:}
prompt=$(cat)
# Sends what it is given, and prints what comes back.
raw() {
  exec 3<>"/dev/tcp/$host/$port" || return 1
  printf '%b' "$1" >&3
  cat <&3
  exec 3>&-
}
# Posts $2 to $1.
post() {
  raw "POST $1 HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nauthorization: Bearer $MODEL_API_KEY\r\ncontent-type: application/json\r\ncontent-length: ${#2}\r\n\r\n$2"
}
ask() {
  post /v1/responses '{"model":"mock-model","input":"go on","stream":true}'
}
# Says $1 as the last words, and that all went well.
say() {
  text=${1//\\/\\\\} text=${text//\"/\\\"} text=${text//$'\n'/\\n}
  printf '{"type":"item.completed","item":{"type":"agent_message","text":"%s"}}\n' "$text"
  printf '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}\n'
}
"#;

/// Asks its model four times, and has an answer then.
pub(crate) const ASKS_FOUR_TIMES: &str = r#"
for n in 1 2 3 4; do
  ask >answer.txt
  grep -q '200 OK' answer.txt || exit 1
done
say '<answer>well</answer>'
"#;

/// What is on the table of a test.
pub(crate) struct Scene {
    pub(crate) world: World,
    _mock: Process,
    pub(crate) port: u16,
}

impl Scene {
    /// Starts a model that follows `script`, and puts `program` in the place of the CLI.
    #[track_caller]
    pub(crate) fn new(mut script: Value, program: &str) -> Self {
        let world = World::new();
        script["key"] = KEY.into();
        world.write("script.json", script.to_string());
        world.write("config.yaml", CONFIG);
        world.write("prices.yaml", PRICES);
        world.write("skill.md", "# Skill\n\nAnswer in few words.\n");
        let path = world.path("script.json");
        let path = path.to_str().unwrap();
        let args = ["sim", "mock", path, "--listen", "127.0.0.1:0"];
        let mut mock = Process::start(&mut command(args));
        let port = for_some(LONG, || {
            let said = mock.stdout();
            let port = said.trim().rsplit_once(':').map(|(_, port)| port.parse());
            port.and_then(Result::ok)
                .or_else(|| mock.status().map(|_| 0))
        });
        let port = port.unwrap();
        assert_ne!(port, 0, "{}", mock.stderr());
        let scene = Self {
            world,
            _mock: mock,
            port,
        };
        scene.program(program);
        scene
    }

    /// Puts another program in the place of the CLI.
    pub(crate) fn program(&self, program: &str) {
        self.world.write("bin/codex", format!("{HEAD}{program}"));
        let path = self.world.path("bin/codex");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    }

    /// Returns variables of whoever runs tasks.
    fn env(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.world.path("bin");
        let url = format!("http://127.0.0.1:{}/v1", self.port);
        [
            ("PATH", format!("{}:{path}", bin.display())),
            ("OPENAI_COMPATIBLE_BASE_URL", url),
            ("OPENAI_COMPATIBLE_API_KEY", KEY.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Starts a cluster whose workers run tasks.
    #[track_caller]
    pub(crate) fn cluster(&self, workers: usize, slots: usize) -> Cluster {
        Cluster::start_with(Shape {
            workers,
            slots: format!("chat=2,exec={slots}"),
            worker_args: ["--lease-seconds", "2"].map(str::to_owned).to_vec(),
            env: self.env(),
            ..Shape::default()
        })
    }

    /// Makes the call that evaluates the skill in this process.
    pub(crate) fn eval(&self, out: &str, more: &[&str]) -> Command {
        let mut command = command(["eval"].iter().chain(&ARGS).chain(&[out]).chain(more));
        command.current_dir(self.world.path("")).envs(self.env());
        command
    }

    /// Makes the call that evaluates the skill on a cluster.
    pub(crate) fn submit(&self, cluster: &Cluster, out: &str, more: &[&str]) -> Command {
        let args = ["submit", "eval"];
        let args: Vec<&str> = args
            .iter()
            .chain(&ARGS)
            .chain(&[out, "--wait"])
            .copied()
            .collect();
        let mut command = self.world.ask(cluster, &args);
        command.args(more).envs(self.env());
        command
    }

    /// Returns requests that were answered, and their tokens.
    pub(crate) fn answered(&self) -> Answered {
        let said = exchange(self.port, "GET", "/__mock/requests", "").unwrap();
        let mut answered = Answered::default();
        for entry in said["requests"].as_array().unwrap() {
            if entry["status"] == 200 && entry["api"] != "" {
                answered.requests += 1;
                answered.input += entry["tokens"][0].as_u64().unwrap();
                answered.output += entry["tokens"][1].as_u64().unwrap();
            }
        }
        answered
    }

    /// Returns a count of the model's.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let stats = exchange(self.port, "GET", "/__mock/stats", "").unwrap();
        stats[name].as_u64().unwrap()
    }

    /// Gives the model another script.
    pub(crate) fn script(&self, mut script: Value) {
        script["key"] = KEY.into();
        let text = script.to_string();
        exchange(self.port, "POST", "/__mock/script", &text).unwrap();
    }
}

/// What a model answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) requests: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
}

impl Answered {
    /// Returns what it came to, in millionths of a dollar.
    pub(crate) const fn micro_usd(self) -> u64 {
        10 * self.input + 100 * self.output
    }
}

const ARGS: [&str; 6] = [
    "config.yaml",
    "--skill",
    "skill.md",
    "--split",
    "test",
    "--out",
];

/// A model that answers after so many milliseconds.
pub(crate) fn answers(latency_ms: u64) -> Value {
    json!({"default": {
        "text": "well", "latency_ms": latency_ms, "usage": {"input": 100, "output": 20},
    }})
}
