//! A whole cluster of real processes: Redis, coordinators, workers.
//!
//! Every process is a handle that can be killed, frozen and told to go by its id, and is gone when
//! the test ends.

use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::http::get;
use super::program::{Process, command};
use super::proxy::Proxy;
use super::redis::Redis;
use super::wait::{LONG, for_some};

/// Names of the variable that says where Redis is, so that no password is seen in lists of processes.
const REDIS_URL: &str = "SKILLOPT_REDIS_URL";

/// A coordinator or a worker.
#[derive(Debug)]
pub struct Node {
    process: Process,
    name: String,
    /// Port of gRPC; 0 for a worker.
    port: u16,
    /// Port of `/healthz`, `/readyz` and `/metrics`.
    http: u16,
}

impl Node {
    /// Returns its name, as in `skillopt workers`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the port of gRPC; 0 for a worker.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port of health and metrics.
    #[must_use]
    pub const fn http(&self) -> u16 {
        self.http
    }

    /// Returns the address for `--coordinator`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the process, for what is not here.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Returns the most memory that it has had so far, in bytes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.process.peak_bytes()
    }

    /// Returns how many threads it has now.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.process.threads()
    }

    /// Returns the sum of those of its metrics that have this name and all of these labels, such as
    /// `outcome="done"`; 0 if it has none.
    ///
    /// # Panics
    /// It does not answer.
    #[must_use]
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[&str]) -> u64 {
        let (_, page) = get(self.http, "/metrics").unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let of_name = page.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        let meant = of_name.filter(|line| labels.iter().all(|label| line.contains(label)));
        meant.map(|line| whole(line, name)).sum()
    }

    /// Returns how many deliveries of jobs it has ended in one of these ways.
    ///
    /// # Panics
    /// It does not answer.
    #[must_use]
    #[track_caller]
    pub fn ended(&self, outcomes: &[&str]) -> u64 {
        let of = |outcome: &&str| {
            let label = format!("outcome=\"{outcome}\"");
            self.metric("skillopt_worker_jobs_total", &[&label])
        };
        outcomes.iter().map(of).sum()
    }

    /// Freezes it, as a machine does that swaps or is paused.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Lets a frozen one go on.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// Tells it to finish and go.
    pub fn terminate(&mut self) {
        self.process.signal(Signal::SIGTERM);
    }

    /// Kills it and waits until it is gone.
    pub fn kill(mut self) {
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
    }

    /// Waits until it is gone.
    ///
    /// # Panics
    /// It does not go.
    #[track_caller]
    pub fn wait(self) -> super::Ended {
        self.process.wait()
    }

    /// Returns what it said on standard error.
    #[must_use]
    pub fn said(&self) -> String {
        self.process.stderr()
    }

    /// Starts a process and waits for the line that says that it is ready.
    #[track_caller]
    fn start(name: &str, command: &mut Command) -> Self {
        let mut process = Process::start(command);
        let ready = for_some(LONG, || {
            let said = process.stderr();
            let is_ready = said.lines().any(|line| line == format!("{name}: ready"));
            (is_ready || process.status().is_some()).then_some(is_ready)
        });
        let said = process.stderr();
        assert!(ready == Some(true), "`{name}` does not get ready:\n{said}");
        Self {
            port: port_of(&said, "gRPC on "),
            http: port_of(&said, "health on "),
            name: name.to_owned(),
            process,
        }
    }
}

/// Returns the value of a line of metrics, without what is behind the point.
#[track_caller]
fn whole(line: &str, name: &str) -> u64 {
    let value = line.rsplit(' ').next().unwrap_or_default();
    let whole = value.split('.').next().unwrap_or_default();
    whole
        .parse()
        .unwrap_or_else(|e| panic!("`{name}` is no number: {line}: {e}"))
}

/// Returns the port in the line that says `what` is listened on; 0 if there is none.
fn port_of(said: &str, what: &str) -> u16 {
    let mut lines = said.lines();
    let line = lines.find_map(|line| line.split_once(what));
    let port = line.and_then(|(_, address)| address.rsplit_once(':')?.1.trim().parse().ok());
    port.unwrap_or(0)
}

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Coordinators.
    pub coordinators: usize,
    /// Workers.
    pub workers: usize,
    /// Slots of each worker.
    pub slots: String,
    /// Further arguments of each coordinator.
    pub coordinator_args: Vec<String>,
    /// Further arguments of each worker.
    pub worker_args: Vec<String>,
    /// Further variables of each process.
    pub env: Vec<(String, String)>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            coordinators: 1,
            workers: 1,
            slots: "chat=16".to_owned(),
            coordinator_args: Vec::new(),
            worker_args: Vec::new(),
            env: Vec::new(),
        }
    }
}

/// A cluster; all of it is gone when the test ends.
#[derive(Debug)]
pub struct Cluster {
    // Coordinators and workers end before Redis.
    /// The coordinators that were started and not taken out.
    pub coordinators: Vec<Node>,
    /// The workers that were started and not taken out.
    pub workers: Vec<Node>,
    /// Their Redis.
    pub redis: Redis,
    shape: Shape,
    dir: TempDir,
    /// Nodes that were ever started, so that names stay unique.
    started: usize,
}

impl Cluster {
    /// Starts Redis, one coordinator and `workers` workers.
    ///
    /// # Panics
    /// Something does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start(workers: usize) -> Self {
        Self::start_with(Shape {
            workers,
            ..Shape::default()
        })
    }

    /// Starts a cluster of this shape.
    ///
    /// # Panics
    /// Something does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start_with(shape: Shape) -> Self {
        Self::on(Redis::start(), shape)
    }

    /// Starts a cluster of this shape on a Redis that runs.
    ///
    /// # Panics
    /// Something does not get ready.
    #[track_caller]
    #[must_use]
    pub fn on(redis: Redis, shape: Shape) -> Self {
        let (coordinators, workers) = (shape.coordinators, shape.workers);
        let mut cluster = Self {
            coordinators: Vec::new(),
            workers: Vec::new(),
            redis,
            shape,
            dir: tempfile::tempdir().expect("a temporary folder"),
            started: 0,
        };
        for _ in 0..coordinators {
            cluster.add_coordinator();
        }
        for _ in 0..workers {
            cluster.add_worker();
        }
        cluster
    }

    /// Starts one more coordinator and returns its place in [`Self::coordinators`].
    #[track_caller]
    pub fn add_coordinator(&mut self) -> usize {
        let url = self.redis.url();
        self.add_coordinator_at(&url, 0)
    }

    /// Starts one more coordinator that reaches Redis through a proxy.
    #[track_caller]
    pub fn add_coordinator_behind(&mut self, proxy: &Proxy) -> usize {
        self.add_coordinator_at(&format!("redis://127.0.0.1:{}", proxy.port()), 0)
    }

    /// Starts one more coordinator with this Redis and this port, 0 for a free one: a killed one can
    /// come back in its old place.
    #[track_caller]
    pub fn add_coordinator_at(&mut self, redis: &str, port: u16) -> usize {
        let name = self.name("coordinator");
        let listen = format!("127.0.0.1:{port}");
        let scratch = self.dir.path().join(&name);
        let mut command = command(["coordinator", "--name", &name, "--listen", &listen]);
        command
            .args(["--http", "127.0.0.1:0", "--scratch"])
            .arg(scratch)
            .args(&self.shape.coordinator_args);
        let node = self.node(&name, command, redis, &[]);
        assert!(
            node.port != 0,
            "`{name}` does not say its port: {}",
            node.said()
        );
        self.coordinators.push(node);
        self.coordinators.len() - 1
    }

    /// Starts one more worker and returns its place in [`Self::workers`].
    #[track_caller]
    pub fn add_worker(&mut self) -> usize {
        let url = self.redis.url();
        self.add_worker_at(&url)
    }

    /// Starts one more worker that reaches Redis through a proxy.
    #[track_caller]
    pub fn add_worker_behind(&mut self, proxy: &Proxy) -> usize {
        self.add_worker_at(&format!("redis://127.0.0.1:{}", proxy.port()))
    }

    /// Starts one more worker with this Redis.
    #[track_caller]
    pub fn add_worker_at(&mut self, redis: &str) -> usize {
        self.add_worker_from(redis, &[])
    }

    /// Starts one more worker with further variables; they go before those of all.
    #[track_caller]
    pub fn add_worker_with(&mut self, env: &[(&str, &str)]) -> usize {
        let url = self.redis.url();
        self.add_worker_from(&url, env)
    }

    #[track_caller]
    fn add_worker_from(&mut self, redis: &str, env: &[(&str, &str)]) -> usize {
        let name = self.name("worker");
        let mut command = command(["worker", "--name", &name, "--slots", &self.shape.slots]);
        command
            .args(["--http", "127.0.0.1:0"])
            .args(&self.shape.worker_args);
        let node = self.node(&name, command, redis, env);
        self.workers.push(node);
        self.workers.len() - 1
    }

    fn name(&mut self, kind: &str) -> String {
        self.started += 1;
        format!("{kind}-{}", self.started)
    }

    #[track_caller]
    fn node(&self, name: &str, mut command: Command, redis: &str, own: &[(&str, &str)]) -> Node {
        command
            .env(REDIS_URL, redis)
            .envs(self.shape.env.iter().cloned())
            .envs(own.iter().copied());
        Node::start(name, &mut command)
    }

    /// Returns the addresses of all coordinators for `--coordinator`.
    #[must_use]
    pub fn url(&self) -> String {
        let urls: Vec<String> = self.coordinators.iter().map(Node::url).collect();
        urls.join(",")
    }

    /// Makes a call of the program that talks to this cluster.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("SKILLOPT_COORDINATOR", self.url());
        command
    }

    /// Returns a folder for what a test needs beside the cluster.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns what all processes said, for messages of tests.
    #[must_use]
    pub fn said(&self) -> String {
        let nodes = self.coordinators.iter().chain(&self.workers);
        nodes
            .map(|node| format!("--- {}\n{}", node.name, node.said()))
            .collect()
    }
}
