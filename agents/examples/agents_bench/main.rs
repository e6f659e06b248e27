//! Measures what agents need that do a task at the same time, and prints one JSON object;
//! `cargo xtask bench agents` runs it.
//!
//! Arguments: the program whose `sandbox-init` is used, as the product does, and a search path with
//! the CLIs. The model is scripted: one command, then the answer, a second of waiting before each.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Map, Value, json};
use skillopt_agents::cli::{self, Cli};
use skillopt_agents::installed::Installed;
use skillopt_agents::relay::{Answer, Caps, Open, Plan, Tries, WayOut};
use skillopt_agents::run::{Order, Program, run};
use skillopt_agents::verdict::Verdict;
use skillopt_runtime::clock::Stopwatch;
use skillopt_sandbox::{Host, Limits, Policy, Settings};
use skillopt_sim::mock::{Mock, Script};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The CLIs, and how many tasks each does at once; the last ones are too heavy for a dozen.
const CASES: [(&str, &[usize]); 6] = [
    ("codex_exec", &[1, 4, 12]),
    ("claude_code_exec", &[1, 4, 12]),
    ("copilot_exec", &[1, 4]),
    ("opencode_exec", &[1, 4]),
    ("gemini_exec", &[1, 4]),
    ("qwen_code_exec", &[1, 4]),
];
/// Pause between two looks at memory.
const PAUSE: Duration = Duration::from_millis(50);

type Failure = Box<dyn Error + Send + Sync>;

struct Out(Client<HttpConnector, Full<Bytes>>);

#[async_trait]
impl WayOut for Out {
    async fn post(
        &self,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
        _: Duration,
    ) -> Result<Answer, String> {
        let request = Request::post(to.clone()).body(Full::new(body));
        let mut request = request.map_err(|e| e.to_string())?;
        *request.headers_mut() = headers;
        let answer = self.0.request(request).await.map_err(|e| e.to_string())?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(init), Some(path)) = (args.next(), args.next()) else {
        return Err("give the program and a search path with the CLIs".into());
    };
    let folder = tempfile::Builder::new().prefix("skillopt-").tempdir()?;
    let host = Host::open(Settings {
        folder: folder.path().join("s"),
        init: init.into(),
        init_args: vec!["sandbox-init".to_owned()],
        policy: Policy::Auto,
        bubblewrap: None,
        cgroup: None,
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut figures = Map::new();
    for (backend, at_once) in CASES {
        let cli = cli::find(backend).ok_or("an unknown CLI")?;
        let installed = Installed::find(cli, None, &path)?;
        for n in at_once.iter().copied() {
            let seen = measure(&runtime, &host, folder.path(), cli, &installed, n)?;
            for (what, value) in seen {
                figures.insert(format!("{backend}_{n}_{what}"), value.into());
            }
        }
    }
    #[expect(clippy::print_stdout, reason = "what the program is for")]
    {
        println!("{}", Value::from(figures));
    }
    Ok(())
}

/// Runs so many tasks at once: memory of all sandboxes together at its highest, and processor time of
/// one task.
fn measure(
    runtime: &tokio::runtime::Runtime,
    host: &Host,
    folder: &Path,
    cli: &'static Cli,
    installed: &Installed,
    n: usize,
) -> Result<[(&'static str, f64); 3], Failure> {
    let (stop, stopped) = channel();
    let name = folder.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let watch = std::thread::Builder::new().spawn(move || most_memory(&name, &stopped))?;
    let wall = Stopwatch::start();
    let cpu_s = runtime.block_on(tasks(host, cli, installed, n))?;
    let wall_s = wall.seconds();
    drop(stop);
    let bytes = watch.join().map_err(|_| "the watch broke")?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (memory_mib, n) = (bytes as f64 / 1_048_576.0, n as f64);
    Ok([
        ("memory_mib", memory_mib),
        ("cpu_s", cpu_s / n),
        ("wall_s", wall_s),
    ])
}

/// Runs so many tasks at once; returns the processor time of all.
async fn tasks(
    host: &Host,
    cli: &'static Cli,
    installed: &Installed,
    n: usize,
) -> Result<f64, Failure> {
    let mock = Mock::new(Script::parse(&script().to_string())?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/v1", listener.local_addr()?);
    let work = async {
        let mut all = JoinSet::new();
        for _ in 0..n {
            let (host, installed) = (host.clone(), installed.clone());
            let address = address.clone();
            all.spawn(async move { task(&host, cli, &installed, &address).await });
        }
        let mut cpu_s = 0.0;
        while let Some(done) = all.join_next().await {
            cpu_s += done??;
        }
        Ok(cpu_s)
    };
    tokio::select! {
        done = work => done,
        () = mock.serve(listener) => Err("the model ended".into()),
    }
}

async fn task(
    host: &Host,
    cli: &'static Cli,
    installed: &Installed,
    address: &str,
) -> Result<f64, Failure> {
    let order = Order {
        program: Program::Known(cli),
        installed,
        release: None,
        prompt: "How many words are in task.md?",
        skill: "---\nname: skillopt-target\ndescription: Counting.\n---\n\nCount twice.\n",
        skill_files: &BTreeMap::new(),
        effort: "",
        max_tokens: 0,
        settings: &Map::new(),
        files: &[("task.md".to_owned(), b"one two three four\n".to_vec())],
        collect: &[],
        limits: Limits::default(),
        plan: Plan {
            cli: cli.wire,
            provider: cli.wire,
            address: address.to_owned(),
            credential: HeaderMap::new(),
            model: "m".to_owned(),
            marker: String::new(),
            caps: Caps::default(),
            tries: Tries::default(),
        },
        direct: None,
    };
    let way_out = Out(Client::builder(TokioExecutor::new()).build_http());
    let finished = run(host, order, Arc::new(way_out), Arc::new(Open)).await?;
    match finished.verdict {
        Verdict::Answered(text) if text == "four" => Ok(finished.cpu_seconds),
        other => Err(format!("{other:?}: {}", finished.stderr).into()),
    }
}

/// A command in whichever tool the CLI has for it, then the answer.
fn script() -> Value {
    let call = |tool: &str, arguments: Value| {
        json!({"when": {"tool": tool, "turn": 0}, "reply": {
            "tool_calls": [{"name": tool, "arguments": arguments}], "latency_ms": 1000,
        }})
    };
    let described = json!({
        "command": "wc -w task.md", "description": "count", "is_background": false,
    });
    json!({
        "rules": [
            call("exec_command", json!({"cmd": "wc -w task.md"})),
            call("Bash", described.clone()),
            call("bash", described.clone()),
            call("run_shell_command", described),
        ],
        "default": {"text": "four", "latency_ms": 1000},
    })
}

/// Returns the most memory that sandboxes below a folder of this name had at the same time, in bytes;
/// what processes share is counted once.
fn most_memory(name: &str, stopped: &Receiver<()>) -> u64 {
    let mut most = 0;
    while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        most = most.max(memory(name));
    }
    most
}

/// Adds up the processes that were given something of the folder: it is mounted where they are.
fn memory(name: &str) -> u64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = processes.filter_map(|process| {
        let read = |file: &str| std::fs::read_to_string(process.path().join(file)).ok();
        read("mountinfo").filter(|mounts| mounts.contains(name))?;
        let memory = read("smaps_rollup")?;
        let line = memory.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib * 1024)
    });
    all.sum()
}
