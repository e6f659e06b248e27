//! A folder with data, a scripted model, and a CLI: a real one, or a program in its place.

use std::process::Command;

use serde_json::{Value, json};
use skillopt_tests::support::cluster::Shape;
use skillopt_tests::support::http::exchange;
use skillopt_tests::support::program::{Process, command};
use skillopt_tests::support::wait::{LONG, for_some};
use skillopt_tests::support::{Cluster, World, clis};
use tokio::net::TcpSocket;

/// The credential of the model, which only workers know.
pub(crate) const KEY: &str = "sk-the-real-credential";
/// Items of the split that is evaluated.
pub(crate) const ITEMS: u64 = 12;

/// A sentence of the skill, for scripts that look whether it reached the model.
pub(crate) const SKILL: &str = "Say it in few words.";

/// Folder of everything that processes of a scene with a real CLI put among the temporary files, so
/// that what they left can be told from what others did.
const TMP: &str = "t";

const MODEL: &str = "\
model:
  optimizer_backend: openai_compatible
  optimizer: mock-model
  target: mock-model
  retry_attempts: 6
  retry_base_ms: 1
  retry_cap_ms: 50
";

const BUDGET: &str = "\
budget:
  prices: prices.yaml
";

/// Most tokens of an answer to one of these questions.
pub(crate) const ANSWER_TOKENS: u32 = 200;

/// The benchmark where a test says nothing else.
const QUESTIONS: &str = "\
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
const HEAD: &str = r#"# It is of no release.
[ "$*" = --version ] && exit 1
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
    mock: Option<Process>,
    /// Holds the port while there is no model, so that nobody else listens there.
    held: Option<TcpSocket>,
    pub(crate) port: u16,
    /// Variables of whoever runs tasks.
    env: Vec<(String, String)>,
}

impl Scene {
    /// Starts a model that follows `script`, and puts `program` in the place of the CLI.
    #[track_caller]
    pub(crate) fn new(script: Value, program: &str) -> Self {
        let target = "  target_backend: codex_exec\n  agent_provider: openai_compatible\n";
        let scene = Self::start(script, &[MODEL, target, BUDGET, QUESTIONS].concat());
        scene.program(program);
        scene
    }

    /// Starts a model that has no script yet, for the real CLI of a backend.
    #[track_caller]
    pub(crate) fn real(backend: &str) -> Self {
        Self::real_at(backend, QUESTIONS)
    }

    /// Does the same with another benchmark than questions: a section `env` of a configuration.
    #[track_caller]
    pub(crate) fn real_at(backend: &str, benchmark: &str) -> Self {
        let target = format!("  target_backend: {backend}\n");
        let config = [MODEL, &target, BUDGET, benchmark].concat();
        let mut scene = Self::start(json!({}), &config);
        let tmp = scene.world.path(TMP);
        std::fs::create_dir(&tmp).unwrap();
        let tmp = tmp.to_string_lossy().into_owned();
        scene.env.push(("TMPDIR".to_owned(), tmp));
        scene
    }

    /// Returns the folders of those who make sandboxes, or made them, for a real CLI.
    #[track_caller]
    pub(crate) fn sandboxes(&self) -> Vec<String> {
        let places = std::fs::read_dir(self.world.path(TMP)).unwrap();
        let inside = places.flat_map(|place| std::fs::read_dir(place.unwrap().path()));
        let names = inside.flatten().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let is_one = |name: &String| name.starts_with("host-") && !name.ends_with(".lock");
        names.filter(is_one).collect()
    }

    #[track_caller]
    fn start(mut script: Value, config: &str) -> Self {
        let world = World::new();
        script["key"] = KEY.into();
        world.write("script.json", script.to_string());
        world.write("config.yaml", config);
        world.write("prices.yaml", PRICES);
        world.write("skill.md", format!("# Skill\n\n{SKILL}\n"));
        let (process, port) = mock(&world, 0);
        Self {
            env: env(&world, port),
            world,
            mock: Some(process),
            held: None,
            port,
        }
    }

    /// Ends the model: whoever asks it now is refused the connection.
    #[track_caller]
    pub(crate) fn hang_up(&mut self) {
        drop(self.mock.take());
        let held = TcpSocket::new_v4().unwrap();
        held.set_reuseaddr(true).unwrap();
        held.bind(([127, 0, 0, 1], self.port).into()).unwrap();
        self.held = Some(held);
    }

    /// Starts the model again where it was.
    #[track_caller]
    pub(crate) fn pick_up(&mut self) {
        let (process, _) = mock(&self.world, self.port);
        self.mock = Some(process);
        self.held = None;
    }

    /// Sets a variable of whoever runs tasks.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Puts another program in the place of the CLI.
    pub(crate) fn program(&self, program: &str) {
        self.world.program("bin/codex", &format!("{HEAD}{program}"));
    }

    /// Returns what runs now in sandboxes of this scene, which has a real CLI: the arguments of each
    /// process that was given a folder of the scene, or lies in one.
    pub(crate) fn shut_in(&self) -> Vec<String> {
        let world = self.world.path("");
        let name = world.file_name().unwrap().to_string_lossy().into_owned();
        let place = format!("{name}/{TMP}/");
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let found = processes.filter_map(|process| {
            let read = |name: &str| {
                let bytes = std::fs::read(process.path().join(name)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).replace('\0', " ")
            };
            let lies = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
            let words = read("cmdline");
            let is_inside = lies.to_string_lossy().contains(&place)
                || words.contains(&place)
                || read("mountinfo").contains(&place);
            is_inside.then_some(words)
        });
        found.collect()
    }

    /// Starts a cluster whose workers run tasks, and are soon missed.
    #[track_caller]
    pub(crate) fn cluster(&self, workers: usize, slots: usize) -> Cluster {
        self.cluster_with(workers, slots, &["--lease-seconds", "2"])
    }

    /// Starts a cluster whose workers run tasks, and have further arguments.
    #[track_caller]
    pub(crate) fn cluster_with(&self, workers: usize, slots: usize, more: &[&str]) -> Cluster {
        Cluster::start_with(Shape {
            workers,
            slots: format!("chat=2,exec={slots}"),
            worker_args: more.iter().map(|word| (*word).to_owned()).collect(),
            env: self.env.clone(),
            ..Shape::default()
        })
    }

    /// Makes the call that evaluates the skill in this process.
    pub(crate) fn eval(&self, out: &str, more: &[&str]) -> Command {
        let mut command = command(["eval"].iter().chain(&ARGS).chain(&[out]).chain(more));
        command
            .current_dir(self.world.path(""))
            .envs(self.env.clone());
        command
    }

    /// Makes the call that trains the skill in this process, for one pass.
    pub(crate) fn train(&self, out: &str, more: &[&str]) -> Command {
        let args = ["train", "config.yaml", "--skill_init", "skill.md", "--out"];
        let once = ["--num_epochs", "1"];
        let mut command = command(args.iter().chain(&[out]).chain(&once).chain(more));
        command.current_dir(self.world.path(""));
        command.envs(self.env.clone());
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
        command.args(more).envs(self.env.clone());
        command
    }

    /// Makes the call that trains all cells of a sweep on a cluster.
    pub(crate) fn sweep(&self, cluster: &Cluster, file: &str, out: &str) -> Command {
        let args = ["submit", file, "--wait", "--cells", "--out", out];
        let mut command = self.world.ask(cluster, &args);
        command.envs(self.env.clone());
        command
    }

    /// Returns what the model was sent, and said to it.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let mut said = exchange(self.port, "GET", "/__mock/requests", "").unwrap();
        match said["requests"].take() {
            Value::Array(requests) => requests,
            other => panic!("no list of requests: {other}"),
        }
    }

    /// Returns requests that were answered, and their tokens.
    pub(crate) fn answered(&self) -> Answered {
        let mut answered = Answered::default();
        for entry in self.requests() {
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

/// Starts a model at a port; 0 lets the system choose.
#[track_caller]
fn mock(world: &World, port: u16) -> (Process, u16) {
    let path = world.path("script.json");
    let path = path.to_str().unwrap();
    let listen = format!("127.0.0.1:{port}");
    let mut mock = Process::start(&mut command(["sim", "mock", path, "--listen", &listen]));
    let port = for_some(LONG, || {
        let said = mock.stdout();
        let port = said.trim().rsplit_once(':').map(|(_, port)| port.parse());
        port.and_then(Result::ok)
            .or_else(|| mock.status().map(|_| 0))
    });
    let port = port.unwrap();
    assert_ne!(port, 0, "{}", mock.stderr());
    (mock, port)
}

/// Returns the variables of whoever runs tasks: where CLIs lie, and one model under the name of each
/// provider.
fn env(world: &World, port: u16) -> Vec<(String, String)> {
    let host = format!("http://127.0.0.1:{port}");
    let url = format!("{host}/v1");
    let path = format!("{}:{}", world.path("bin").display(), clis::path());
    let all: [(&str, &str); 12] = [
        ("PATH", &path),
        ("OPENAI_COMPATIBLE_BASE_URL", &url),
        ("OPENAI_COMPATIBLE_API_KEY", KEY),
        ("AZURE_OPENAI_ENDPOINT", &url),
        ("AZURE_OPENAI_AUTH_MODE", "openai"),
        ("AZURE_OPENAI_API_KEY", KEY),
        ("CLAUDE_BASE_URL", &host),
        ("ANTHROPIC_API_KEY", KEY),
        ("GEMINI_BASE_URL", &url),
        ("GEMINI_API_KEY", KEY),
        ("QWEN_CHAT_BASE_URL", &url),
        ("QWEN_CHAT_API_KEY", KEY),
    ];
    all.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
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
