//! Compares what came of the calls, where the other side is a program.

use serde_json::Value;
use skillopt_backends::{CallError, ChatReply, Outcome};
use skillopt_core::job::Usage;

use crate::parity::backends::calls::Seen;
use crate::parity::same;

/// What is right where the reference is wrong, by the case: the sentence under `right` in one word.
const RIGHT: &[(&str, &str)] = &[
    ("claude_chat/empty_result_is_success", "empty"),
    ("claude_chat/is_error_zero_exit", "server_error"),
    ("claude_chat/not_logged_in_on_stdout", "unauthorized"),
    ("claude_chat/pretty_printed_json_fails", "answer"),
    ("claude_chat/tools_result_string_not_parsed", "tool_calls"),
    ("copilot_chat/prompt_over_argv_limit", "answer"),
    ("codex_optimizer/turn_failed_zero_exit_ignored", "failed"),
    ("codex_optimizer/recorded_stream_401", "unauthorized"),
];

fn right(case: &Value) -> Option<&'static str> {
    let id = case["id"].as_str().unwrap_or_default();
    let mut known = RIGHT.iter();
    known.find(|(name, _)| *name == id).map(|(_, word)| *word)
}

/// Returns whether no further try can help: a login, a model, an option that does not exist.
pub(super) fn is_final(case: &Value) -> bool {
    right(case) == Some("unauthorized")
}

/// Compares a refusal of the settings. An effort that no backend knows is refused before anything
/// runs, where the reference drops it without a word: a typo must be an error (backends spec 7).
pub(super) fn refused(case: &Value, text: &str) -> Result<(), String> {
    let wanted = &case["expected_result"]["error"];
    let setting = wanted["setting"].as_str().unwrap_or_default();
    let is_same = wanted["kind"] == "invalid_setting" && text.to_lowercase().contains(setting);
    let is_typo = case["input"]["config"]["reasoning_effort"] == "minimal"
        && text.contains("reasoning_effort");
    if is_same || is_typo {
        Ok(())
    } else {
        Err(format!("the settings were refused: {text}"))
    }
}

/// Compares the results and the tokens.
pub(super) fn compare(case: &Value, seen: &Seen) -> Result<(), String> {
    let expected = &case["expected_result"];
    let listed = expected["results"].as_array();
    for (at, call) in seen.calls.iter().enumerate() {
        let Some(outcome) = &call.outcome else {
            return Err("no try was made".to_owned());
        };
        let wanted = listed.map_or(expected, |listed| &listed[at]);
        one(case, wanted, outcome)?;
    }
    if right(case).is_some() {
        return Ok(());
    }
    totals(case, seen)
}

fn one(case: &Value, wanted: &Value, seen: &Result<ChatReply, CallError>) -> Result<(), String> {
    let differs = || Err(format!("got {seen:?}, wanted {wanted}"));
    if let Some(word) = right(case) {
        let is_same = match word {
            "failed" => seen.is_err(),
            word => Outcome::of(seen).as_str() == word,
        };
        return if is_same { Ok(()) } else { differs() };
    }
    let is_same = match seen {
        Ok(reply) if wanted["ok"].is_object() => ok(case, &wanted["ok"], reply),
        Err(error) if wanted["error"].is_object() => failed(&wanted["error"], error),
        _ => false,
    };
    if is_same { Ok(()) } else { differs() }
}

fn ok(case: &Value, wanted: &Value, reply: &ChatReply) -> bool {
    let message = &wanted["message"];
    let text = if message.is_object() {
        &message["content"]
    } else {
        &wanted["text"]
    };
    let calls = message["tool_calls"].as_array();
    let calls = calls.map_or(&[][..], Vec::as_slice);
    let is_same_call = |(wanted, seen): (&Value, &skillopt_backends::ToolCall)| {
        let function = &wanted["function"];
        let begins = wanted["id"].as_str().unwrap_or_default();
        let begins = begins.split("{{hex12}}").next().unwrap_or_default();
        let arguments = function["arguments"].as_str().unwrap_or_default();
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        seen.id.starts_with(begins)
            && function["name"] == seen.name.as_str()
            && same(
                &json(arguments).into(),
                &json(&seen.arguments).into(),
                false,
            )
    };
    *text == reply.text.as_str()
        && calls.len() == reply.tool_calls.len()
        && calls.iter().zip(&reply.tool_calls).all(is_same_call)
        && used(case, &wanted["usage"], reply.usage)
}

fn failed(wanted: &Value, error: &CallError) -> bool {
    let last = match wanted["kind"].as_str() {
        Some("retries_exhausted") => &wanted["last"],
        _ => wanted,
    };
    let text = error.to_string();
    let says = |key: &str| last[key].as_str().is_none_or(|word| text.contains(word));
    match (last["kind"].as_str().unwrap_or_default(), error) {
        ("timeout", CallError::Timeout { .. })
        | ("not_logged_in", CallError::Unauthorized { .. })
        | ("no_result_event" | "empty_response", CallError::Malformed { .. }) => true,
        ("spawn_failed", CallError::Misconfigured { .. }) => says("path"),
        ("model_rejected", CallError::Misconfigured { .. }) => says("model"),
        ("required_tool_not_requested", CallError::Unfit { .. }) => says("name"),
        ("tools_unsupported", CallError::Misconfigured { detail, .. }) => detail.contains("tools"),
        ("multimodal_unsupported", CallError::Misconfigured { detail, .. }) => {
            detail.contains("images")
        }
        ("refused_by_itself", CallError::Misconfigured { .. }) | ("cli_error_text", _) => {
            says("detail")
        }
        _ => false,
    }
}

/// Cached and reasoning tokens are parts of the two numbers, which stay as they were recorded.
fn used(case: &Value, wanted: &Value, seen: Usage) -> bool {
    let counts_apart = case["id"] != "codex_optimizer/cached_tokens_not_separated"
        || (seen.cached_tokens, seen.reasoning_tokens) == (6, 4);
    counts_apart
        && wanted["prompt_tokens"] == seen.prompt_tokens
        && wanted["completion_tokens"] == seen.completion_tokens
}

fn totals(case: &Value, seen: &Seen) -> Result<(), String> {
    let total = seen.calls.iter().flat_map(|call| &call.billed);
    let total = total.fold(Usage::default(), |mut sum, usage| {
        sum += *usage;
        sum
    });
    let wanted = &case["expected_result"]["token_summary"]["_total"];
    if wanted["calls"] == total.calls && used(&Value::Null, wanted, total) {
        Ok(())
    } else {
        Err(format!("all calls used {total:?}, wanted {wanted}"))
    }
}
