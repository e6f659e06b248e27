//! Cases in which a command-line program serves as a chat model: a fake of the program keeps what
//! it was started with and says what the case says.
//!
//! Where we differ on purpose, the rule is here or in [`argv`], with its reason:
//! - a text model runs in an empty folder, with a home of its own and an environment that is
//!   listed, whatever the case recorded (backends spec 8, points 1 and 7): see [`started_alone`];
//! - a limit of time is always set (spec 8, point 2): a case without one takes the backend's;
//! - the prompt travels on stdin (spec 8, point 9), and so do images for Claude, which has no tool
//!   to read files with: see [`prompt`];
//! - Copilot's prompt names the system's part always: a conversation of two messages is the same
//!   conversation whatever function of the reference it was given to;
//! - a message holds text or parts by its type: nothing else can be refused
//!   (`content_not_text_rejected`);
//! - an image is inline or remote, a local file is none: cases with one hold it inline.

mod argv;
mod fake;
mod outcome;

use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};
use skillopt_core::role::Role;

use super::calls::{self, Seen};
use super::setup::{Places, Setup};
use super::sign_in::FakeAz;
use fake::Fake;
pub(super) use fake::Started;

/// Runs one case.
///
/// # Errors
/// What differs, in words.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let id = case["id"].as_str().unwrap_or_default();
    if id.ends_with("/content_not_text_rejected") {
        return Ok(());
    }
    let case = &ours(case);
    let fake = Fake::new(case).map_err(|e| e.to_string())?;
    let nowhere = Places::new(([127, 0, 0, 1], 9).into());
    let case = &nowhere.fill(&fake.fill(case));
    let az = FakeAz::new(case);
    let setup = match Setup::new(&with_environment(case, &fake), &az) {
        Ok(setup) => setup,
        Err(refused) => return outcome::refused(case, &refused),
    };
    let seen = calls::make(&setup, case);
    let started = fake.started().map_err(|e| e.to_string())?;
    invocations(case, &started, &fake)?;
    limits(case, &seen, &setup)?;
    outcome::compare(case, &seen)?;
    if fake.leaves_a_process() {
        fake.wait_until_gone()?;
    }
    Ok(())
}

/// Makes the calls of a case, and returns what came of them.
///
/// # Errors
/// It cannot be set up.
pub(super) fn seen(case: &Value) -> Result<Seen, String> {
    let case = &ours(case);
    let fake = Fake::new(case).map_err(|e| e.to_string())?;
    let nowhere = Places::new(([127, 0, 0, 1], 9).into());
    let case = &nowhere.fill(&fake.fill(case));
    let az = FakeAz::new(case);
    let setup = Setup::new(&with_environment(case, &fake), &az)?;
    Ok(calls::make(&setup, case))
}

/// Makes the calls of a case, and returns how the program was started.
///
/// # Errors
/// It cannot be set up.
pub(super) fn started(case: &Value) -> Result<Vec<Started>, String> {
    let case = &ours(case);
    let fake = Fake::new(case).map_err(|e| e.to_string())?;
    let nowhere = Places::new(([127, 0, 0, 1], 9).into());
    let case = &nowhere.fill(&fake.fill(case));
    let az = FakeAz::new(case);
    let setup = Setup::new(&with_environment(case, &fake), &az)?;
    calls::make(&setup, case);
    fake.started().map_err(|e| e.to_string())
}

/// Puts into a case what the way that it was recorded says without words.
fn ours(case: &Value) -> Value {
    let mut case = case.clone();
    let backend = case["backend"].as_str().unwrap_or_default().to_owned();
    let input = &mut case["input"];
    if !input["config"].is_object() {
        input["config"] = json!({});
    }
    match backend.as_str() {
        // Our own default is the interface; these cases are about the program.
        "claude_chat" => input["config"]["claude_transport"] = "cli".into(),
        // Used as a library, the reference's default model is not that of a run.
        "codex_optimizer" if input["config"].get("optimizer_model").is_none() => {
            input["config"]["optimizer_model"] = "gpt-4o".into();
        }
        // No tries means one try, for this backend alone.
        "copilot_chat" if input["call"]["retries"] == 0 => input["call"]["retries"] = 1.into(),
        _ => {}
    }
    for step in case["response"]["script"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        // Cases with a delay run at a tenth of their pace elsewhere; a program needs its time.
        if let Some(step) = step.as_object_mut()
            && let Some(seconds) = step.remove("delay_s")
        {
            step.insert("stays_s".to_owned(), seconds);
        }
    }
    inline_images(&mut case);
    repeated(&mut case);
    case
}

/// Puts local files of images into the address, as benchmarks do.
fn inline_images(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(url) = map.get_mut("url")
                && url == "{{root}}/p.png"
            {
                // `PNGDATA`.
                *url = "data:image/png;base64,UE5HREFUQQ==".into();
            }
            map.values_mut().for_each(inline_images);
        }
        Value::Array(items) => items.iter_mut().for_each(inline_images),
        _ => {}
    }
}

/// Writes a text out that a case only describes.
fn repeated(case: &mut Value) {
    let user = &mut case["input"]["call"]["user"];
    let described = user.as_str().and_then(|text| {
        let (what, times) = text
            .strip_prefix("@REPEAT:")?
            .strip_suffix('@')?
            .split_once(':')?;
        Some(what.repeat(times.parse().ok()?))
    });
    if let Some(text) = described {
        *user = text.into();
    }
}

fn with_environment(case: &Value, fake: &Fake) -> Value {
    let mut case = case.clone();
    for (name, value) in fake.environment() {
        let slot = &mut case["input"]["env"][name];
        if slot.is_null() {
            *slot = value.into();
        }
    }
    case
}

/// Compares how often and how the program was started.
fn invocations(case: &Value, started: &[Started], fake: &Fake) -> Result<(), String> {
    let listed = case["expected_request"]["invocations"].as_array();
    let mut wanted: Vec<&Value> = Vec::new();
    for invocation in listed.into_iter().flatten() {
        let repeats = invocation["identical_repeats"].as_u64().unwrap_or(0);
        wanted.extend((0..=repeats).map(|_| invocation));
    }
    if outcome::is_final(case) {
        // What cannot pass is not tried again (spec 8, point 2).
        wanted.truncate(1);
    }
    // The longest prompt is none too long for stdin.
    let too_long = case["expected_result"]["error"]["last"]["kind"] == "argv_too_long";
    if too_long && started.len() == 1 {
        return Ok(());
    }
    if started.len() != wanted.len() {
        return Err(format!("{} starts, wanted {}", started.len(), wanted.len()));
    }
    let is_cut = case["expected_result"]["error"]["last"]["kind"] == "timeout";
    for (seen, wanted) in started.iter().zip(wanted) {
        // A slow machine may reach the deadline before the fake has looked at everything.
        if is_cut && !seen.is_whole {
            continue;
        }
        if seen.program != wanted["program"].as_str().unwrap_or_default() {
            return Err(format!("`{}` was started", seen.program));
        }
        argv::compare(case, wanted, seen)?;
        prompt(case, wanted, seen)?;
        started_alone(wanted, seen, fake)?;
    }
    Ok(())
}

/// Compares what the program was told.
fn prompt(case: &Value, wanted: &Value, seen: &Started) -> Result<(), String> {
    let is_copilot = case["backend"] == "copilot_chat";
    let text = if is_copilot {
        let after = wanted["argv"].as_array().and_then(|argv| argv.get(1));
        let text = after.and_then(Value::as_str).unwrap_or_default();
        match case["input"]["call"]["op"].as_str() {
            Some("chat_messages") => text.to_owned(),
            _ => format!("[system]\n{text}"),
        }
    } else {
        wanted["stdin"].as_str().unwrap_or_default().to_owned()
    };
    let said = match serde_json::from_str::<Value>(&seen.stdin) {
        // Images and the text go in one message.
        Ok(message) if message["type"] == "user" => {
            let parts = message["message"]["content"].as_array().cloned();
            let parts = parts.unwrap_or_default();
            if !parts.iter().any(|part| part["type"] == "image") {
                return Err(format!("no image in {message}"));
            }
            let text = parts.iter().find_map(|part| part["text"].as_str());
            text.unwrap_or_default().to_owned()
        }
        _ => seen.stdin.clone(),
    };
    if has_slots(&said, &text) {
        Ok(())
    } else {
        Err(format!("the prompt is {said:?}, wanted {text:?}"))
    }
}

/// Returns whether `seen` is `wanted`, with wording of ours in place of its slots.
fn has_slots(seen: &str, wanted: &str) -> bool {
    let mut rest = seen;
    let mut parts = wanted.split("{{slot:");
    let Some(first) = parts.next() else {
        return seen.is_empty();
    };
    let Some(after) = rest.strip_prefix(first) else {
        return false;
    };
    rest = after;
    let parts: Vec<&str> = parts
        .map(|part| part.split_once("}}").map_or(part, |(_, after)| after))
        .collect();
    for (at, part) in parts.iter().enumerate() {
        let found = if at + 1 == parts.len() && part.is_empty() {
            Some(rest.len())
        } else {
            rest.find(part)
        };
        match found {
            // A slot that nothing fills is not filled.
            Some(0) | None => return false,
            Some(begin) => rest = &rest[begin + part.len()..],
        }
    }
    rest.is_empty()
}

/// Checks where the program ran and what it saw.
fn started_alone(wanted: &Value, seen: &Started, fake: &Fake) -> Result<(), String> {
    if !seen.tree.is_empty() {
        return Err(format!("its folder holds {:?}", seen.tree));
    }
    // The one credential that a program may see is its own login.
    let login = match Path::new(&seen.program).file_name().and_then(OsStr::to_str) {
        Some("claude") => "ANTHROPIC_API_KEY",
        Some("cursor-agent") => "CURSOR_API_KEY",
        _ => "",
    };
    for (name, value) in &seen.env {
        if value.contains("canary") && name != login {
            return Err(format!("it sees `{name}`"));
        }
    }
    let shown = wanted["env_shown"].as_array().into_iter().flatten();
    let mut shown = shown.filter_map(Value::as_str);
    if let Some(name) = shown.find(|name| !seen.env.contains_key(*name)) {
        return Err(format!("it does not see `{name}`"));
    }
    let home = seen.env.get("HOME").map_or("", String::as_str);
    if home.is_empty() || home == fake.home() || !seen.cwd.starts_with(parent(home)) {
        return Err(format!("its home is {home:?}, its folder {:?}", seen.cwd));
    }
    for (name, value) in wanted["env_values"].as_object().into_iter().flatten() {
        if seen.env.get(name).map(String::as_str) != value.as_str() {
            return Err(format!("`{name}` is not {value}"));
        }
    }
    let removed = wanted["env_removed"].as_array().into_iter().flatten();
    let mut removed = removed.filter_map(Value::as_str);
    match removed.find(|name| seen.env.contains_key(*name)) {
        Some(name) => Err(format!("it sees `{name}`")),
        None => Ok(()),
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Compares the limits of time. Where a case has none, the backend's own counts.
fn limits(case: &Value, seen: &Seen, setup: &Setup) -> Result<(), String> {
    let wanted = &case["expected_request"]["invocations"][0]["timeout_s"];
    let own = setup.timeout(Role::Optimizer).as_secs_f64();
    let wanted = wanted.as_f64().unwrap_or(own);
    for call in &seen.calls {
        let limit = call.timeout.as_secs_f64();
        if (wanted - limit).abs() > 1e-9 {
            return Err(format!("the limit is {limit} s, wanted {wanted} s"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_and_the_rest_is_the_same() {
        let wanted = "S\n{{slot:a}}\n- User: U\n\n{{slot:b}}";
        assert!(has_slots("S\nhead\n- User: U\n\nanswer", wanted));
        assert!(has_slots("S\nhead of `grep`.\n", "S\n{{slot:a}}grep`.\n"));
        for other in [
            "S\n\n- User: U\n\nanswer",
            "S\nhead\n- User: V\n\nanswer",
            "S",
        ] {
            assert!(!has_slots(other, wanted), "{other}");
        }
    }
}
