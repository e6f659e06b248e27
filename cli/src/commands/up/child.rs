//! A child of `skillopt up`.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use skillopt_runtime::clock::Stopwatch;
use skillopt_runtime::{Shutdown, files};

use super::{LOOK, START};
use crate::exit::Exit;
use crate::failure::Failure;

/// Part of a log that is looked at, in bytes.
const LOG_MAX: u64 = 16 << 20;
/// Lines of a log that are shown when a child ends by itself.
const SHOWN: usize = 5;

/// A process that ends, at the latest, with this value.
pub(super) struct Child {
    name: String,
    log: PathBuf,
    /// Where its own words begin in a log that others have written to before.
    from: usize,
    process: std::process::Child,
}

impl Child {
    /// Starts this very program with other arguments.
    pub(super) fn ours(
        name: &str,
        args: &[&str],
        env: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        Self::start(name, &program, args, env, Stdio::null(), log)
    }

    /// Starts a program that dies with this one, and writes what it says to `log`.
    pub(super) fn start(
        name: &str,
        program: &Path,
        args: &[&str],
        env: &[(&str, &str)],
        stdin: Stdio,
        log: &Path,
    ) -> Result<Self, Failure> {
        let cannot = |e: std::io::Error| {
            Failure::new(
                Exit::Unexpected,
                format!("{} cannot be started: {e}", title(name)),
            )
        };
        let from = log.metadata().map_or(0, |m| m.len());
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(cannot)?;
        let process = Command::new(std::env::current_exe().map_err(cannot)?)
            .args(["child", "--parent", &std::process::id().to_string(), "--"])
            .arg(program)
            .args(args)
            .envs(env.iter().copied())
            .stdin(stdin)
            .stdout(out.try_clone().map_err(cannot)?)
            .stderr(out)
            // Ctrl-C in a terminal goes to the whole group of the program in front.
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        Ok(Self {
            name: name.to_owned(),
            log: log.to_owned(),
            from: usize::try_from(from).unwrap_or(usize::MAX),
            process,
        })
    }

    /// Returns its end of a pipe, if it was started with one.
    pub(super) const fn stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.process.stdin.take()
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// It ends, or takes too long.
    pub(super) async fn ready(&mut self) -> Result<(), Failure> {
        let line = format!("{}: ready", self.name);
        self.until(|said| said.lines().any(|l| l == line)).await
    }

    /// Waits until what it has said is enough.
    ///
    /// # Errors
    /// It ends, or takes too long.
    pub(super) async fn until(&mut self, is_enough: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let start = Stopwatch::start();
        while !is_enough(&self.text()) {
            self.check()?;
            if start.elapsed() > START {
                return Err(self.broken(&format!("is not ready after {} s", START.as_secs())));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns what it said after `what`, to the end of the line.
    pub(super) fn said(&self, what: &str) -> Option<String> {
        let text = self.text();
        let mut lines = text.lines();
        let (_, rest) = lines.find_map(|line| line.split_once(what))?;
        Some(rest.trim().to_owned())
    }

    /// Looks whether it is still there.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.broken(&format!("ended by itself ({status})"))),
            Err(e) => Err(Failure::new(Exit::Unexpected, e)),
        }
    }

    /// Returns how it ended, in words, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<String>, Failure> {
        match self.process.try_wait() {
            Ok(None) => Ok(None),
            Ok(Some(status)) if status.success() => Ok(Some(format!("{} left", self.name))),
            Ok(Some(status)) => Ok(Some(format!(
                "{} ended by itself ({status}); its log is {}",
                self.name,
                self.log.display()
            ))),
            Err(e) => Err(Failure::new(Exit::Unexpected, e)),
        }
    }

    fn text(&self) -> String {
        let bytes = files::read_limited(&self.log, LOG_MAX).unwrap_or_default();
        let own = bytes.get(self.from.min(bytes.len())..).unwrap_or_default();
        String::from_utf8_lossy(own).into_owned()
    }

    fn broken(&self, what: &str) -> Failure {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(SHOWN)..];
        let failure = Failure::new(Exit::Unexpected, format!("{} {what}", title(&self.name)));
        if last.is_empty() {
            return failure.hint(format!("its log is {}", self.log.display()));
        }
        failure.hint(format!("its log ends with:\n  {}", last.join("\n  ")))
    }

    fn is_gone(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.process.id()) {
            // It may be gone meanwhile; it has not been waited for, so the number is still its own.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

/// There are several workers, but one Redis and one coordinator.
fn title(name: &str) -> String {
    if name.starts_with("worker-") {
        name.to_owned()
    } else {
        format!("the {name}")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_gone() {
            drop(self.process.kill());
            drop(self.process.wait());
        }
    }
}

/// Ends children: asks them, waits for `patience` or until a person has none, then kills.
pub(super) async fn end(children: &mut [Child], patience: Duration, shutdown: &Shutdown) {
    for child in children.iter_mut() {
        if !child.is_gone() {
            child.signal(Signal::SIGTERM);
        }
    }
    let start = Stopwatch::start();
    while children.iter_mut().any(|child| !child.is_gone()) {
        if start.elapsed() > patience || shutdown.now.is_cancelled() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    for child in children {
        if !child.is_gone() {
            child.signal(Signal::SIGKILL);
            drop(child.process.wait());
        }
    }
}
