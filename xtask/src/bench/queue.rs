//! The queue alone: 1 KiB in, 1 KiB out, results gathered, Redis with an append-only file; beside
//! it BullMQ where Node.js is installed.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::cluster::{Part, free_port, listening, redis};
use super::run::Scratch;
use super::{Figure, Goal};
use crate::cargo::{answers, cargo};

const BULLMQ: [&str; 2] = ["bullmq@6.7.0", "ioredis@5"];
/// Processor time per job that we aim at.
const CPU_GOAL_US: f64 = 22.0;
const BULLMQ_JOBS: usize = 30_000;
const SCRIPT: &str = include_str!("queue/bullmq.mjs");

pub(super) fn figures() -> Result<Vec<Figure>> {
    let scratch = Scratch::new("queue")?;
    let mut command = cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "skillopt-queue",
        "--example",
        "queue_bench",
        "--",
        "--redis",
    ]);
    let ours = with_redis(&scratch, "ours", |port, _| {
        command.arg(format!("redis://127.0.0.1:{port}"));
        json_of(&mut command)
    })?;
    let number = |name: &str| {
        ours[name]
            .as_f64()
            .with_context(|| format!("the bench does not tell `{name}`"))
    };
    let rate = number("jobs_per_s")?;
    let floor_us = number("floor_clients_us")? + number("floor_redis_us")?;
    if floor_us > CPU_GOAL_US {
        eprintln!(
            "here the bare commands alone cost {floor_us:.1} µs per job: the goal of {CPU_GOAL_US} µs \
             cannot be met on this machine"
        );
    }
    let mut figures = vec![
        Figure::new(
            "processor time per job, client + worker + Redis",
            number("cpu_us")?,
            "µs",
            Goal::AtMost(CPU_GOAL_US),
        ),
        Figure::new("  of it client", number("client_us")?, "µs", Goal::None),
        Figure::new("  of it workers", number("worker_us")?, "µs", Goal::None),
        Figure::new("  of it Redis", number("redis_us")?, "µs", Goal::None),
        Figure::new(
            "bare commands for the same, both clients",
            number("floor_clients_us")?,
            "µs",
            Goal::None,
        ),
        Figure::new(
            "bare commands for the same, Redis",
            number("floor_redis_us")?,
            "µs",
            Goal::None,
        ),
        Figure::new("jobs a second", rate, "1/s", Goal::None),
        Figure::new(
            "memory of 100,000 queued jobs",
            number("queued_mb")?,
            "MB",
            Goal::AtMost(40.0),
        ),
        Figure::new(
            "wait at light load, median",
            number("wait_p50_ms")?,
            "ms",
            Goal::AtMost(0.5),
        ),
        Figure::new(
            "wait at light load, 99th percentile",
            number("wait_p99_ms")?,
            "ms",
            Goal::AtMost(5.0),
        ),
    ];
    match bullmq(&scratch)? {
        Some(theirs) => figures.extend([
            Figure::new(
                "BullMQ, processor time per job",
                theirs.cpu_us,
                "µs",
                Goal::None,
            ),
            Figure::new(
                "BullMQ, jobs a second",
                theirs.jobs_per_s,
                "1/s",
                Goal::None,
            ),
            Figure::new(
                "jobs a second ÷ BullMQ's",
                rate / theirs.jobs_per_s,
                "ratio",
                Goal::AtLeast(8.0),
            ),
        ]),
        None => eprintln!("no Node.js with npm: BullMQ is left out"),
    }
    Ok(figures)
}

struct Peer {
    jobs_per_s: f64,
    cpu_us: f64,
}

/// Runs the same round on BullMQ; `None` without Node.js.
fn bullmq(scratch: &Scratch) -> Result<Option<Peer>> {
    if !answers("node", &["--version"]) || !answers("npm", &["--version"]) {
        return Ok(None);
    }
    let dir = scratch.path("bullmq");
    std::fs::create_dir_all(&dir)?;
    let status = Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund"])
        .args(BULLMQ)
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    ensure!(
        status.success(),
        "`npm install` of BullMQ failed ({status})"
    );
    let script = dir.join("bench.mjs");
    std::fs::write(&script, SCRIPT)?;
    with_redis(scratch, "theirs", |port, server| {
        let before = server.used()?.cpu_s;
        let told = json_of(
            Command::new("node")
                .arg(&script)
                .args([port.to_string(), BULLMQ_JOBS.to_string()])
                .env("BULLMQ_DIR", &dir)
                .stdin(Stdio::null()),
        )?;
        let redis_us = (server.used()?.cpu_s - before) / BULLMQ_JOBS as f64 * 1e6;
        let number = |name: &str| {
            told[name]
                .as_f64()
                .with_context(|| format!("BullMQ's bench does not tell `{name}`"))
        };
        Ok(Some(Peer {
            jobs_per_s: number("jobs_per_s")?,
            cpu_us: number("client_us")? + number("worker_us")? + redis_us,
        }))
    })
}

/// Calls `work` with the port and the process of a fresh server.
fn with_redis<T>(
    scratch: &Scratch,
    name: &str,
    work: impl FnOnce(u16, &Part) -> Result<T>,
) -> Result<T> {
    let dir = scratch.path(name);
    std::fs::create_dir_all(&dir)?;
    let port = free_port()?;
    let server = Part::start("redis-server", redis(port, &dir), &dir.join("redis.log"))?;
    listening(port, "redis-server")?;
    work(port, &server)
}

/// Reads the last line that a command prints as JSON.
fn json_of(command: &mut Command) -> Result<Value> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "`{command:?}` failed ({})",
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let line = text
        .lines()
        .last()
        .with_context(|| format!("`{command:?}` printed nothing"))?;
    Ok(serde_json::from_str(line)?)
}
