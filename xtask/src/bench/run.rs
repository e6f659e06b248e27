//! Starts the measured program and the simulated model, and reads what they say of themselves.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::cargo::{cargo, target};

/// Builds the program as users have it and returns its path.
pub(super) fn build() -> Result<PathBuf> {
    let status = cargo(&["build", "--release", "--package", "skillopt-cli"]).status()?;
    ensure!(status.success(), "the program does not build");
    Ok(std::fs::canonicalize(target().join("release/skillopt"))?)
}

/// A folder among the system's temporary ones that is emptied first and removed in the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("skillopt-bench-{name}"));
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-overs are removed by the next run.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The simulated model as a server.
pub(super) struct Model {
    child: Child,
    address: String,
}

impl Model {
    pub(super) fn start(program: &Path, latency: &str) -> Result<Self> {
        Self::start_with(program, latency, &[])
    }

    /// Starts a server with faults.
    pub(super) fn start_with(program: &Path, latency: &str, faults: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .args([
                "sim",
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--latency",
                latency,
            ])
            .args(faults)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix("http://"))
            .with_context(|| format!("no address in the server's first line: {line:?}"))?;
        let address = address
            .trim_end_matches('/')
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        Ok(Self { child, address })
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Asks for the server's own statistics.
    pub(super) fn stats(&self) -> Result<Value> {
        let mut stream = TcpStream::connect(&self.address)?;
        let request = format!(
            "GET /sim/stats HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer
            .find('{')
            .map(|at| &answer[at..])
            .context("no JSON in the statistics")?;
        let end = body.rfind('}').context("half an answer")?;
        Ok(serde_json::from_str(&body[..=end])?)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a finished process says of itself.
pub(super) struct Measured {
    pub(super) cpu_s: f64,
    pub(super) wall_s: f64,
    pub(super) peak_rss_mib: f64,
}

/// Runs the program to its end and reads the `timings.json` of `folder`.
pub(super) fn measure(program: &Path, folder: &Path, args: &[String]) -> Result<Measured> {
    let output = Command::new(program).args(args).output()?;
    if !output.status.success() {
        bail!(
            "`skillopt {}` failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let timings: Value = serde_json::from_slice(&std::fs::read(folder.join("timings.json"))?)?;
    let number = |name: &str| {
        timings[name]
            .as_f64()
            .with_context(|| format!("no `{name}` in timings.json"))
    };
    Ok(Measured {
        cpu_s: number("cpu_s")?,
        wall_s: number("total_wall_time_s")?,
        peak_rss_mib: number("peak_rss_mib")?,
    })
}

/// Writes data of the simulated world.
pub(super) fn data(
    program: &Path,
    dir: &Path,
    train: usize,
    val: usize,
    test: usize,
) -> Result<()> {
    let status = Command::new(program)
        .args(["sim", "data"])
        .arg(dir)
        .args([
            "--train",
            &train.to_string(),
            "--val",
            &val.to_string(),
            "--test",
            &test.to_string(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "the data could not be made");
    Ok(())
}

/// Writes a configuration over the simulated server.
pub(super) fn config(path: &Path, data: &Path, base_url: &str, epochs: usize) -> Result<()> {
    let text = format!(
        "train: {{num_epochs: {epochs}, batch_size: 40, train_size: 0}}\n\
         optimizer: {{learning_rate: 4, lr_scheduler: cosine, use_slow_update: true, use_meta_skill: true}}\n\
         env: {{name: searchqa, split_mode: split_dir, split_dir: \"{}\"}}\n\
         model: {{backend: openai_compatible, optimizer: sim-optimizer, target: sim-target, \
         openai_compatible_base_url: \"{base_url}\"}}\n",
        data.display()
    );
    Ok(std::fs::write(path, text)?)
}
