//! A real Redis, with its files in a folder of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::program::{Process, clean};
use super::sim::closed_port;
use super::wait::{LONG, for_some};

/// Names the server to use instead of `redis-server`.
const PROGRAM: &str = "SKILLOPT_REDIS_SERVER";
/// Free ports that are tried: another process may be quicker.
const TRIES: usize = 5;

/// A server process; with its append-only file on, so that a restart loses nothing.
#[derive(Debug)]
pub struct Redis {
    process: Option<Process>,
    port: u16,
    dir: TempDir,
    settings: Vec<String>,
}

impl Redis {
    /// Starts a server on a free port; each write is on the disk before it is acknowledged.
    ///
    /// # Panics
    /// It does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&["--appendfsync", "always"])
    }

    /// Starts a server on a free port with further settings, such as `["--maxmemory", "8mb"]`.
    ///
    /// # Panics
    /// It does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        let mut redis = Self {
            process: None,
            port: 0,
            dir: tempfile::tempdir().expect("a temporary folder"),
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
        };
        for _ in 0..TRIES {
            redis.port = closed_port();
            if redis.launch().is_ok() {
                return redis;
            }
        }
        panic!("redis-server does not get ready: {}", redis.said());
    }

    fn launch(&mut self) -> Result<(), ()> {
        let port = self.port.to_string();
        let dir = self.dir.path().to_string_lossy().into_owned();
        let args = [
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--dir",
            &dir,
            "--appendonly",
            "yes",
            "--save",
            "",
            "--maxmemory-policy",
            "noeviction",
        ];
        let program = std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into());
        let own = self.settings.iter().map(String::as_str);
        let mut process = Process::start(&mut clean(program, args.into_iter().chain(own)));
        let ready = for_some(LONG, || {
            if process.status().is_some() {
                return Some(false);
            }
            self.ask("PING")
                .is_ok_and(|a| a.starts_with("+PONG"))
                .then_some(true)
        });
        self.process = Some(process);
        if ready == Some(true) { Ok(()) } else { Err(()) }
    }

    /// Returns its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder with its files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the process, for signals.
    ///
    /// # Panics
    /// It was stopped.
    pub const fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("Redis runs")
    }

    /// Stops it with a signal and waits until it is gone.
    pub fn stop(&mut self, signal: Signal) {
        if let Some(mut process) = self.process.take() {
            process.signal(signal);
            process.wait();
        }
    }

    /// Starts it again on the same port with the same files.
    ///
    /// # Panics
    /// It does not get ready.
    #[track_caller]
    pub fn again(&mut self) {
        assert!(
            self.launch().is_ok(),
            "redis-server does not come back: {}",
            self.said()
        );
    }

    /// Sends one inline command, such as `CONFIG SET maxmemory 1mb`, and returns the first line of
    /// its answer; of a bulk answer the text.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "{command}\r\n")?;
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
        let is_text = first.starts_with('$') && first != "$-1";
        if is_text {
            lines.next().unwrap_or(Ok(first))
        } else {
            Ok(first)
        }
    }

    /// Returns where the program is, or nothing if it is not installed.
    #[must_use]
    pub fn program() -> Option<PathBuf> {
        let named = std::env::var_os(PROGRAM).map(PathBuf::from);
        named.or_else(|| {
            let paths = std::env::var_os("PATH")?;
            std::env::split_paths(&paths)
                .map(|dir| dir.join("redis-server"))
                .find(|path| path.is_file())
        })
    }

    fn said(&self) -> String {
        self.process
            .as_ref()
            .map(Process::stdout)
            .unwrap_or_default()
    }
}
