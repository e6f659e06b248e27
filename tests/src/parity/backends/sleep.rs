//! Cases of the reference's nightly tool. It calls programs and servers in ways of its own; what its
//! cases say of them holds for backends that are here, which are asked the same: programs in
//! [`programs`], servers below, and tasks with tools in [`replay`]. Where a case is marked as a bug, the words of its `right` count.

mod programs;

use serde_json::{Value, json};
use skillopt_backends::Outcome;
use skillopt_config::roles::{RoleChoice, resolve_role_backends};

use super::agents::replay;
use super::{exec, over_http};

/// Runs one of the cases that are about what is here.
///
/// # Errors
/// What differs, in words.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let id = case["id"].as_str().unwrap_or_default();
    match id.trim_start_matches("sleep/") {
        // It is final.
        "azure_401_retried" => over_http(&compatible(case, 1, 401)),
        // There is one budget of tries.
        "azure_429_forever" => over_http(&compatible(case, TRIES, 429)),
        "azure_guard_host" | "azure_guard_http" => over_http(&guarded(case)),
        "backend_names" => unknown_name(case),
        "claude_auth_error_on_stdout_returned_as_answer" => failed(
            case,
            "claude_chat",
            Some(Outcome::Unauthorized),
            "Not logged in",
        ),
        "claude_nonzero_exit_ignored" => failed(case, "claude_chat", None, "x"),
        "copilot_failure_is_silent_empty" => {
            failed(case, "copilot_chat", None, "No authentication information")
        }
        "azure_compat_cap_and_extra_body" => over_http(&with_extra_fields(case)),
        "azure_empty_retried_five_times" => over_http(&empty(case)),
        _ if case["input"]["op"] == "attempt_with_tools" => replay::run(case),
        _ => programs::run(case),
    }
}

/// Tries of a call of the nightly tool.
const TRIES: u64 = 5;

/// Returns the case for a backend of ours: asked once by the optimizer, with the prompt alone.
fn asked(case: &Value, backend: &str) -> Value {
    let input = &case["input"];
    let mut env = input["env"].clone();
    env["OPTIMIZER_BACKEND"] = backend.into();
    env["TARGET_BACKEND"] = backend.into();
    json!({
        "id": case["id"], "backend": backend, "response": case["response"],
        "expected_request": case["expected_request"],
        "input": {
            "env": env,
            "config": {},
            "call": {
                "op": "chat_messages", "role": "optimizer", "retries": TRIES,
                "messages": [{"role": "user", "content": input["prompt"]}],
            },
        },
    })
}

/// A case in which the Azure client is told to call any server that speaks the interface.
fn compatible(case: &Value, requests: u64, status: u64) -> Value {
    let mut ours = asked(case, "openai_compatible");
    let theirs = &case["input"]["env"];
    let (url, key) = (
        theirs["AZURE_OPENAI_ENDPOINT"].clone(),
        theirs["AZURE_OPENAI_API_KEY"].clone(),
    );
    ours["input"]["env"]["OPENAI_COMPATIBLE_BASE_URL"] = url;
    ours["input"]["env"]["OPENAI_COMPATIBLE_API_KEY"] = key;
    let request = &case["expected_request"]["request"];
    let limit = request["body"]["max_tokens"].clone();
    ours["input"]["config"] = json!({
        "optimizer_model": case["input"]["deployment"], "openai_compatible_max_tokens": limit,
    });
    ours["input"]["call"]["max_completion_tokens"] = limit;
    ours["input"]["call"]["timeout"] = request["read_timeout_s"].clone();
    ours["expected_request"]["request_count"] = requests.into();
    ours["expected_request"]["sleeps"] = Value::Null;
    ours["expected_result"] = json!({"error": {"kind": "http_status", "status": status}});
    ours
}

/// What one exchange of the script was billed.
fn used() -> Value {
    json!({"calls": 1, "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
}

/// The variable with further fields of the body is a key here.
fn with_extra_fields(case: &Value) -> Value {
    let mut ours = compatible(case, 1, 200);
    ours["input"]["config"]["openai_compatible_extra_body"] =
        case["input"]["env"]["SKILLOPT_SLEEP_CHAT_EXTRA_BODY"].clone();
    let text = &case["expected_result"]["ok"]["response"];
    ours["expected_result"] = json!({
        "ok": {"text": text, "usage": used()}, "token_summary": {"_total": used()},
    });
    ours
}

/// An empty answer is what the model said, and paid for: it has an outcome of its own, and is not asked
/// for again by a call (backends spec 8, point 5).
fn empty(case: &Value) -> Value {
    let mut ours = compatible(case, 1, 200);
    ours["expected_result"] = json!({
        "outcome": "empty", "ok": {"text": "", "usage": used()}, "token_summary": {"_total": used()},
    });
    ours
}

/// A case in which a sign-in's token must not leave.
fn guarded(case: &Value) -> Value {
    let mut ours = asked(case, "openai_chat");
    ours["input"]["config"] = json!({"optimizer_model": case["input"]["deployment"]});
    ours["expected_result"] = json!({"error": {"kind": "invalid_setting"}});
    ours
}

/// The last name of the table is none.
fn unknown_name(case: &Value) -> Result<(), String> {
    let table = case["expected_result"]["ok"].as_array();
    let last = table.and_then(|table| table.last());
    let name = last.and_then(|row| row[0].as_str()).ok_or("no names")?;
    let none = RoleChoice::default();
    match resolve_role_backends(Some(name), none, none) {
        Err(_) => Ok(()),
        Ok(taken) => Err(format!("`{name}` was taken for {taken:?}")),
    }
}

/// A program's failure is no answer, and is told.
fn failed(
    case: &Value,
    backend: &str,
    outcome: Option<Outcome>,
    words: &str,
) -> Result<(), String> {
    let mut ours = asked(case, backend);
    ours["input"]["call"]["retries"] = 1.into();
    let seen = exec::seen(&ours)?;
    let answers = seen.calls.iter().map(|call| &call.outcome);
    for answer in answers {
        let Some(Err(error)) = answer else {
            return Err(format!("it was taken for an answer: {answer:?}"));
        };
        let text = error.to_string();
        if !text.contains(words) {
            return Err(format!("`{words}` is not told: {text}"));
        }
        let seen = Outcome::of(&Err(error.clone()));
        if outcome.is_some_and(|wanted| wanted != seen) {
            return Err(format!("the outcome is {seen:?}: {text}"));
        }
    }
    Ok(())
}
