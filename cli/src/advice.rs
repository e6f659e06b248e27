//! What a person can do about a failure, by what was said of it and by who was asked.

mod calls;
mod roles;

use skillopt_backends::CallError;
use skillopt_core::job::Profile;

pub(crate) use roles::Roles;

/// Parts of messages that tell more than the failed call in which they may stand, and what helps.
const BEFORE_CALLS: &[(&str, &str)] = &[
    (
        "rollouts of the batch failed; the commonest cause",
        "see what is said of each item in `fail_reason` of its row; a shorter skill, or a model with \
         more context, if the prompts are too long",
    ),
    ("the disk of this machine was full", "make room on the disk"),
    (
        "a fault of this machine",
        "run `skillopt doctor` on that machine: it tries the sandbox and the agents' programs",
    ),
    (
        "the agent's program asked the model nothing",
        "start the agent's program by hand with a short question and see where it stops; \
         `skillopt doctor` checks how it is installed",
    ),
    (
        "a limit for the size of requests",
        "raise the limit of the gateway before the model (`client_max_body_size` of nginx)",
    ),
];

/// Parts of messages of this machine's own troubles, and what helps; the first that fits counts.
const MACHINE: &[(&str, &str)] = &[
    ("No space left on device", "make room on the disk"),
    ("disk is full", "make room on the disk"),
    ("Permission denied", "let this user write there"),
    (
        "Read-only file system",
        "choose a place that can be written",
    ),
];

/// Returns what helps against what stopped a run, if we know.
pub(crate) fn advice(cause: &str, roles: &Roles) -> Option<String> {
    row(BEFORE_CALLS, cause)
        .or_else(|| calls::advice(cause, roles.asked(cause)))
        .or_else(|| row(MACHINE, cause))
}

fn row(table: &[(&str, &str)], cause: &str) -> Option<String> {
    let found = table.iter().find(|(part, _)| cause.contains(part));
    found.map(|(_, words)| (*words).to_owned())
}

/// Says what helps against a failed call of a model.
pub(crate) fn of_call(error: &CallError, profile: &Profile) -> String {
    let cause = match error {
        CallError::SignIn(inner) => inner.as_ref(),
        other => other,
    };
    if matches!(cause, CallError::Misconfigured { status: 0, .. }) {
        return "mend what is said there, then ask again".to_owned();
    }
    let mut ours = error.clone();
    let theirs = ours.detail_mut().map(std::mem::take).unwrap_or_default();
    let theirs = theirs.to_lowercase();
    row(BEFORE_CALLS, &error.to_string())
        .or_else(|| calls::of(&ours.to_string(), &theirs, roles::provider_of(profile)))
        .unwrap_or_else(|| "try again; if it stays so, ask the provider".to_owned())
}

#[cfg(test)]
mod tests;
