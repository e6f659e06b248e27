//! Compares what was sent and what came of it with what a case expects.
//!
//! Where we differ on purpose, the rule is here, with its reason:
//! - one budget of tries instead of two nested loops ([`super::tempo::budget`]);
//! - no wait after the last try, and each wait anywhere below its step ([`waits`]; backends spec 8, point 2);
//! - our own user agent; `accept` where the reference's library leaves it to the system;
//! - text parts of an answer are joined for every backend ([`text`]);
//! - a total of tokens is always the sum of both ([`usage`]).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use skillopt_backends::{CallError, ChatReply, Finish, Outcome};
use skillopt_core::job::Usage;

use super::calls::{Called, Seen};
use super::recorder::Recorded;
use crate::parity::same;

/// Compares whether the settings were accepted.
pub(super) fn setup(case: &Value, seen: &Result<Seen, String>) -> Result<(), String> {
    let expected = &case["expected_result"];
    let refusal = ["setup_error", "import_error"]
        .iter()
        .map(|name| &expected[*name])
        .find(|refusal| refusal.is_object());
    match (refusal, seen) {
        (None, Ok(_)) => Ok(()),
        (None, Err(refused)) => Err(format!("the settings were refused: {refused}")),
        (Some(wanted), Ok(_)) => Err(format!("the settings were accepted, wanted {wanted}")),
        (Some(wanted), Err(text)) => {
            let text = text.to_lowercase();
            let named = ["setting", "value"]
                .iter()
                .filter_map(|k| wanted[*k].as_str());
            match named
                .clone()
                .find(|word| !text.contains(&word.to_lowercase()))
            {
                Some(word) => Err(format!("`{word}` is not named in: {text}")),
                None => Ok(()),
            }
        }
    }
}

/// Compares what was sent.
pub(super) fn requests(case: &Value, seen: &[Recorded]) -> Result<(), String> {
    let expected = &case["expected_request"];
    let count = expected["request_count"].as_u64().unwrap_or(0);
    if seen.len() as u64 != count {
        return Err(format!("{} requests, wanted {count}", seen.len()));
    }
    let listed = expected["requests"].as_array();
    if listed.is_none() && expected.get("request").is_none() {
        return Ok(());
    }
    for (at, request) in seen.iter().enumerate() {
        let wanted = match listed {
            Some(listed) => listed.get(at).or(listed.last()).unwrap_or(&Value::Null),
            None => &expected["request"],
        };
        one_request(wanted, request).map_err(|why| format!("request {}: {why}", at + 1))?;
    }
    Ok(())
}

fn one_request(wanted: &Value, seen: &Recorded) -> Result<(), String> {
    let differs = |what: &str, seen: &Value, wanted: &Value| {
        Err(format!("{what} is {seen}, wanted {wanted}"))
    };
    let method = Value::from(seen.method.as_str());
    if method != wanted["method"] {
        return differs("the method", &method, &wanted["method"]);
    }
    let path = Value::from(seen.path.as_str());
    if path != wanted["path"] {
        return differs("the path", &path, &wanted["path"]);
    }
    let query = Value::from(seen.query.clone());
    let no_query = json!({});
    let wanted_query = wanted.get("query").unwrap_or(&no_query);
    if query != *wanted_query {
        return differs("the query", &query, wanted_query);
    }
    headers(wanted, seen)?;
    if !same(&wanted["body"], &seen.body, false) {
        return differs("the body", &seen.body, &wanted["body"]);
    }
    Ok(())
}

fn headers(wanted: &Value, seen: &Recorded) -> Result<(), String> {
    let wanted = &wanted["headers"];
    let at = |name: &str| seen.headers.get(name).unwrap_or(&Value::Null);
    for (name, value) in wanted.as_object().into_iter().flatten() {
        let is_ours = name == "user-agent" || (name == "accept" && value == "*/*");
        if !is_ours && at(name) != value {
            return Err(format!("header `{name}` is {}, wanted {value}", at(name)));
        }
    }
    for name in ["authorization", "api-key", "x-api-key", "x-identity-header"] {
        if wanted.get(name).is_none() && !at(name).is_null() {
            return Err(format!("header `{name}` is {}, wanted none", at(name)));
        }
    }
    Ok(())
}

/// Compares the waits between the tries, and the limit of each.
pub(super) fn waits(case: &Value, seen: &Seen) -> Result<(), String> {
    let expected = &case["expected_request"];
    for call in &seen.calls {
        let last = call.tries.saturating_sub(1) as usize;
        if call.waits.len() != last {
            return Err(format!("{} tries with waits {:?}", call.tries, call.waits));
        }
        for (at, wait) in call.waits.iter().enumerate() {
            let step = Duration::from_secs(1u64 << at.min(5)).min(Duration::from_secs(30));
            let (least, most) = match wait.hint {
                Some(hint) => (hint, hint + Duration::from_millis(100)),
                None => (Duration::from_millis(100), step),
            };
            if wait.lasted < least || wait.lasted > most {
                return Err(format!(
                    "wait {}: {wait:?}, wanted {least:?}..{most:?}",
                    at + 1
                ));
            }
        }
    }
    if let Some(hint) = hint_of(case) {
        let waited = seen.calls.iter().flat_map(|call| &call.waits);
        if waited.map(|wait| wait.lasted).max().unwrap_or_default() < hint {
            return Err(format!("the server asked for {hint:?}, which was not kept"));
        }
    }
    let listed = expected["requests"].as_array();
    for (at, call) in seen
        .calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.tries > 0)
    {
        let request = match listed {
            Some(listed) if listed.len() == seen.calls.len() => &listed[at],
            Some(listed) => listed.last().unwrap_or(&Value::Null),
            None => &expected["request"],
        };
        let wanted = request["read_timeout_s"].as_f64();
        if wanted.is_some_and(|wanted| (wanted - call.timeout.as_secs_f64()).abs() > 1e-9) {
            return Err(format!(
                "the limit is {:?}, wanted {wanted:?} s",
                call.timeout
            ));
        }
    }
    Ok(())
}

/// What a throttled answer of the script asks for, if another try follows it.
fn hint_of(case: &Value) -> Option<Duration> {
    let count = case["expected_request"]["request_count"].as_u64()?;
    let headers = &case["response"]["script"][0]["headers"];
    let number = |name: &str| headers[name].as_str()?.parse::<f64>().ok();
    let seconds = number("retry-after-ms")
        .map(|ms| ms / 1_000.0)
        .or_else(|| number("retry-after"))?;
    (count > 1).then(|| Duration::from_secs_f64(seconds))
}

/// Compares what came of the calls.
pub(super) fn results(case: &Value, seen: &Seen) -> Result<(), String> {
    let expected = &case["expected_result"];
    let is_benchmark = case["input"]["benchmark"].is_string();
    let listed = expected["results"].as_array();
    for (at, call) in seen.calls.iter().enumerate() {
        let wanted = listed.map_or(expected, |listed| &listed[at]);
        let Some(outcome) = &call.outcome else {
            let kind = &wanted["error"]["last"]["kind"];
            if kind == "none" {
                continue;
            }
            return Err(format!("no try was made, wanted {wanted}"));
        };
        if let Some(word) = wanted["outcome"].as_str() {
            let seen = Outcome::of(outcome).as_str();
            if seen != word {
                return Err(format!("the outcome is {seen}, wanted {word}: {outcome:?}"));
            }
        }
        match outcome {
            Ok(_) if is_benchmark && wanted["ok"].is_object() => {}
            Ok(reply) if wanted["ok"].is_object() => ok(&wanted["ok"], reply)?,
            Err(error) if wanted["error"].is_object() => failed(&wanted["error"], error)?,
            _ if wanted["outcome"].is_string() => {}
            _ if is_benchmark => return Err(format!("got {outcome:?}, wanted {wanted}")),
            other => return Err(format!("got {other:?}, wanted {wanted}")),
        }
    }
    Ok(())
}

fn ok(wanted: &Value, reply: &ChatReply) -> Result<(), String> {
    let (key, seen) = if wanted["message"].is_object() {
        ("message", message(&wanted["message"], reply))
    } else {
        ("text", reply.text.as_str().into())
    };
    let wanted_answer = match key {
        "text" => text(&wanted["text"]),
        _ => {
            let mut message = wanted["message"].clone();
            if let Some(message) = message.as_object_mut() {
                // Informative, and what only repeats the answer as it came.
                message.remove("__type__");
                if let Some(metadata) = message.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("choice0");
                }
            }
            message
        }
    };
    if !same(&wanted_answer, &seen, false) {
        return Err(format!("the {key} is {seen}, wanted {wanted_answer}"));
    }
    usage("the call", &wanted["usage"], reply.usage)
}

/// Returns the text that is expected: parts are joined, also where the reference hands them on as
/// a list or as JSON.
fn text(wanted: &Value) -> Value {
    let parsed = wanted
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let parts = parsed.as_ref().unwrap_or(wanted).as_array();
    match parts {
        Some(parts) if parts.iter().all(|part| part["type"] == "text") => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<String>().into()
        }
        _ => wanted.clone(),
    }
}

/// Writes a reply as the message that is expected, with as much beside it.
fn message(wanted: &Value, reply: &ChatReply) -> Value {
    let calls = reply.tool_calls.iter().map(|call| {
        json!({
            "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        })
    });
    let mut message = json!({"content": reply.text, "tool_calls": calls.collect::<Vec<_>>()});
    if wanted["metadata"].is_object() {
        message["metadata"] = json!({});
    }
    if wanted["metadata"]["finish_reason"].is_string() {
        message["metadata"]["finish_reason"] = match reply.finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
        }
        .into();
    }
    message
}

fn failed(wanted: &Value, error: &CallError) -> Result<(), String> {
    let last = match wanted["kind"].as_str() {
        Some("retries_exhausted") => &wanted["last"],
        _ => wanted,
    };
    let is_same = match (last["kind"].as_str().unwrap_or_default(), error) {
        ("http_status", error) => status(error) == last["status"].as_u64(),
        ("no_choices" | "not_an_object" | "malformed_json", CallError::Malformed { .. })
        | ("connection", CallError::Connection { .. })
        | ("timeout", CallError::Timeout { .. }) => true,
        ("missing_api_key", CallError::Misconfigured { detail, .. }) => detail.contains("API key"),
        ("missing_endpoint", CallError::Misconfigured { detail, .. }) => detail.contains("address"),
        ("invalid_setting", CallError::Misconfigured { status: 0, .. }) => true,
        _ => false,
    };
    if is_same {
        Ok(())
    } else {
        Err(format!("got {error:?}, wanted {last}"))
    }
}

fn status(error: &CallError) -> Option<u64> {
    Some(match error {
        CallError::Throttled { .. } => 429,
        CallError::Unauthorized { status, .. }
        | CallError::Server { status, .. }
        | CallError::Rejected { status, .. }
        | CallError::Misconfigured { status, .. } => u64::from(*status),
        CallError::Filtered { .. } => 400,
        _ => return None,
    })
}

/// A missing total is not repeated as 0: the sum is what was used.
fn usage(what: &str, wanted: &Value, seen: Usage) -> Result<(), String> {
    let is_same = wanted["prompt_tokens"] == seen.prompt_tokens
        && wanted["completion_tokens"] == seen.completion_tokens
        && (wanted["total_tokens"] == 0
            || wanted["total_tokens"] == seen.prompt_tokens + seen.completion_tokens);
    if is_same {
        Ok(())
    } else {
        Err(format!("{what} used {seen:?}, wanted {wanted}"))
    }
}

/// Compares what all calls used, by stage.
pub(super) fn totals(case: &Value, seen: &Seen) -> Result<(), String> {
    let Some(wanted) = case["expected_result"]["token_summary"].as_object() else {
        return Ok(());
    };
    let mut total = Usage::default();
    let mut stages: BTreeMap<&str, Usage> = BTreeMap::new();
    for call in &seen.calls {
        if let Some(used) = call.usage() {
            total += used;
            *stages.entry(&call.stage).or_default() += used;
        }
    }
    for (stage, wanted) in wanted {
        let seen = match stage.as_str() {
            "_total" => total,
            stage => stages.get(stage).copied().unwrap_or_default(),
        };
        if wanted["calls"] != seen.calls {
            return Err(format!(
                "`{stage}` made {} calls, wanted {wanted}",
                seen.calls
            ));
        }
        usage(stage, wanted, seen)?;
    }
    let attempts = case["expected_result"]["attempts"].as_u64();
    let tries: u32 = seen.calls.iter().map(|call: &Called| call.tries).sum();
    match attempts {
        Some(wanted) if wanted != u64::from(tries) => {
            Err(format!("{tries} tries were counted, wanted {wanted}"))
        }
        _ => Ok(()),
    }
}

/// Compares the settings as they were understood, and whether something was said about them.
pub(super) fn state(case: &Value, seen: &Seen) -> Result<(), String> {
    let expected = &case["expected_result"];
    if let Some(base_url) = expected["state_after"]["base_url"].as_str()
        && seen.target.endpoint != base_url
    {
        return Err(format!(
            "the address is {}, wanted {base_url}",
            seen.target.endpoint
        ));
    }
    if let Some(region) = expected["state_after"]["region"].as_str()
        && seen.region != region
    {
        return Err(format!("the region is {}, wanted {region}", seen.region));
    }
    match expected["warnings"].as_array() {
        Some(wanted) if wanted.is_empty() != (seen.warnings == 0) => {
            Err(format!("{} warnings, wanted {wanted:?}", seen.warnings))
        }
        _ => Ok(()),
    }
}
