//! Compares command lines.
//!
//! Where we differ on purpose, the rule is here, with its reason:
//! - no tools, no settings of the user, nothing kept ([`WITHOUT_TOOLS`]; backends spec 8, point 7):
//!   what the reference says of permissions and sources of settings has no use then;
//! - `--json-schema` is the option that exists (W1 of the spec's chapter 6);
//! - the system prompt takes the place of the program's own instead of following it;
//! - Codex is read-only, asks nobody and has no network, whatever is set for the agent of that
//!   name; it works in an empty folder;
//! - pi prints its events, since its plain output tells a cut answer from a whole one as little as a
//!   failure; a system prompt of ours takes the place of an empty one, for which it says who it is;
//! - opencode's agent and title have names of ours;
//! - Copilot's prompt is on stdin; `--available-tools=` with nothing after it offers every tool in
//!   release 1.0.102, a name of no tool offers none.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fake::Started;

/// What each program must be told, beside what a case says.
const WITHOUT_TOOLS: &[(&str, &[(&str, &str)])] = &[
    (
        "claude_chat",
        &[
            ("--tools", ""),
            ("--setting-sources", ""),
            ("--strict-mcp-config", ""),
            ("--disable-slash-commands", ""),
            ("--no-session-persistence", ""),
        ],
    ),
    (
        "codex_optimizer",
        &[
            ("--sandbox", "read-only"),
            ("-c approval_policy", "\"never\""),
            ("-c web_search", "\"disabled\""),
            ("-c features.shell_tool", "false"),
            ("-c features.unified_exec", "false"),
            ("-c project_doc_max_bytes", "0"),
        ],
    ),
    (
        "copilot_chat",
        &[("--available-tools", "none"), ("--no-auto-update", "")],
    ),
    ("cursor_chat", &[("--mode", "ask")]),
    ("pi_chat", &[("--no-tools", ""), ("--mode", "json")]),
    ("opencode_chat", &[("--pure", "")]),
];

/// Options of a case that have no counterpart, or another value, by the rules above.
const REPLACED: &[&str] = &[
    "--permission-mode",
    "--setting-sources",
    "--add-dir",
    "--sandbox",
    "-c approval_policy",
    "-c web_search",
    "-c sandbox_workspace_write.network_access",
    "--available-tools",
];

/// Options whose value is a place, which is compared by what is there, or a name of ours.
const FILES: &[&str] = &[
    "--append-system-prompt-file",
    "--output-last-message",
    "--output-schema",
    "--image",
    "--cd",
    "--workspace",
    "--dir",
    "--agent",
    "--title",
    "--system-prompt",
];

/// Options without a value.
const SWITCHES: &[&str] = &[
    "-p",
    "-",
    "--json",
    "--ephemeral",
    "--skip-git-repo-check",
    "--no-color",
    "--disable-builtin-mcps",
    "--no-custom-instructions",
    "--no-auto-update",
    "--strict-mcp-config",
    "--disable-slash-commands",
    "--no-session-persistence",
    "--verbose",
    "--trust",
    "--pure",
    "--no-session",
    "--no-tools",
    "--no-skills",
    "--no-context-files",
    "--no-extensions",
    "--no-prompt-templates",
    "--no-themes",
];

/// Compares one start.
pub(super) fn compare(case: &Value, wanted: &Value, seen: &Started) -> Result<(), String> {
    let backend = case["backend"].as_str().unwrap_or_default();
    let argv = wanted["argv"].as_array().into_iter().flatten();
    let argv: Vec<&str> = argv.filter_map(Value::as_str).collect();
    let argv = match backend {
        // The prompt, which is compared where it is now.
        "copilot_chat" => argv.get(2..).unwrap_or_default(),
        _ => &argv,
    };
    let seen_argv: Vec<&str> = seen.argv.iter().map(String::as_str).collect();
    let ours = options(&seen_argv);
    for (name, values) in &options(argv) {
        if REPLACED.contains(&name.as_str()) {
            continue;
        }
        let renamed = match name.as_str() {
            "--schema" => "--json-schema",
            "--append-system-prompt-file" => "--system-prompt-file",
            other => other,
        };
        let has_image = seen.argv.iter().any(|arg| arg == "--input-format");
        let is_same = match (renamed, ours.get(renamed)) {
            (_, None) => false,
            // Images go in a stream of messages, and the answer comes in one.
            ("--output-format", Some(_)) if has_image => true,
            ("--json-schema", Some(ours)) => json(&ours[0]) == json(&values[0]),
            (_, Some(ours)) if FILES.contains(&name.as_str()) => ours.len() == values.len(),
            (_, Some(ours)) => ours == values,
        };
        if !is_same {
            return Err(format!(
                "`{renamed}` is {:?}, wanted {values:?}",
                ours.get(renamed)
            ));
        }
    }
    let known = WITHOUT_TOOLS.iter().find(|(name, _)| *name == backend);
    for (name, value) in known.map_or(&[][..], |(_, options)| options) {
        if ours
            .get(*name)
            .is_none_or(|values| values != &[(*value).to_owned()])
        {
            return Err(format!(
                "`{name}` is {:?}, wanted {value:?}",
                ours.get(*name)
            ));
        }
    }
    files(wanted, seen)
}

/// Compares the files that the arguments name.
fn files(wanted: &Value, seen: &Started) -> Result<(), String> {
    let beside = wanted["argv_files"].as_object().into_iter().flatten();
    let inside = wanted["workspace_tree"].as_object().into_iter().flatten();
    for (path, content) in beside.chain(inside) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let content = content.as_str().unwrap_or_default();
        // By number, where the case has a file of its own; in the prompt for Claude.
        let name = if name == "p.png" { "image_2.png" } else { name };
        let is_in_prompt = name.starts_with("image_") && seen.program.ends_with("claude");
        if is_in_prompt {
            continue;
        }
        let Some(bytes) = seen.files.get(name) else {
            return Err(format!("no file `{name}`"));
        };
        let text = String::from_utf8_lossy(bytes);
        let is_same = match content.strip_prefix("<<binary ") {
            Some(rest) => rest.split(' ').next() == Some(bytes.len().to_string().as_str()),
            None if name.ends_with(".json") => json(&text) == json(content),
            None => text == content,
        };
        if !is_same {
            return Err(format!("`{name}` holds {text:?}, wanted {content:?}"));
        }
    }
    Ok(())
}

/// Takes a command line apart. A setting (`-c name=value`) is an option of its own.
fn options(argv: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut options: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut rest = argv.iter();
    while let Some(arg) = rest.next() {
        let (name, value) = if SWITCHES.contains(arg) {
            ((*arg).to_owned(), String::new())
        } else if let Some((name, value)) = arg.split_once('=').filter(|_| arg.starts_with("--")) {
            (name.to_owned(), value.to_owned())
        } else if *arg == "-c" {
            let setting = rest.next().copied().unwrap_or_default();
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            (format!("-c {name}"), value.to_owned())
        } else if arg.starts_with('-') {
            let value = rest.next().copied().unwrap_or_default();
            ((*arg).to_owned(), value.to_owned())
        } else {
            ((*arg).to_owned(), String::new())
        };
        options.entry(name).or_default().push(value);
    }
    options
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}
