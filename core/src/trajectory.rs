//! Trajectories as text for the optimizer.
//!
//! Nothing is cut: a trajectory's size is bounded where it is recorded. Rendering accepts any
//! JSON. Source: training spec, 2.3, 6.3.

mod brief;
mod summary;

use serde_json::{Map, Value};

pub use brief::render_brief;

use crate::job::RolloutRecord;
use crate::loose;

/// Line between two trajectories.
const RULE: &str = "\n\n----------------------------------------\n\n";

/// How much is shown of what an agent did, beside what it said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// Nothing.
    Hidden,
    /// What it did.
    #[default]
    Shown,
    /// What it did, and a summary before it.
    Summed,
}

impl Trace {
    /// Returns whether an entry of a conversation is shown.
    fn shows(self, entry: &Value) -> bool {
        let kind = entry.get("type").and_then(Value::as_str);
        self != Self::Hidden || !matches!(kind, Some("tool_call" | "note" | "agent"))
    }
}

/// One rollout to show.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The result row (training spec 2.4).
    pub row: &'a Map<String, Value>,
    /// The conversation (2.3).
    pub conversation: &'a [Value],
    /// Other text files of the rollout by name.
    pub files: Option<&'a Map<String, Value>>,
    /// How much is shown of what the agent did.
    pub trace: Trace,
}

impl<'a> Item<'a> {
    /// Shows a finished rollout.
    #[must_use]
    pub fn of(record: &'a RolloutRecord, trace: Trace) -> Self {
        Self {
            row: &record.row,
            conversation: &record.conversation,
            files: Some(&record.files),
            trace,
        }
    }

    /// Renders its conversation alone: the entries that are shown, a block of text each.
    #[must_use]
    pub fn conversation_text(&self) -> String {
        let entries = self.conversation.iter();
        let shown = entries.filter(|entry| self.trace.shows(entry));
        shown.map(entry).collect::<Vec<_>>().join("\n")
    }

    /// Returns the summary of what the agent did, if one is wanted: the file that an earlier program
    /// wrote, else one of what stands in the conversation.
    fn summary(&self) -> String {
        if self.trace != Trace::Summed {
            return String::new();
        }
        match self.file("codex_trace_summary.txt") {
            text if text.is_empty() => summary::summary(self.conversation),
            text => text,
        }
    }

    /// Returns a field of the result, else the side file that carries the same.
    fn field_or_file(&self, field: &str, file: &str) -> String {
        let text = loose::first_field(self.row, &[field]);
        if text.is_empty() {
            self.file(file)
        } else {
            text
        }
    }

    fn file(&self, name: &str) -> String {
        self.files
            .map(|files| loose::field(files, name))
            .unwrap_or_default()
    }
}

/// Several trajectories as one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// How many trajectories it shows.
    pub count: usize,
}

/// Renders the trajectories of one minibatch; `None` if no item has a conversation, and so there
/// is nothing to analyse.
#[must_use]
pub fn render(items: &[Item<'_>]) -> Option<Rendered> {
    let texts: Vec<String> = items
        .iter()
        .filter(|item| !item.conversation.is_empty())
        .enumerate()
        .map(|(i, item)| render_item(i + 1, item))
        .collect();
    (!texts.is_empty()).then(|| Rendered {
        text: texts.join(RULE),
        count: texts.len(),
    })
}

fn render_item(position: usize, item: &Item<'_>) -> String {
    let row = item.row;
    let mut text = format!(
        "### Trajectory {position} (id: {})\n",
        loose::field(row, "id")
    );
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("{name}: {value}\n"));
        }
    };
    line(
        "Task",
        loose::first_field(row, &["task_description", "instruction"]),
    );
    line(
        "Task type",
        loose::first_field(row, &["task_type", "instruction_type"]),
    );
    line("Failure reason", loose::field(row, "fail_reason"));
    let turns = loose::first_field(row, &["n_turns"]);
    line(
        "Steps",
        if turns.is_empty() {
            "?".to_owned()
        } else {
            turns
        },
    );
    let sections = [
        (
            "Hidden reference (the agent did not see it)",
            loose::field(row, "reference_text"),
        ),
        (
            "System prompt of the agent",
            item.field_or_file("target_system_prompt", "target_system_prompt.txt"),
        ),
        (
            "User prompt of the agent",
            item.field_or_file("target_user_prompt", "target_user_prompt.txt"),
        ),
        ("Trace summary", item.summary()),
        (
            "Probe trace steps",
            loose::first_field(row, &["codex_probe_trace_steps"]),
        ),
        (
            "Spreadsheet preview",
            item.field_or_file("spreadsheet_preview", "spreadsheet_preview.txt"),
        ),
        ("Conversation", item.conversation_text()),
    ];
    for (name, body) in sections {
        if !body.is_empty() {
            text.push_str(&format!("\n#### {name}\n{body}\n"));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Renders a conversation, one block per entry.
#[must_use]
pub fn conversation(entries: &[Value]) -> String {
    entries.iter().map(entry).collect::<Vec<_>>().join("\n")
}

fn entry(entry: &Value) -> String {
    let Some(map) = entry.as_object() else {
        return format!("[agent] {}", loose::text(entry));
    };
    let field = |key: &str| loose::field(map, key);
    match map.get("type").and_then(Value::as_str) {
        Some("tool_call") => {
            let action = format!("{} {}", field("tool"), field("cmd"));
            return format!(
                "[action] {}\n[obs]    {}",
                action.trim_start(),
                field("obs")
            );
        }
        // What is known of an agent's run has no words.
        Some("agent") if map.contains_key("facts") => return format!("[facts] {}", field("facts")),
        Some("files") if map.contains_key("bytes") => return format!("[files] {}", field("bytes")),
        _ => {}
    }
    if map.contains_key("action") {
        let step = map.get("step").map_or_else(|| "?".to_owned(), loose::text);
        let think = field("reasoning");
        let think = if think.is_empty() {
            think
        } else {
            format!("[step {step} think] {think}\n")
        };
        let (action, seen) = (field("action"), field("env_feedback"));
        return format!("{think}[step {step} action] {action}\n[step {step} obs]    {seen}");
    }
    let role = loose::field(map, "role");
    let speaker = match role.as_str() {
        "system" => "verification",
        "" => "agent",
        other => other,
    };
    format!("[{speaker}] {}", field("content"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::loose::tests::any_json;

    #[test]
    fn an_item_is_shown_in_full_and_in_order() {
        let row = json!({
            "id": "7", "hard": 0, "task_description": "Sum up", "task_type": "math",
            "fail_reason": "wrong: 3", "reference_text": "gold",
        });
        let files = json!({"target_user_prompt.txt": "2+2?", "codex_trace_summary.txt": "trace"});
        let conversation = [json!({"role": "assistant", "content": "3"})];
        let item = Item {
            row: row.as_object().unwrap(),
            conversation: &conversation,
            files: files.as_object(),
            trace: Trace::default(),
        };
        let empty = Item {
            conversation: &[],
            ..item
        };
        let rendered = render(&[empty, item]).unwrap();
        let want = "### Trajectory 1 (id: 7)\nTask: Sum up\nTask type: math\n\
            Failure reason: wrong: 3\nSteps: ?\n\n\
            #### Hidden reference (the agent did not see it)\ngold\n\n\
            #### User prompt of the agent\n2+2?\n\n#### Conversation\n[assistant] 3";
        assert_eq!(
            rendered,
            Rendered {
                text: want.to_owned(),
                count: 1
            }
        );
        assert_eq!(render(&[empty]), None);
        let traced = render(&[Item {
            trace: Trace::Summed,
            ..item
        }])
        .unwrap();
        assert!(traced.text.contains("#### Trace summary\ntrace"));
    }

    #[test]
    fn what_an_agent_did_is_shown_with_a_summary_or_not_at_all() {
        let row = json!({"id": "7"});
        let conversation = [
            json!({"type": "message", "role": "assistant", "content": "I look"}),
            json!({"type": "tool_call", "tool": "bash", "cmd": "ls", "obs": "a.txt"}),
            json!({"type": "note", "role": "note", "content": "2 entries are left out here"}),
            json!({"type": "message", "role": "assistant", "turn": 1, "content": "3"}),
            json!({"type": "agent", "turn": 1, "facts": {"requests": 2}}),
            json!({"type": "files", "turn": 1, "bytes": {"out.txt": 2}}),
            json!({"role": "system", "content": "wrong"}),
        ];
        let item = |trace| Item {
            row: row.as_object().unwrap(),
            conversation: &conversation,
            files: None,
            trace,
        };
        let said = "[assistant] 3\n[files] {\"out.txt\":2}\n[verification] wrong";
        let done = "[action] bash ls\n[obs]    a.txt\n[note] 2 entries are left out here";
        let hidden = item(Trace::Hidden).conversation_text();
        assert_eq!(hidden, format!("[assistant] I look\n{said}"));
        let shown = item(Trace::Shown).conversation_text();
        let said = said.replacen('\n', "\n[facts] {\"requests\":2}\n", 1);
        assert_eq!(shown, format!("[assistant] I look\n{done}\n{said}"));
        assert_eq!(item(Trace::Summed).conversation_text(), shown);
        for (trace, is_summed) in [
            (Trace::Hidden, false),
            (Trace::Shown, false),
            (Trace::Summed, true),
        ] {
            let text = render(&[item(trace)]).unwrap().text;
            assert_eq!(
                text.contains("#### Trace summary\nTool calls"),
                is_summed,
                "{text}"
            );
            let brief = render_brief(&[item(trace)]).unwrap().text;
            assert_eq!(brief.contains("bash ls"), trace != Trace::Hidden, "{brief}");
        }
    }

    proptest! {
        #[test]
        fn any_conversation_is_rendered(entries in prop::collection::vec(any_json(), 0..6)) {
            let _ = conversation(&entries);
        }
    }
}
