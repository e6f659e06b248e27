//! `skillopt doctor`: what would keep a run from working.

mod agents;
mod prices;
mod probe;
mod provider;
mod sandbox;

use std::path::{Path, PathBuf};

use serde_json::json;
use skillopt_backends::CallError;
use skillopt_config::{AnswerMode, Role, RunConfig};
use skillopt_coordinator::prepare::{Prepared, prepare};
use skillopt_core::job::Profile;
use skillopt_queue::sqlite::SqlitePeek;
use skillopt_runtime::{Shutdown, limits};
use skillopt_worker::ModelFactory;

use crate::advice;
use crate::args::DoctorArgs;
use crate::config_args::check_backends;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::models;
use crate::output::{Out, Tone};
use crate::process;
use crate::remarks;

/// What the answers of the target's model are told as.
const TARGET: &str = "target model";

/// Open files below which large numbers of slots do not fit.
const FILES_WANTED: u64 = 1_024;

/// How far a clock may be off before tokens are refused, in seconds.
const CLOCK_SECONDS_MAX: u64 = 60;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fine,
    /// Works, but not as well as it could.
    Weak,
    Broken(Exit),
    /// Could not be checked, for another check failed.
    Left,
}

/// One thing that was looked at.
struct Check {
    name: &'static str,
    state: State,
    words: String,
    hint: Option<String>,
}

impl Check {
    fn new(name: &'static str, state: State, words: impl Into<String>) -> Self {
        Self {
            name,
            state,
            words: words.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn broken(name: &'static str, failure: &Failure) -> Vec<Self> {
        let hints = std::iter::once(failure.hint.clone()).chain(std::iter::repeat(None));
        let pairs = failure.errors.iter().zip(hints);
        let check = |(wrong, hint): (&crate::failure::Wrong, Option<String>)| Self {
            name,
            state: State::Broken(failure.exit),
            words: match &wrong.place {
                Some(place) => format!("{} ({place})", wrong.message),
                None => wrong.message.clone(),
            },
            hint,
        };
        pairs.map(check).collect()
    }
}

pub(crate) fn run(args: &DoctorArgs, out: &Out) -> Result<Exit, Failure> {
    let mut checks = vec![open_files(), sandbox::check()];
    if args.config.path().is_some() {
        checks.extend(with_config(args, out)?);
    } else {
        checks.push(agents::check(None));
        checks.push(backends());
    }
    Ok(report(&checks, args.config.path().is_none(), out))
}

fn open_files() -> Check {
    let files = limits::raise_open_files();
    let words = format!("this process may open {files} files and sockets");
    if files >= FILES_WANTED {
        Check::new("open files", State::Fine, words)
    } else {
        Check::new("open files", State::Weak, words).hint("raise the limit with `ulimit -n 65536`")
    }
}

fn backends() -> Check {
    let words = format!("available: {}", models::available_in_any().join(", "));
    Check::new("backends", State::Fine, words)
}

fn with_config(args: &DoctorArgs, out: &Out) -> Result<Vec<Check>, Failure> {
    let mut checks = Vec::new();
    let config = match args.config.load() {
        Ok(loaded) => {
            out.warnings(&loaded.warnings);
            checks.push(Check::new(
                "configuration",
                State::Fine,
                "every value is valid",
            ));
            loaded.config
        }
        Err(failure) => {
            checks.push(agents::check(None));
            checks.extend(Check::broken("configuration", &failure));
            return Ok(checks);
        }
    };
    checks.push(agents::check(Some(&config)));
    checks.extend(prices::check(&config));
    if models::has_agent(&config)
        && let Some(shown) = remarks::in_the_open(&config)
    {
        checks.push(Check::new("data of agents", State::Weak, shown));
    }
    checks.push(folder(&config));
    checks.push(store(&config));
    let prepared = match scratch_prepare(&config) {
        Ok(prepared) => {
            let samples = &prepared.plan.samples;
            let words = format!(
                "{}: {} train, {} val and {} test items",
                prepared.title,
                samples.train.len(),
                samples.val.len(),
                samples.test.len()
            );
            checks.push(Check::new("data and skill", State::Fine, words));
            Some(prepared)
        }
        Err(failure) => {
            checks.extend(Check::broken("data and skill", &failure));
            None
        }
    };
    if let Err(failure) = check_backends(&config, &[Role::Optimizer, Role::Target]) {
        checks.extend(Check::broken("backends", &failure));
    } else if args.offline {
        checks.push(Check::new(
            "models",
            State::Left,
            "not asked, because of --offline",
        ));
    } else if let Some(prepared) = prepared {
        checks.extend(ask(&config, &prepared)?);
    } else {
        checks.push(Check::new(
            "models",
            State::Left,
            "not asked before the data are fine",
        ));
    }
    Ok(checks)
}

/// Loads everything without leaving a split behind.
fn scratch_prepare(config: &RunConfig) -> Result<Prepared, Failure> {
    let scratch = tempfile::tempdir()?;
    let mut config = config.clone();
    config.out_root = scratch.path().display().to_string();
    Ok(prepare(&config)?)
}

fn folder(config: &RunConfig) -> Check {
    let wanted = match config.out_root.trim() {
        "" => PathBuf::from("outputs"),
        path => PathBuf::from(path),
    };
    let existing = wanted
        .ancestors()
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("."));
    match tempfile::tempfile_in(existing) {
        Ok(_) => {
            let words = format!("`{}` can be written", wanted.display());
            Check::new("run folder", State::Fine, words)
        }
        Err(e) => {
            let words = format!("`{}` cannot be written: {e}", existing.display());
            Check::new("run folder", State::Broken(Exit::Usage), words)
                .hint("choose another folder with --out")
        }
    }
}

fn store(config: &RunConfig) -> Check {
    let path = if !config.store.is_empty() {
        PathBuf::from(&config.store)
    } else if config.out_root.is_empty() {
        return Check::new("store", State::Fine, "made with the run folder");
    } else {
        skillopt_coordinator::folder::RunFolder::new(&config.out_root).store()
    };
    if !path.exists() {
        let words = format!("`{}` will be made", path.display());
        return Check::new("store", State::Fine, words);
    }
    let opened = SqlitePeek::open(&path).and_then(|s| s.log(&skillopt_queue::RunId::new("-")));
    match opened {
        Ok(_) => Check::new(
            "store",
            State::Fine,
            format!("`{}` can be read", path.display()),
        ),
        Err(e) => Check::new("store", State::Broken(Exit::Usage), e.to_string())
            .hint("choose another one with --store"),
    }
}

fn ask(config: &RunConfig, prepared: &Prepared) -> Result<Vec<Check>, Failure> {
    let http = models::http();
    let make = models::factory_over(&http, config, &models::Tape::Off);
    let shutdown = Shutdown::new();
    let work = async {
        let mut checks = Vec::new();
        for (profile, mode) in prepared
            .profiles
            .iter()
            .zip([config.target_answer_mode, config.optimizer_answer_mode])
        {
            if profile.role == "target" && models::has_agent(config) {
                checks.push(ask_provider(config, profile, &make).await);
            } else {
                checks.extend(ask_model(profile, mode, &make).await);
            }
        }
        checks.extend(http.clock_ahead().map(clock));
        checks
    };
    let work = async { shutdown.drain.run_until_cancelled(work).await };
    let checks = process::block_on(&shutdown, |_| {}, work)?;
    checks.ok_or_else(|| Failure::new(Exit::Interrupted, "interrupted"))
}

/// Asks the model of a role, and whether its answers can be bound.
async fn ask_model(profile: &Profile, mode: AnswerMode, make: &ModelFactory) -> [Check; 2] {
    let (name, schema) = if profile.role == "target" {
        (TARGET, "target schema")
    } else {
        ("optimizer model", "optimizer schema")
    };
    let model = match make(profile) {
        Ok(model) => model,
        Err(e) => {
            return [
                unanswered(name, &e.into(), profile),
                Check::new(schema, State::Left, "not asked"),
            ];
        }
    };
    match probe::answers(model.as_ref(), profile).await {
        Err(e) => [
            unanswered(name, &e, profile),
            Check::new(schema, State::Left, "not asked"),
        ],
        Ok(answered) => {
            let bound = probe::is_bound(model.as_ref(), profile).await;
            [
                told(name, answered.words, answered.hint),
                schema_check(schema, mode, bound),
            ]
        }
    }
}

/// Asks the model that an agent's relay will ask. The agent itself is not started: a task in its
/// sandbox is no cheap call.
async fn ask_provider(config: &RunConfig, agent: &Profile, make: &ModelFactory) -> Check {
    let checked = models::check_agent(config).and_then(|()| models::check_release(config));
    if let Err(e) = checked {
        return unanswered(TARGET, &e, agent);
    }
    let profile = match provider::of_agent(config, agent) {
        Ok(profile) => profile,
        Err(why) => return Check::new(TARGET, State::Left, why),
    };
    let answer = match make(&profile) {
        Ok(model) => probe::answers(model.as_ref(), &profile).await,
        Err(e) => Err(e.into()),
    };
    match answer {
        Ok(answered) => {
            let words = format!("{}, where `{}` will ask it", answered.words, agent.backend);
            told(TARGET, words, answered.hint)
        }
        Err(e) => unanswered(TARGET, &e, &profile),
    }
}

/// Tells of a model that gave an answer; there is a hint if it was no whole one.
fn told(name: &'static str, words: String, hint: Option<&'static str>) -> Check {
    match hint {
        None => Check::new(name, State::Fine, words),
        Some(hint) => Check::new(name, State::Weak, words).hint(hint),
    }
}

/// Tells of a model that gave no answer.
fn unanswered(name: &'static str, error: &CallError, profile: &Profile) -> Check {
    let cause = match error {
        CallError::SignIn(cause) => cause,
        other => other,
    };
    let exit = match cause {
        // What is missing is on this side; there was nobody to ask.
        CallError::Misconfigured { status: 0, .. } => Exit::Usage,
        _ => Exit::Paused,
    };
    Check::new(name, State::Broken(exit), error.to_string()).hint(advice::of_call(error, profile))
}

/// Judges by how many seconds the provider's clock is ahead of this machine's.
fn clock(ahead: i64) -> Check {
    let apart = ahead.unsigned_abs();
    if apart <= CLOCK_SECONDS_MAX {
        return Check::new("clock", State::Fine, "the provider's tells the same time");
    }
    let side = if ahead > 0 { "behind" } else { "ahead of" };
    let words = format!(
        "this machine's clock is {} {side} the provider's",
        span(apart)
    );
    Check::new("clock", State::Weak, words).hint(
        "set it (timedatectl set-ntp true): tokens and certificates are refused at a wrong time, \
         and errors then speak of keys",
    )
}

/// Says how long so many seconds are, rounded down.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

fn schema_check(name: &'static str, mode: AnswerMode, bound: Result<(), String>) -> Check {
    match (bound, mode) {
        (Ok(()), _) => Check::new(name, State::Fine, "answers can be bound to a JSON schema"),
        (Err(why), AnswerMode::Free) => {
            let words = format!("answers cannot be bound to a JSON schema: {why}");
            Check::new(name, State::Weak, words).hint("no matter with the answer mode `free`")
        }
        (Err(why), AnswerMode::Schema) => {
            let words = format!("answers cannot be bound to a JSON schema: {why}");
            Check::new(name, State::Broken(Exit::Usage), words)
                .hint("use the answer mode `free`, or a server that knows `response_format`")
        }
    }
}

fn report(checks: &[Check], is_bare: bool, out: &Out) -> Exit {
    for check in checks {
        let (mark, word, tone) = match check.state {
            State::Fine => ("●", "fine", Tone::Good),
            State::Weak => ("◇", "weak", Tone::Warn),
            State::Broken(_) => ("✕", "broken", Tone::Bad),
            State::Left => ("–", "left out", Tone::Faint),
        };
        if out.json {
            out.object(
                "check",
                json!({"name": check.name, "state": word, "message": check.words, "hint": check.hint}),
            );
            continue;
        }
        let padded = format!("{:<16}", check.name);
        out.line(format!(
            "{} {padded} {}",
            out.paint.of(tone, mark),
            check.words
        ));
        if let Some(hint) = &check.hint {
            out.line(format!(
                "  {:<16} {}: {hint}",
                "",
                out.paint.of(Tone::Name, "hint")
            ));
        }
    }
    let broken = checks.iter().find_map(|check| match check.state {
        State::Broken(exit) => Some(exit),
        _ => None,
    });
    if broken.is_none() && is_bare && !out.json {
        out.chat("name a configuration to check its data and models, too");
    }
    broken.unwrap_or(Exit::Done)
}
