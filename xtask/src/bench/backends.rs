//! Chat backends against a server in a process of its own: processor time of a call, memory of
//! thousands of them, and what a hundred thousand leave behind in a bad hour of a provider.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Figure, Goal, example};

/// Processor time of a client in C++ that does nothing else, on the machine of the goals.
const LOAD_CLIENT_US: f64 = 14.0;

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
        for (how, goal) in [("plain", 30.0), ("tls", 60.0)] {
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
    Ok(figures)
}
