//! Runs one task: a room, a relay, a CLI, and what came of it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use skillopt_backends::CallError;
use skillopt_sandbox::{Host, Input, Limits, Line, Place, Refused, Stream as Pipe, Task};
use tokio::net::UnixListener;

use skillopt_backends::agents::declared::Declared;
use skillopt_core::secret::Secret;
use skillopt_runtime::redact::likely;

use crate::account::Account;
use crate::cli::{self, Call, Cli, Errand, Version};
use crate::installed::Installed;
use crate::mask::Masks;
use crate::relay::{Gate, Plan, Record, Relay, Trouble, WayOut, marker};
use crate::streams::{self, End, Stream};
use crate::tunnel::{Host as Outside, Tunnel};
use crate::verdict::{Verdict, judge, told};

pub use crate::tunnel::Passed;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// One that is built in.
    Known(&'static Cli),
    /// One that a user declared.
    Declared(&'a Declared),
}

/// One task.
pub struct Order<'a> {
    /// The CLI.
    pub program: Program<'a>,
    /// Where it lies.
    pub installed: &'a Installed,
    /// Its release, which chooses its flags; `None` is taken for the newest that was tried.
    pub release: Option<Version>,
    /// What the agent is told.
    pub prompt: &'a str,
    /// The trained skill, front matter included.
    pub skill: &'a str,
    /// Its other files.
    pub skill_files: &'a BTreeMap<String, String>,
    /// How hard the model thinks.
    pub effort: &'a str,
    /// Most tokens of one answer; 0 leaves it to the CLI.
    pub max_tokens: u32,
    /// Further settings of the backend.
    pub settings: &'a Map<String, Value>,
    /// Files of the task: path in the working folder, bytes.
    pub files: &'a [(String, Vec<u8>)],
    /// Patterns of the files that are wanted back.
    pub collect: &'a [String],
    /// What the task may use.
    pub limits: Limits,
    /// What its relay lets out.
    pub plan: Plan,
    /// Where it goes by itself, in place of a relay.
    pub direct: Option<&'a Direct>,
}

/// What a CLI needs that asks servers of its vendor by itself.
pub struct Direct {
    /// Where it may go.
    pub(crate) hosts: Vec<Outside>,
    /// The vendor's key, which lies in the sandbox.
    pub(crate) key: Secret,
}

/// What stands behind the port inside.
enum WayThrough {
    Relay(Relay),
    Tunnel(Tunnel),
}

/// What a task came to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What it means.
    pub verdict: Verdict,
    /// What the CLI said of itself.
    pub account: Account,
    /// What went through the relay: the trajectory.
    pub record: Record,
    /// Files that were wanted back.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// What was wanted back and is no file that can be taken.
    pub refused: Vec<Refused>,
    /// Whether the skill's text stood in a request; nobody knows where there is no relay.
    pub is_skill_seen: bool,
    /// How many of its processes were still alive when it had ended, and were killed.
    pub left_behind: u64,
    /// Where it wanted to go and was not let, if it goes by itself.
    pub kept_from: Vec<String>,
    /// What went out and in, if it goes by itself.
    pub passed: Passed,
    /// Seconds from start to end.
    pub wall_seconds: f64,
    /// Seconds of processor time.
    pub cpu_seconds: f64,
    /// Most memory at the same time, in bytes.
    pub peak_memory_bytes: u64,
    /// The last of what it printed to standard error.
    pub stderr: String,
}

/// Runs a task to its end.
///
/// # Errors
/// It could not begin: nothing can be said of the agent.
///
/// # Cancel safety
/// May be dropped at any time; the sandbox ends everything that was started.
pub async fn run(
    host: &Host,
    order: Order<'_>,
    way_out: Arc<dyn WayOut>,
    gate: Arc<dyn Gate>,
) -> Result<Finished, CallError> {
    let endpoint = order.plan.address.clone();
    let not_begun = |why: String| CallError::Machine {
        detail: format!("the agent could not be started: {why}"),
    };
    // The socket goes with its folder, and with the sandboxes' own place if this process is killed.
    let folder = host.own_folder().map_err(|e| not_begun(e.to_string()))?;
    let socket = folder.path().join("relay");
    let listener = UnixListener::bind(&socket).map_err(|e| not_begun(e.to_string()))?;
    let plan = Plan {
        marker: marker::of(order.skill),
        ..order.plan.clone()
    };
    let key = key();
    let way = match order.direct {
        Some(direct) => WayThrough::Tunnel(Tunnel::new(&direct.hosts)),
        None => WayThrough::Relay(Relay::new(plan, Some(&key), way_out, gate)),
    };
    let way_in = skillopt_sandbox::Relay { socket };
    let limits = order.limits.clone();
    let wall = limits.wall;
    let room = host.room(vec![way_in], limits);
    let mut room = room.map_err(|e| not_begun(e.to_string()))?;
    let paths = room.paths();
    let (home, work) = (text(&paths.home), text(&paths.work));
    let errand = Errand {
        prompt: order.prompt,
        skill: order.skill,
        skill_files: order.skill_files,
        model: &order.plan.model,
        port: room.ports().first().copied().unwrap_or_default(),
        key: order
            .direct
            .map_or(key.as_str(), |direct| direct.key.expose().trim()),
        effort: order.effort,
        max_tokens: order.max_tokens,
        wants_files: !order.collect.is_empty(),
        home: &home,
        work: &work,
        settings: order.settings,
    };
    let call = match order.program {
        Program::Known(cli) => cli.call_of(order.release, &errand),
        Program::Declared(declared) => cli::declared::call(declared, &errand),
    };
    let task = task(call, &order, &home, &text(&paths.tmp));
    let mut stream = match order.program {
        Program::Known(cli) => Some(Stream::new(cli.dialect)),
        Program::Declared(declared) => declared.events.as_ref().map(Stream::declared),
    };
    let mut on_line = |line: Line<'_>| {
        if line.stream == Pipe::Out
            && let Some(stream) = &mut stream
        {
            stream.line(line.bytes);
        }
    };
    let serve = async {
        match &way {
            WayThrough::Relay(relay) => relay.serve_unix(listener).await,
            WayThrough::Tunnel(tunnel) => tunnel.serve(listener).await,
        }
    };
    let shut = async {
        match &way {
            WayThrough::Relay(relay) => relay.is_shut().await,
            WayThrough::Tunnel(_) => std::future::pending().await,
        }
    };
    let report = tokio::select! {
        report = room.run(&task, &mut on_line) => report,
        // What cannot be paid for is not waited for.
        () = shut => Err(skillopt_sandbox::Error::Start(String::new())),
        // It serves until it is dropped.
        () = serve => Err(skillopt_sandbox::Error::Start("the relay ended".to_owned())),
    };
    if let WayThrough::Relay(relay) = &way {
        relay.close().await;
        if let Some(Trouble::Gate(why)) = relay.record().trouble {
            return Err(CallError::Connection {
                endpoint,
                detail: why,
            });
        }
    }
    let report = report.map_err(|e| match e {
        // Mostly what the task names: no machine could do it.
        refused @ skillopt_sandbox::Error::Task(_) => CallError::Misconfigured {
            endpoint: endpoint.clone(),
            status: 0,
            detail: refused.to_string(),
        },
        other => not_begun(other.to_string()),
    })?;
    let end = end(&report.ending);
    let mut account = match stream {
        Some(stream) => stream.end(end),
        None => streams::plain(&report.stdout.text(), end),
    };
    let stderr = report.stderr.text();
    if account.errors.is_empty() && !account.outcome.is_answer() {
        account.errors.extend(last_words_of(&stderr));
    }
    for words in &mut account.errors {
        *words = likely(words);
    }
    let files = report.files.into_iter();
    let files = files.map(|file| (file.path, file.bytes)).collect();
    let (mut record, kept_from, passed) = match way {
        WayThrough::Relay(relay) => (relay.record(), Vec::new(), Passed::default()),
        WayThrough::Tunnel(tunnel) => (Record::default(), tunnel.refused(), tunnel.passed()),
    };
    let masks = Masks::new(room.of_this_run(), &key);
    masks.record(&mut record);
    for entry in &mut account.trace {
        masks.value(entry);
    }
    let way = (order.plan.address.as_str(), order.direct.is_some());
    let mut verdict = judge(&report.ending, &account, &record, way, wall);
    let is_lost = matches!(report.ending, skillopt_sandbox::Ending::Lost(_));
    if order.direct.is_some() && !is_lost && matches!(verdict, Verdict::NotJudged(_)) {
        let words = account.errors.first().map_or("", String::as_str);
        verdict = Verdict::NotJudged(told(account.outcome, words, &order.plan.address));
    }
    Ok(Finished {
        verdict,
        is_skill_seen: record.is_marker_seen,
        left_behind: report.left_behind,
        kept_from,
        passed,
        account,
        record,
        files,
        refused: report.refused,
        wall_seconds: report.wall.as_secs_f64(),
        cpu_seconds: report.cpu.as_secs_f64(),
        peak_memory_bytes: report.peak_memory_bytes,
        stderr,
    })
}

/// Longest text that is taken from standard error, in characters.
const WORDS_MAX: usize = 400;

/// Returns the end of what a program said to standard error: where it says nothing else, that is why
/// it failed.
fn last_words_of(stderr: &str) -> Option<String> {
    let text = stderr.trim();
    let from = text.chars().count().saturating_sub(WORDS_MAX);
    let words: String = text.chars().skip(from).collect();
    Some(words.trim().to_owned()).filter(|words| !words.is_empty())
}

/// Makes the key of one task, which its relay alone takes: long, for some CLIs mask it wherever it
/// stands in what they print.
fn key() -> String {
    let random = || RandomState::new().hash_one(0_u8);
    format!("sk-relay-{:016x}{:016x}-worth-nothing", random(), random())
}

fn text(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

fn end(ending: &skillopt_sandbox::Ending) -> End {
    use skillopt_sandbox::Ending;
    match ending {
        Ending::Exited(code) => End {
            exit_code: Some(*code),
            was_told_to_go: false,
        },
        Ending::Signalled(_) => End {
            exit_code: None,
            was_told_to_go: false,
        },
        Ending::TimedOut | Ending::Limit(_) | Ending::Lost(_) => End {
            exit_code: None,
            was_told_to_go: true,
        },
    }
}

fn task(call: Call, order: &Order<'_>, home: &str, tmp: &str) -> Task {
    let mut env = call.env;
    env.extend(order.installed.environment(home, tmp));
    let own = call.files.into_iter().map(|file| Input {
        place: match file.place {
            cli::Place::Work => Place::Work,
            cli::Place::Home => Place::Home,
        },
        path: file.path.into(),
        bytes: file.text.into_bytes(),
        is_executable: false,
    });
    let given = order.files.iter().map(|(path, bytes)| Input {
        place: Place::Work,
        path: path.into(),
        bytes: bytes.clone(),
        // It names the program that it is for.
        is_executable: bytes.starts_with(b"#!"),
    });
    Task {
        program: text(&order.installed.program),
        args: call.args,
        env,
        stdin: call.stdin.into_bytes(),
        files: given.chain(own).collect(),
        read_only: order.installed.read_only.clone(),
        collect: order.collect.to_vec(),
    }
}
