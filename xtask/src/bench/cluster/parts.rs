//! The processes of a cluster on this machine, and what they have used.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::super::run::Scratch;

/// How long a process may take until it listens.
const START_MAX: Duration = Duration::from_secs(30);

/// A process that is ended with its owner.
pub(crate) struct Part {
    child: Child,
    name: &'static str,
}

/// Processor time and memory of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) cpu_s: f64,
    pub(crate) peak_mib: f64,
}

impl Part {
    pub(crate) fn start(name: &'static str, mut command: Command, log: &Path) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(log.with_extension("out"))?)
            .stderr(File::create(log)?)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        Ok(Self { child, name })
    }

    /// Reads what the process has used so far.
    pub(crate) fn used(&self) -> Result<Used> {
        let id = self.child.id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))
            .with_context(|| format!("{} is not running", self.name))?;
        // The second field is the name in parentheses, which may hold spaces.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |n: usize| {
            rest.split_whitespace()
                .nth(n - 3)
                .and_then(|t| t.parse().ok())
        };
        let ticks: f64 = field(14)
            .zip(field(15))
            .map_or(0.0, |(user, system): (f64, f64)| user + system);
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let peak_kib: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .unwrap_or(0.0);
        Ok(Used {
            // Linux counts processor time of processes in hundredths of a second.
            cpu_s: ticks / 100.0,
            peak_mib: peak_kib / 1_024.0,
        })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Redis with an append-only file, one coordinator and workers.
pub(crate) struct Cluster {
    // Ended in this order.
    workers: Vec<Part>,
    coordinator: Part,
    redis: Part,
    pub(crate) url: String,
}

/// What the processes of a cluster have used together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) coordinator: Used,
    pub(crate) redis: Used,
    pub(crate) workers: Used,
}

impl Sum {
    pub(crate) fn cpu_s(&self) -> f64 {
        self.coordinator.cpu_s + self.redis.cpu_s + self.workers.cpu_s
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        self.coordinator.peak_mib + self.redis.peak_mib + self.workers.peak_mib
    }
}

impl Cluster {
    pub(crate) fn start(
        program: &Path,
        scratch: &Scratch,
        workers: usize,
        slots: usize,
    ) -> Result<Self> {
        let dir = scratch.path("cluster");
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        let (redis_port, port) = (free_port()?, free_port()?);
        let redis = Part::start(
            "redis-server",
            redis(redis_port, &dir),
            &dir.join("redis.log"),
        )?;
        listening(redis_port, "redis-server")?;
        let redis_url = format!("redis://127.0.0.1:{redis_port}");
        let mut command = Command::new(program);
        command
            .args(["coordinator", "--redis", &redis_url])
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .arg("--scratch")
            .arg(dir.join("scratch"));
        let coordinator = Part::start("the coordinator", command, &dir.join("coordinator.log"))?;
        listening(port, "the coordinator")?;
        let workers = (0..workers)
            .map(|n| {
                let mut command = Command::new(program);
                command
                    .args(["worker", "--redis", &redis_url, "--name", &format!("w{n}")])
                    .args(["--slots", &format!("chat={slots}")])
                    .env("OPENAI_COMPATIBLE_API_KEY", "none");
                Part::start("a worker", command, &dir.join(format!("worker-{n}.log")))
            })
            .collect::<Result<Vec<Part>>>()?;
        let url = format!("http://127.0.0.1:{port}");
        Ok(Self {
            workers,
            coordinator,
            redis,
            url,
        })
    }

    pub(crate) fn used(&self) -> Result<Sum> {
        let mut sum = Sum {
            coordinator: self.coordinator.used()?,
            redis: self.redis.used()?,
            workers: Used::default(),
        };
        for worker in &self.workers {
            let used = worker.used()?;
            sum.workers.cpu_s += used.cpu_s;
            sum.workers.peak_mib += used.peak_mib;
        }
        Ok(sum)
    }

    /// Runs a command of the program against this cluster to its end; returns its wall time.
    #[expect(clippy::disallowed_methods, reason = "a measurement")]
    pub(crate) fn run(&self, program: &Path, args: &[String]) -> Result<f64> {
        let start = Instant::now();
        let output = Command::new(program)
            .args(args)
            .args(["--coordinator", &self.url])
            .stdin(Stdio::null())
            .output()?;
        ensure!(
            output.status.success(),
            "`skillopt {}` failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Returns a call of `redis-server` as a cluster wants it.
pub(crate) fn redis(port: u16, dir: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args([
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--save",
            "",
        ])
        .args(["--maxmemory-policy", "noeviction"])
        .arg("--dir")
        .arg(dir);
    command
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until somebody listens.
#[expect(clippy::disallowed_methods, reason = "a measurement's set-up")]
pub(crate) fn listening(port: u16, name: &str) -> Result<()> {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if start.elapsed() > START_MAX {
            bail!("{name} does not listen on port {port}; its log lies in the bench's folder");
        }
        sleep(Duration::from_millis(10));
    }
    Ok(())
}
