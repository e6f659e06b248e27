//! How a CLI is started: a rule for each flag of the reference.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fake::Seen;
use super::{text, texts};

/// What is compared with.
pub(super) struct Wanted<'a> {
    pub(super) backend: &'a str,
    pub(super) model: &'a str,
    /// Names of the folders that the case lets the agent read.
    pub(super) data: &'a [String],
}

/// Compares one start with an invocation of the reference. A flag without a rule is an error.
pub(super) fn compare(wanted: &Wanted<'_>, invocation: &Value, seen: &Seen) -> Result<(), String> {
    let argv = texts(&invocation["argv"]);
    let is_sdk = invocation["via"] == "sdk";
    let (flags, prompt) = flags(wanted.backend, &argv, is_sdk);
    let prompt = prompt.or_else(|| invocation["stdin"].as_str().map(str::to_owned));
    told(&sdk_prompt(&prompt.unwrap_or_default()), seen)?;
    for (flag, value) in &flags {
        let differs = match wanted.backend {
            "codex_exec" => codex(wanted, flag, value, seen),
            "claude_code_exec" => claude(wanted, flag, value, seen),
            "copilot_exec" => copilot(wanted, flag, value, seen),
            _ => cursor(wanted, flag, value, seen),
        };
        differs.map_err(|why| format!("`{flag} {value}`: {why}; started with {:?}", seen.argv))?;
    }
    environment(invocation, seen)
}

/// Flags that stand alone.
const ALONE: &[&str] = &[
    "exec",
    "--skip-git-repo-check",
    "--experimental-json",
    "--verbose",
    "--no-color",
    "--disable-builtin-mcps",
    "--no-custom-instructions",
    "--allow-all-tools",
    "--trust",
    "--force",
];

/// Takes a command line apart; the prompt is what belongs to no flag, or to Copilot's `-p`.
fn flags(backend: &str, argv: &[&str], is_sdk: bool) -> (Vec<(String, String)>, Option<String>) {
    let mut flags = Vec::new();
    let mut prompt = None;
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        let is_print = *word == "-p" && matches!(backend, "claude_code_exec" | "cursor_exec");
        if is_print || ALONE.contains(word) {
            flags.push(((*word).to_owned(), String::new()));
        } else if *word == "--" || !word.starts_with('-') {
            let rest = if *word == "--" {
                words.next()
            } else {
                Some(word)
            };
            prompt = rest.map(|text| (*text).to_owned());
        } else {
            let value = words.next().copied().unwrap_or_default().to_owned();
            if *word == "-p" && backend == "copilot_exec" {
                prompt = Some(value);
            } else {
                flags.push(((*word).to_owned(), value));
            }
        }
    }
    // An SDK has its prompt on standard input.
    (flags, prompt.filter(|_| !is_sdk))
}

/// The SDK of Claude Code sends its prompt in a message.
fn sdk_prompt(prompt: &str) -> String {
    let messages: Option<Value> = serde_json::from_str(prompt).ok();
    let content =
        messages.and_then(|list| Some(list.get(0)?["message"]["content"].as_str()?.to_owned()));
    content.unwrap_or_else(|| prompt.to_owned())
}

/// The prompt comes on standard input, which is closed after it (spec 8, point 9). What the
/// reference's fixed wording conveys, our prompts say in their own place: the rest must be there.
fn told(prompt: &str, seen: &Seen) -> Result<(), String> {
    let mut rest = seen.stdin.as_str();
    for part in prompt.split("{{slot:") {
        let part = part
            .split_once("}}")
            .map_or(part, |(_, after)| after)
            .trim();
        let Some(at) = rest.find(part) else {
            return Err(format!("it was told {:?}, without {part:?}", seen.stdin));
        };
        rest = &rest[at + part.len()..];
    }
    let is_in_argv = seen.argv.iter().any(|arg| arg.contains("DO IT"));
    if is_in_argv {
        return Err("its prompt stands among its arguments".to_owned());
    }
    // The skill is named so that it is used: by its sign, or in words.
    if seen.stdin.contains("skillopt-target") {
        Ok(())
    } else {
        Err(format!(
            "it was told nothing of its skill: {:?}",
            seen.stdin
        ))
    }
}

fn is(seen: bool, why: &str) -> Result<(), String> {
    if seen { Ok(()) } else { Err(why.to_owned()) }
}

fn has(seen: &Seen, word: &str) -> Result<(), String> {
    is(
        seen.argv.iter().any(|arg| arg == word),
        &format!("no `{word}`"),
    )
}

fn pair(seen: &Seen, flag: &str, value: &str) -> Result<(), String> {
    let has_pair = seen
        .argv
        .windows(2)
        .any(|two| two[0] == flag && two[1] == value);
    is(has_pair, &format!("no `{flag} {value}`"))
}

/// What it may read lies in its folder: nothing of the machine is opened to it.
fn readable(wanted: &Wanted<'_>, value: &str, seen: &Seen) -> Result<(), String> {
    if value.contains("codex_exec") {
        return is(!seen.cwd.is_empty(), "it runs nowhere");
    }
    let name = value.rsplit('/').next().unwrap_or_default();
    let is_data = wanted.data.iter().any(|known| known == name);
    let below = if is_data {
        format!("{name}/")
    } else {
        "attachments/".to_owned()
    };
    let is_there = seen.work.keys().any(|path| path.starts_with(&below));
    is(is_there, &format!("nothing lies in `{below}`"))
}

fn codex(wanted: &Wanted<'_>, flag: &str, value: &str, seen: &Seen) -> Result<(), String> {
    let config = seen.home.get(".codex/config.toml");
    let config = config.map_or_else(String::new, |bytes| {
        String::from_utf8_lossy(bytes).into_owned()
    });
    let configured = |line: &str| is(config.contains(line), &format!("no `{line}` in {config}"));
    match flag {
        "exec" | "--skip-git-repo-check" => has(seen, flag),
        // Its events take the place of its log, and an SDK's events are the same.
        "--color" | "--experimental-json" => has(seen, "--json"),
        "-C" | "--cd" | "--add-dir" => readable(wanted, value, seen),
        // Ours confines it, and its own does not run inside: which values can be had, is seen before
        // (`case::cannot_be_had`).
        "--sandbox" => pair(seen, "--sandbox", "danger-full-access"),
        "-m" | "--model" => pair(seen, "-m", wanted.model),
        "-i" => readable(wanted, "attachments", seen),
        // The last words stand in the events, and no JSON is asked for.
        "--output-last-message" | "--output-schema" => {
            let is_absent = |word: &str| !seen.argv.iter().any(|arg| arg == word);
            is(
                is_absent(flag) && is_absent("-o"),
                "a file that the agent can write",
            )
        }
        "-c" | "--config" => match value.split_once('=').unwrap_or((value, "")) {
            // No effort is sent for `none`, as the SDK and the optimizer have it.
            ("model_reasoning_effort", "\"none\"") => {
                is(!config.contains("reasoning_effort"), "an effort is sent")
            }
            ("model_reasoning_effort", effort) => {
                configured(&format!("model_reasoning_effort = {effort}"))
            }
            ("approval_policy", policy) => configured(&format!("approval_policy = {policy}")),
            // There is no network but the relay, and no search: what else is asked for is refused.
            ("sandbox_workspace_write.network_access", _) => Ok(()),
            ("web_search" | "features.web_search_request", _) => {
                configured("web_search = \"disabled\"")
            }
            _ => Err("no rule".to_owned()),
        },
        // Refused before anything starts: a private home has no profiles.
        "-p" => is(!seen.argv.iter().any(|arg| arg == "-p"), "a profile"),
        _ => Err("no rule".to_owned()),
    }
}

fn claude(wanted: &Wanted<'_>, flag: &str, value: &str, seen: &Seen) -> Result<(), String> {
    match flag {
        "-p" | "--verbose" => has(seen, flag),
        // Its events tell what its text does not.
        "--output-format" | "--input-format" => pair(seen, "--output-format", "stream-json"),
        // The sandbox bounds what tools can do. Which of them there are, and the mode, are arguments
        // of a function of the reference that no benchmark and no setting of it fills.
        "--permission-mode" => pair(seen, flag, "bypassPermissions"),
        "--tools" | "--allowedTools" => is(
            !seen.argv.iter().any(|arg| arg == flag),
            "tools are left out",
        ),
        "--add-dir" => readable(wanted, value, seen),
        // Another provider is not chosen by a variable of the environment: there is none.
        "--settings" => is(
            !seen.env.contains_key("CLAUDE_CODE_USE_BEDROCK"),
            "another provider",
        ),
        // The SDK's addition to the system prompt is part of our prompt.
        "--append-system-prompt" if value.starts_with("{{slot:") => Ok(()),
        // A prefix of a router of models is none of this provider's.
        "--model" => pair(seen, flag, wanted.model),
        "--append-system-prompt" | "--effort" | "--max-thinking-tokens" => pair(seen, flag, value),
        "--json-schema" => is(
            !seen.argv.iter().any(|arg| arg == flag),
            "JSON is asked for",
        ),
        _ => Err("no rule".to_owned()),
    }
}

fn copilot(wanted: &Wanted<'_>, flag: &str, value: &str, seen: &Seen) -> Result<(), String> {
    match flag {
        "--output-format" | "--stream" | "--log-level" => pair(seen, flag, value),
        "--no-color" | "--disable-builtin-mcps" | "--no-custom-instructions" => has(seen, flag),
        "--allow-all-tools" => has(seen, flag),
        "-C" | "--add-dir" => readable(wanted, value, seen),
        "--model" => is(
            seen.env.get("COPILOT_MODEL").map(String::as_str) == Some(wanted.model),
            "another model",
        ),
        _ => Err("no rule".to_owned()),
    }
}

fn cursor(wanted: &Wanted<'_>, flag: &str, value: &str, seen: &Seen) -> Result<(), String> {
    match flag {
        "-p" | "--trust" | "--force" => has(seen, flag),
        "--workspace" => pair(seen, flag, &seen.cwd),
        "--model" => pair(seen, flag, wanted.model),
        "--output-format" | "--sandbox" | "--mode" => pair(seen, flag, value),
        "--add-dir" => readable(wanted, value, seen),
        _ => Err("no rule".to_owned()),
    }
}

/// The environment is listed (spec 8, point 1 and 8): nothing of the worker's own is in it.
fn environment(invocation: &Value, seen: &Seen) -> Result<(), String> {
    let leaked = |(name, value): &(&String, &String)| {
        value.contains("canary") || name.contains("AWS_") || name.contains("GITHUB_")
    };
    if let Some((name, _)) = seen.env.iter().find(leaked) {
        return Err(format!("it sees `{name}`"));
    }
    let removed = texts(&invocation["env_removed"]);
    if let Some(name) = removed.iter().find(|name| seen.env.contains_key(**name)) {
        return Err(format!("it sees `{name}`"));
    }
    // A home that is named is a home apart from the user's: each task has one.
    let named: BTreeMap<&str, &str> = invocation["env_values"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), text(value)))
        .collect();
    for name in named.keys() {
        let home = seen.env.get("HOME").map_or("", String::as_str);
        let own = seen.env.get(*name).map_or("", String::as_str);
        if home.is_empty() || !own.starts_with(home) {
            return Err(format!("`{name}` is `{own}`, outside of its home `{home}`"));
        }
    }
    Ok(())
}
