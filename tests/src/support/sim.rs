//! The simulated model as a server process.

use std::net::TcpListener;

use serde_json::Value;

use super::http::exchange;
use super::program::{Process, command};
use super::wait::{LONG, for_some, until};

/// A server process that plays the models.
#[derive(Debug)]
pub struct Sim {
    process: Process,
    port: u16,
}

impl Sim {
    /// Starts a server on a free port with these settings, such as `["--latency", "fixed:5"]`.
    ///
    /// # Panics
    /// It does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start(settings: &[&str]) -> Self {
        Self::start_at(0, settings)
    }

    /// Starts a server on a port of the caller's choice.
    ///
    /// # Panics
    /// It does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start_at(port: u16, settings: &[&str]) -> Self {
        let listen = format!("127.0.0.1:{port}");
        let args = ["sim", "serve", "--listen", &listen];
        let mut process = Process::start(&mut command(args.iter().chain(settings)));
        let ready = for_some(LONG, || {
            let line = process.stdout();
            let port = line.split("127.0.0.1:").nth(1)?.split('/').next()?;
            port.parse().ok().or_else(|| process.status().map(|_| 0))
        });
        match ready {
            Some(port) if port != 0 => Self { process, port },
            _ => panic!("the server does not get ready: {}", process.stderr()),
        }
    }

    /// Returns the base address for `base_url`.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the counters.
    ///
    /// # Panics
    /// The server does not answer.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats(self.ask("GET", "/sim/stats", ""))
    }

    /// Forgets all counters.
    ///
    /// # Panics
    /// The server does not answer.
    pub fn reset(&self) {
        self.ask("POST", "/sim/reset", "");
    }

    /// Changes settings; `null` stands for the default.
    ///
    /// # Panics
    /// The server refuses.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "read at the call like the macro's own value"
    )]
    pub fn configure(&self, settings: Value) {
        self.ask("POST", "/sim/config", &settings.to_string());
    }

    /// Waits until no call is being worked on, and returns the counters then.
    ///
    /// # Panics
    /// It does not become so.
    #[track_caller]
    pub fn settled(&self) -> Stats {
        until("the server has no call in flight", || {
            self.stats().number("in_flight") == 0
        });
        self.stats()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        exchange(self.port, method, path, body)
            .unwrap_or_else(|e| panic!("{path}: {e}\n{}", self.process.stderr()))
    }
}

/// Returns the base address of a server on a port of this machine.
#[must_use]
pub fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/v1")
}

/// Returns a port where nobody listens.
///
/// # Panics
/// The system has none left.
#[must_use]
pub fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Counters of a server.
#[derive(Clone, Debug)]
pub struct Stats(Value);

impl Stats {
    /// Returns a counter by its name.
    ///
    /// # Panics
    /// There is none of this name.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter `{name}`: {}", self.0))
    }

    /// Returns how many calls were properly answered.
    #[must_use]
    pub fn ok(&self) -> u64 {
        let stages = self.0["ok"].as_object();
        stages.map_or(0, |s| s.values().filter_map(Value::as_u64).sum())
    }
}
