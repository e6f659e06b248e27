//! Golden vectors of the backends: what goes over the wire, and what comes of it.
//!
//! A case is set up as a job is: its environment and its flat keys go through the configuration to
//! a profile, the registry makes the client, and each call is tried again as a worker would. The
//! other side is a server on the loopback interface that keeps what it is sent and gives the
//! answers of the case. Waits are noted down, not waited for.
//!
//! Where a case is marked `reference_bug`, `right` counts. It is a sentence; what it says about
//! the wire stands in [`rights`]. Where we differ on purpose, a rule in [`compare`] says so and
//! why.

mod agents;
mod calls;
mod compare;
mod exec;
mod recorder;
mod rights;
mod setup;
mod sign_in;
mod sleep;
mod tables;
mod tempo;

use serde_json::Value;

use recorder::Recorder;
use setup::{Places, Setup};

/// The files that have counterparts.
pub(super) const FILES: &[&str] = &[
    "accounting",
    "benchmark_chat",
    "benchmark_exec",
    "claude_chat",
    "claude_code_exec",
    "cli_samples",
    "codex_exec",
    "codex_optimizer",
    "config",
    "copilot_chat",
    "copilot_exec",
    "cursor_exec",
    "minimax_chat",
    "openai_chat",
    "openai_compatible",
    "qwen_chat",
    "sleep",
    "trace",
    "workspace",
];

/// Runs one case of a file.
///
/// # Errors
/// What differs, in words.
pub(super) fn run(stem: &str, case: &Value) -> Result<(), String> {
    match stem {
        "config" => tables::run(case),
        "sleep" => sleep::run(case),
        "claude_chat" | "copilot_chat" | "codex_optimizer" => exec::run(case),
        "benchmark_exec" | "claude_code_exec" | "cli_samples" | "codex_exec" | "copilot_exec"
        | "cursor_exec" | "trace" | "workspace" => agents::run(stem, case),
        _ => over_http(case),
    }
}

fn over_http(case: &Value) -> Result<(), String> {
    let case = &rights::apply(case);
    let script = case["response"]["script"].as_array();
    let recorder = Recorder::start(script.map_or(&[], Vec::as_slice), tempo::pace(case));
    let places = Places::new(recorder.address());
    let case = &places.fill(case);
    let az = sign_in::FakeAz::new(case);
    let seen = match Setup::new(case, &az) {
        Ok(setup) => Ok(calls::make(&setup, case)),
        Err(refused) => Err(refused),
    };
    let recorded = recorder.stop();
    compare::setup(case, &seen)?;
    if let Ok(seen) = &seen {
        compare::requests(case, &recorded)?;
        compare::waits(case, seen)?;
        compare::results(case, seen)?;
        compare::totals(case, seen)?;
        compare::state(case, seen)?;
    } else if !recorded.is_empty() {
        return Err(format!("{} requests after a refusal", recorded.len()));
    }
    az.compare(case)
}
