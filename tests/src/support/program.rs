//! The program as people start it: a process with arguments, output and an exit code.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::NamedTempFile;

use super::wait::{LONG, for_some};

/// Names a program that is already built, instead of the one that cargo builds.
const PROGRAM: &str = "SKILLOPT_BIN";

/// Returns the path of the program, which is built once for each run of tests, with the profile
/// of the tests.
///
/// # Panics
/// It cannot be built.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os(PROGRAM) {
        Some(path) => path.into(),
        None => build(),
    })
}

fn build() -> PathBuf {
    // `<target>/<profile>/deps/<this test>`; programs lie one folder above.
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test
        .ancestors()
        .skip(1)
        .find(|folder| folder.file_name() != Some(OsStr::new("deps")))
        .expect("tests lie in the target folder");
    let target = folder.parent().expect("profiles lie in the target folder");
    let program = folder.join("skillopt");
    // One process for each test: all of them belong to one run of nextest, which names itself.
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_default();
    let mark = folder.join(".skillopt-built-for");
    if !run.is_empty() && std::fs::read_to_string(&mark).is_ok_and(|built| built == run) {
        return program;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        // The whole workspace, though one program is wanted: with the features of `cargo test
        // --workspace` most of it is built already.
        .args(["build", "--quiet", "--workspace", "--bin", "skillopt"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => {}
        Some(profile) => _ = command.args(["--profile", profile]),
    }
    let status = command.status().expect("cargo can be started");
    assert!(status.success(), "skillopt-cli does not build: {status}");
    // Without the mark the next test asks cargo again, which only takes longer.
    drop(std::fs::write(mark, run));
    program
}

/// Makes a call of the program that sees nothing of the tests' own environment.
pub fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    clean(path(), args)
}

/// Makes a call of any program with nothing but a search path in its environment.
pub fn clean<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// A process that is killed when the test ends, at the latest.
#[derive(Debug)]
pub struct Process {
    child: Child,
    out: NamedTempFile,
    err: NamedTempFile,
    what: String,
}

impl Process {
    /// Starts a command.
    ///
    /// # Panics
    /// It cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let out = NamedTempFile::new().expect("a temporary file");
        let err = NamedTempFile::new().expect("a temporary file");
        let file = |f: &NamedTempFile| Stdio::from(f.reopen().expect("a temporary file opens"));
        let mut what = String::new();
        for arg in std::iter::once(command.get_program()).chain(command.get_args()) {
            // Writing to a string cannot fail.
            _ = write!(what, "{} ", arg.to_string_lossy());
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(file(&out))
            .stderr(file(&err))
            .spawn()
            .unwrap_or_else(|e| panic!("`{what}` cannot be started: {e}"));
        Self {
            child,
            out,
            err,
            what,
        }
    }

    /// Returns the number that the system knows it by.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal; a process that is over gets none.
    pub fn signal(&mut self, signal: Signal) {
        if self.status().is_none()
            && let Ok(id) = i32::try_from(self.child.id())
        {
            // It may end between the look above and the signal.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    /// Returns the status if the process is over.
    ///
    /// # Panics
    /// The system does not know the process.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child")
    }

    /// Returns what was written to standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.out)
    }

    /// Returns what was written to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.err)
    }

    /// Returns the most memory that it has had so far, in bytes.
    ///
    /// # Panics
    /// It is over, or the system does not say.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let kib = self.fact("VmHWM");
        kib.strip_suffix(" kB")
            .and_then(|kib| kib.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("no number of kB: `{kib}`"))
            << 10
    }

    /// Returns how many threads it has now.
    ///
    /// # Panics
    /// It is over, or the system does not say.
    #[must_use]
    pub fn threads(&self) -> u64 {
        let threads = self.fact("Threads");
        threads
            .parse()
            .unwrap_or_else(|e| panic!("`{threads}`: {e}"))
    }

    /// Returns what the system says of it under a name.
    fn fact(&self, name: &str) -> String {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(known, _)| *known == name);
        let (_, value) = found.unwrap_or_else(|| panic!("{path} has no `{name}`: {text}"));
        value.trim().to_owned()
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// It takes longer than [`LONG`].
    #[track_caller]
    pub fn wait(self) -> Ended {
        self.wait_for(LONG)
    }

    /// Waits for the end of something that may take longer than most.
    ///
    /// # Panics
    /// It takes longer than `limit`.
    #[track_caller]
    pub fn wait_for(mut self, limit: Duration) -> Ended {
        let Some(status) = for_some(limit, || self.status()) else {
            panic!("`{}` does not end:\n{}", self.what, self.stderr());
        };
        Ended {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
            what: self.what.clone(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be over already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(file: &NamedTempFile) -> String {
    let bytes = std::fs::read(file.path()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A process that is over.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    what: String,
}

impl Ended {
    /// Checks the exit code.
    ///
    /// # Panics
    /// It is another, or the process was killed.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(
            self.status.code(),
            Some(expected),
            "`{}` ended with {}:\n{}\n{}",
            self.what,
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Checks that standard error says each of `words`.
    ///
    /// # Panics
    /// It does not.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(
                self.stderr.contains(word),
                "`{}` does not say `{word}`:\n{}",
                self.what,
                self.stderr
            );
        }
        assert!(
            !self.stderr.contains("panicked at"),
            "`{}` panicked:\n{}",
            self.what,
            self.stderr
        );
        self
    }
}

/// Runs a command to its end.
///
/// # Panics
/// See [`Process::start`] and [`Process::wait`].
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    Process::start(command).wait()
}
