//! A run of the cluster as people and programs see it.

use serde_json::{Value, json};
use skillopt_coordinator::Halt;
use skillopt_core::job::FailureClass;
use skillopt_proto::v1::Run;

/// Returns the state in the words that a local run has: `paused (provider)`.
pub(crate) fn run_state(run: &Run) -> String {
    match (run.state.as_str(), run.cause_class.as_str()) {
        ("paused", "person") => "paused (by hand)".to_owned(),
        ("paused", "") | ("queued", _) => run.state.clone(),
        ("paused", class) => format!("paused ({class})"),
        _ => run.state.clone(),
    }
}

/// Returns what stopped a run, if it is stopped.
pub(crate) fn halt(run: &Run) -> Option<Halt> {
    let cause = || {
        if run.cause.is_empty() {
            "nobody wrote down why".to_owned()
        } else {
            run.cause.clone()
        }
    };
    match (run.state.as_str(), run.cause_class.as_str()) {
        ("failed", _) => Some(Halt::Failed(cause())),
        ("paused", "person") => Some(Halt::Interrupted),
        ("paused", class) => {
            let class = match class {
                "provider" => FailureClass::Provider,
                "budget" => FailureClass::Budget,
                "data" => FailureClass::Data,
                _ => FailureClass::Infrastructure,
            };
            Some(Halt::Paused(class, cause()))
        }
        _ => None,
    }
}

/// Returns a run for programs.
pub(crate) fn run_json(run: &Run) -> Value {
    let row: Value = serde_json::from_str(&run.row_json).unwrap_or_default();
    let ms = |ms: u64| (ms > 0).then_some(ms);
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "id": run.id,
        "name": run.name,
        "kind": run.kind,
        "tenant": run.tenant,
        "owner": run.owner,
        "state": run_state(run),
        "cause": text(&run.cause),
        "submitted_unix_ms": ms(run.submitted_ms),
        "started_unix_ms": ms(run.started_ms),
        "ended_unix_ms": ms(run.ended_ms),
        "sweep": text(&run.sweep),
        "cell": text(&run.cell),
        "coordinator": text(&run.coordinator),
        "row": row,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(state: &str, class: &str) -> Run {
        Run {
            state: state.to_owned(),
            cause: "because".to_owned(),
            cause_class: class.to_owned(),
            ..Run::default()
        }
    }

    #[test]
    fn states_are_those_of_local_runs() {
        for (state, class, word, told) in [
            ("running", "", "running", None),
            ("improved", "", "improved", None),
            (
                "paused",
                "provider",
                "paused (provider)",
                Some("paused (provider): because"),
            ),
            (
                "paused",
                "budget",
                "paused (budget)",
                Some("paused (budget): because"),
            ),
            ("paused", "person", "paused (by hand)", Some("interrupted")),
            ("failed", "data", "failed", Some("because")),
            ("cancelled", "person", "cancelled", None),
        ] {
            let run = run(state, class);
            assert_eq!(run_state(&run), word);
            assert_eq!(halt(&run).map(|h| h.to_string()).as_deref(), told);
        }
    }
}
