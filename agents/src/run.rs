//! Runs one task: a room, a relay, a CLI, and what came of it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use skillopt_backends::CallError;
use skillopt_sandbox::{Host, Input, Limits, Line, Place, Refused, Stream as Pipe, Task};
use tokio::net::UnixListener;

use crate::account::Account;
use crate::cli::declared::Declared;
use crate::cli::{self, Call, Cli, Errand};
use crate::installed::Installed;
use crate::relay::{Gate, Plan, Record, Relay, Trouble, WayOut, Wire};
use crate::streams::{End, Stream};
use crate::verdict::{Verdict, judge};

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
    /// Whether the skill's text stood in a request.
    pub is_skill_seen: bool,
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
    let not_begun = |why: String| CallError::Connection {
        endpoint: endpoint.clone(),
        detail: format!("the agent could not be started: {why}"),
    };
    // The socket lies in a folder of its own, which goes with it.
    let folder = tempfile::tempdir().map_err(|e| not_begun(e.to_string()))?;
    let socket = folder.path().join("model.sock");
    let listener = UnixListener::bind(&socket).map_err(|e| not_begun(e.to_string()))?;
    let plan = Plan {
        marker: marker(order.skill).to_owned(),
        ..order.plan.clone()
    };
    let key = key();
    let relay = Relay::new(plan, Some(&key), way_out, gate);
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
        key: &key,
        effort: order.effort,
        max_tokens: order.max_tokens,
        home: &home,
        work: &work,
        settings: order.settings,
    };
    let call = match order.program {
        Program::Known(cli) => (cli.call)(&errand),
        Program::Declared(declared) => declared.call(&errand),
    };
    let last_words = call.last_words.clone();
    let task = task(call, &order, &home, &text(&paths.tmp));
    let mut stream = match order.program {
        Program::Known(cli) => Some(Stream::new(cli.dialect)),
        Program::Declared(_) => None,
    };
    let mut on_line = |line: Line<'_>| {
        if line.stream == Pipe::Out
            && let Some(stream) = &mut stream
        {
            stream.line(line.bytes);
        }
    };
    let report = tokio::select! {
        report = room.run(&task, &mut on_line) => report,
        // What cannot be paid for is not waited for.
        () = relay.is_shut() => Err(skillopt_sandbox::Error::Start(String::new())),
        // A relay serves until it is dropped.
        () = relay.serve_unix(listener) => Err(skillopt_sandbox::Error::Start("the relay ended".to_owned())),
    };
    relay.close().await;
    if let Some(Trouble::Gate(why)) = relay.record().trouble {
        return Err(CallError::Connection {
            endpoint,
            detail: why,
        });
    }
    let report = report.map_err(|e| not_begun(e.to_string()))?;
    let end = end(&report.ending);
    let mut account = match (stream, order.program) {
        (Some(stream), _) => stream.end(end),
        (None, Program::Declared(declared)) => declared.account(&report.stdout.text(), end),
        (None, Program::Known(_)) => Account::of(crate::Outcome::Crashed),
    };
    let mut files: Vec<(PathBuf, Vec<u8>)> = report
        .files
        .into_iter()
        .map(|file| (file.path, file.bytes))
        .collect();
    if let Some(path) = last_words {
        let is_it = |(found, _): &(PathBuf, Vec<u8>)| found.as_os_str() == path.as_str();
        if let Some(at) = files.iter().position(is_it) {
            let (_, bytes) = files.remove(at);
            let words = String::from_utf8_lossy(&bytes).trim().to_owned();
            if account.final_text.is_none() && !words.is_empty() {
                account.final_text = Some(words);
            }
        }
    }
    let record = relay.record();
    Ok(Finished {
        verdict: judge(&report.ending, &account, &record, &order.plan.address, wall),
        is_skill_seen: record.is_marker_seen,
        account,
        record,
        files,
        refused: report.refused,
        wall_seconds: report.wall.as_secs_f64(),
        cpu_seconds: report.cpu.as_secs_f64(),
        peak_memory_bytes: report.peak_memory_bytes,
        stderr: report.stderr.text(),
    })
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
    let folders = order.installed.path.iter().map(|folder| text(folder));
    let path: Vec<String> = folders
        .chain(["/usr/local/bin", "/usr/bin", "/bin"].map(str::to_owned))
        .collect();
    let mut env = call.env;
    for (name, value) in [
        ("HOME", home),
        ("PATH", &path.join(":")),
        ("TMPDIR", tmp),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
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
        is_executable: false,
    });
    let mut collect = order.collect.to_vec();
    collect.extend(call.last_words);
    Task {
        program: text(&order.installed.program),
        args: call.args,
        env,
        stdin: call.stdin.into_bytes(),
        files: given.chain(own).collect(),
        read_only: order.installed.read_only.clone(),
        collect,
    }
}

/// Returns the most telling line of a skill. CLIs put its text into frames of their own, so that the
/// whole is not looked for.
fn marker(skill: &str) -> &str {
    let body = match skill.strip_prefix("---\n") {
        Some(rest) => rest.split_once("\n---\n").map_or(rest, |(_, body)| body),
        None => skill,
    };
    let lines = body.lines().map(str::trim);
    lines.max_by_key(|line| line.len()).unwrap_or_default()
}

/// Names what a CLI speaks.
#[must_use]
pub fn wire_of(program: Program<'_>) -> Wire {
    match program {
        Program::Known(cli) => cli.wire,
        // A declaration is checked when it is read.
        Program::Declared(declared) => declared.wire().unwrap_or(Wire::Chat),
    }
}
