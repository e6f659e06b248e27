//! Chat backends against a server in a process of its own: processor time of a call, memory of
//! thousands of them, and what a hundred thousand leave behind in a bad hour of a provider.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Figure, Goal, example};
use crate::cargo::cargo;

/// Processor time of a client in C++ that does nothing else, on the machine of the goals.
const LOAD_CLIENT_US: f64 = 14.0;

/// Calls of the soak through caps, rates and the ledger.
const METERED: u32 = 100_000;

pub(super) fn figures() -> Result<Vec<Figure>> {
    let features = ["--features", "conformance"];
    let told = example::told("skillopt-backends", &features, "backends_bench", &[])?;
    let mut figures = vec![Figure::new(
        "a load client, for comparison",
        LOAD_CLIENT_US,
        "µs per call",
        Goal::None,
    )];
    let cpu = told["cpu"].as_object().context("no times")?;
    for (kit, seen) in cpu {
        for (how, goal) in [("plain", 30.0), ("tls", 60.0), ("h2", 60.0)] {
            let value = seen[how].as_f64().context("no time")?;
            let name = format!("{kit}, {how}");
            figures.push(Figure::new(name, value, "µs per call", Goal::AtMost(goal)));
        }
    }
    for (name, path, unit, goal) in [
        (
            "4,000 calls under way, plain: memory",
            "/flight/peak_mib",
            "MiB",
            Goal::AtMost(150.0),
        ),
        (
            "  answered",
            "/flight/seen/answer",
            "calls",
            Goal::AtLeast(4_000.0),
        ),
        (
            "4,000 calls under way, TLS: memory",
            "/flight_tls/peak_mib",
            "MiB",
            Goal::AtMost(150.0),
        ),
        (
            "  answered",
            "/flight_tls/seen/answer",
            "calls",
            Goal::AtLeast(4_000.0),
        ),
        (
            "4,000 calls under way, TLS and HTTP/2: memory",
            "/flight_h2/peak_mib",
            "MiB",
            Goal::AtMost(150.0),
        ),
        (
            "  answered",
            "/flight_h2/seen/answer",
            "calls",
            Goal::AtLeast(4_000.0),
        ),
        ("  sockets", "/flight_h2/sockets", "", Goal::AtMost(60.0)),
        (
            "soak: calls accounted",
            "/soak/accounted",
            "calls",
            Goal::AtLeast(100_000.0),
        ),
        ("  answered", "/soak/seen/answer", "calls", Goal::None),
        ("  throttled", "/soak/seen/throttled", "calls", Goal::None),
        (
            "  server errors",
            "/soak/seen/server_error",
            "calls",
            Goal::None,
        ),
        ("  cut", "/soak/seen/connection", "calls", Goal::None),
        ("  hung", "/soak/seen/timeout", "calls", Goal::None),
        (
            "  otherwise than the server did",
            "/soak/wrong",
            "",
            Goal::AtMost(0.0),
        ),
        (
            "  memory grown in the second half",
            "/soak/grown_kib",
            "KiB",
            Goal::AtMost(1_024.0),
        ),
        (
            "  sockets left",
            "/soak/sockets_left",
            "sockets",
            Goal::AtMost(0.0),
        ),
        (
            "  tasks left",
            "/soak/tasks_left",
            "tasks",
            Goal::AtMost(0.0),
        ),
    ] {
        let value = told.pointer(path).and_then(Value::as_f64);
        let value = value.with_context(|| format!("the bench does not tell `{path}`"))?;
        figures.push(Figure::new(name, value, unit, goal));
    }
    metered()?;
    figures.push(Figure::new(
        "soak through caps, rates and the ledger: calls counted once",
        f64::from(METERED),
        "calls",
        Goal::AtLeast(100_000.0),
    ));
    Ok(figures)
}

/// Runs the worker's own test of this, which takes the number of calls from its environment.
fn metered() -> Result<()> {
    let test = "every_call_of_a_bad_hour_is_counted_once";
    let head = [
        "test",
        "--quiet",
        "--release",
        "--package",
        "skillopt-worker",
    ];
    let ended = cargo(&[&head[..], &["--lib", test]].concat())
        .env("SKILLOPT_SOAK", METERED.to_string())
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&ended.stdout);
    // A name that fits no test is a success to cargo.
    ensure!(
        ended.status.success() && said.contains(" 1 passed;"),
        "the test `{test}` ended with {}: {said}",
        ended.status
    );
    Ok(())
}
