//! Cases of agents in a workspace: a fake of the CLI runs in a real sandbox, says what the case says
//! in the events of the real CLI, and tells what it was started with and what it found.
//!
//! Where we differ on purpose, a rule says so where it is applied, with its reason:
//! - the answer comes from the CLI's events, never from its log or a file of its own making: what a
//!   step of the reference's script means is worked out in [`script`] and said anew in events;
//! - an SDK is the same program with other flags: [`script`] takes the meaning of what it said;
//! - our sandbox takes the place of the CLI's own, our private home that of the user's: [`call`] has
//!   a rule for each flag, and none is passed over;
//! - settings that no agent can have are refused before anything is started: see [`case`];
//! - what lies in the folder is ours to say: [`folder`];
//! - an outcome is an answer, the agent's own failure, or nothing that can be judged, and only the
//!   first two are scored: [`outcome`];
//! - trajectories come from what went through the relay, not from logs: [`trace`].

mod benchmark;
mod call;
mod case;
mod declared;
mod fake;
mod folder;
mod outcome;
pub(super) mod replay;
mod rig;
mod samples;
mod scene;
mod script;
mod trace;

use serde_json::Value;

/// Runs one case of a file.
///
/// # Errors
/// What differs, in words.
pub(super) fn run(stem: &str, case: &Value) -> Result<(), String> {
    match stem {
        "cli_samples" => samples::run(case),
        "trace" => trace::run(case),
        "workspace" => folder::run(case),
        "benchmark_exec" if declared::is_later(case) => declared::run(case),
        "benchmark_exec" => benchmark::run(case),
        _ => case::run(case),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}
