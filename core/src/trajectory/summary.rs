//! What an agent did, in a few lines.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::loose;

/// Files whose reading is told: the task, and the skill.
const READ: [&str; 2] = ["task.md", "SKILL.md"];
/// Most failures that are told.
const FAILURES_MAX: usize = 3;
/// Most characters of one of them.
const FAILURE_CHARS_MAX: usize = 200;
/// Facts that are told.
const FACTS: [(&str, &str); 3] = [
    ("skill_reached_the_model", "Skill reached the model"),
    ("requests", "Requests"),
    ("ending", "Ending"),
];

/// Sums up what an agent did; "" if its conversation tells of nothing that it did.
pub(super) fn summary(conversation: &[Value]) -> String {
    let of = |kind: &'static str| {
        let entries = conversation.iter().filter_map(Value::as_object);
        entries.filter(move |entry| entry.get("type").and_then(Value::as_str) == Some(kind))
    };
    let calls: Vec<&Map<String, Value>> = of("tool_call").collect();
    // Of several turns the last one tells.
    let facts = of("agent").next_back().and_then(|entry| entry.get("facts"));
    if calls.is_empty() && facts.is_none() {
        return String::new();
    }
    let failed: Vec<_> = calls
        .iter()
        .copied()
        .filter(|call| is_failed(call))
        .collect();
    let mut lines = vec![format!(
        "Tool calls shown: {}{}; failed: {}",
        calls.len(),
        names(&calls),
        failed.len()
    )];
    for file in READ {
        let reading = calls
            .iter()
            .find(|call| loose::field(call, "cmd").contains(file));
        let word = match reading {
            None => "unknown",
            Some(call) if is_failed(call) => "failed",
            Some(_) => "success",
        };
        lines.push(format!("Read {file}: {word}"));
    }
    let failures = failed.iter().take(FAILURES_MAX);
    let failures: Vec<String> = failures
        .map(|call| telling(&loose::field(call, "obs")))
        .collect();
    lines.push(match failures.is_empty() {
        true => "First failures: none".to_owned(),
        false => format!("First failures: {}", failures.join(" | ")),
    });
    let facts = facts.and_then(Value::as_object);
    for (key, name) in FACTS {
        let fact = facts.map(|facts| loose::field(facts, key));
        if let Some(fact) = fact.filter(|fact| !fact.is_empty()) {
            lines.push(format!("{name}: {fact}"));
        }
    }
    lines.join("\n")
}

fn is_failed(call: &Map<String, Value>) -> bool {
    call.get("failed").is_some_and(loose::is_truthy)
}

/// Returns the tools that were called with their number, in brackets.
fn names(calls: &[&Map<String, Value>]) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for call in calls {
        *counts.entry(loose::field(call, "tool")).or_default() += 1;
    }
    counts.remove("");
    let counts = counts.into_iter();
    let words: Vec<String> = counts
        .map(|(tool, count)| format!("{tool} {count}"))
        .collect();
    match words.is_empty() {
        true => String::new(),
        false => format!(" ({})", words.join(", ")),
    }
}

/// Returns the line of an output that says what went wrong: one with the word, else the last.
fn telling(output: &str) -> String {
    let lines = || {
        output
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let named = lines().find(|line| line.to_lowercase().contains("error"));
    let line = named
        .or_else(|| lines().next_back())
        .unwrap_or("without a word");
    line.chars().take(FAILURE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(tool: &str, cmd: &str, obs: &str, failed: bool) -> Value {
        json!({"type": "tool_call", "tool": tool, "cmd": cmd, "obs": obs, "failed": failed})
    }

    #[test]
    fn what_was_done_is_counted_and_what_failed_is_told() {
        let conversation = [
            json!("raw"),
            call("exec", "cat task.md", "Count.", false),
            call("exec", "cat SKILL.md", "x\nls: Error 2\ny", true),
            call("plan", "", "", false),
            call("exec", "make", "one\ntwo\n", true),
            call("exec", "make", "", true),
            call("exec", "make", "a fourth", true),
            json!({"type": "agent", "facts": {"requests": 1}}),
            json!({"type": "agent", "facts": {
                "requests": 7, "skill_reached_the_model": false, "ending": "success",
            }}),
        ];
        let want = "Tool calls shown: 6 (exec 5, plan 1); failed: 4\n\
            Read task.md: success\nRead SKILL.md: failed\n\
            First failures: ls: Error 2 | two | without a word\n\
            Skill reached the model: false\nRequests: 7\nEnding: success";
        assert_eq!(summary(&conversation), want);
    }

    #[test]
    fn who_did_nothing_has_no_summary_and_who_was_asked_nothing_has_none_either() {
        let said = json!({"role": "assistant", "content": "3"});
        assert_eq!(summary(std::slice::from_ref(&said)), "");
        assert_eq!(summary(&[]), "");
        let facts = json!({"type": "agent", "facts": {"requests": 1}});
        let want = "Tool calls shown: 0; failed: 0\nRead task.md: unknown\nRead SKILL.md: unknown\n\
            First failures: none\nRequests: 1";
        assert_eq!(summary(&[said, facts]), want);
        let old = json!({"type": "tool_call", "cmd": "cat task.md", "obs": "x"});
        assert!(
            summary(&[old]).starts_with("Tool calls shown: 1; failed: 0\nRead task.md: success")
        );
    }
}
