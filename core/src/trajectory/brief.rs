//! Trajectories for small models: the task, what the agent said, what the judge said.
//!
//! Small models lose the thread in long texts and have small windows, so everything the prompt
//! says elsewhere (the skill) or twice (the task) is left out, and the middle of a long text is cut.

use super::{Item, Rendered};
use crate::loose;

/// Most characters of a task that are shown.
const TASK_CHARS_MAX: usize = 800;
/// Most characters of a conversation that are shown.
const CONVERSATION_CHARS_MAX: usize = 2_000;
/// Stands where a text was cut.
const CUT: &str = "\n[…]\n";

/// Renders the trajectories of one minibatch in short; `None` if no item has a conversation.
#[must_use]
pub fn render_brief(items: &[Item<'_>]) -> Option<Rendered> {
    let texts: Vec<String> = items
        .iter()
        .filter(|item| !item.conversation.is_empty())
        .enumerate()
        .map(|(i, item)| render_item(i + 1, item))
        .collect();
    (!texts.is_empty()).then(|| Rendered {
        text: texts.join("\n\n"),
        count: texts.len(),
    })
}

fn render_item(position: usize, item: &Item<'_>) -> String {
    let row = item.row;
    let kind = loose::first_field(row, &["task_type", "instruction_type"]);
    let kind = if kind.is_empty() {
        kind
    } else {
        format!(" ({kind})")
    };
    let mut task = loose::first_field(row, &["task_description", "instruction"]);
    if task.is_empty() {
        task = item.field_or_file("target_user_prompt", "target_user_prompt.txt");
    }
    let mut text = format!("### Task {position}{kind}\n{}", cut(&task, TASK_CHARS_MAX));
    let judged = |entry: &serde_json::Value| entry.get("role").is_some_and(|role| role == "system");
    // The judge's own words, where there are some, say more than the reason in the row.
    if !item.conversation.iter().any(judged) {
        let reason = loose::field(row, "fail_reason");
        if !reason.is_empty() {
            text.push_str(&format!("\nFailure reason: {reason}"));
        }
    }
    text.push('\n');
    text.push_str(&cut(&item.conversation_text(), CONVERSATION_CHARS_MAX));
    text
}

/// Cuts the middle out of a text that is too long: it begins with what was asked and ends with
/// how it came out.
fn cut(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    let n = text.chars().count();
    if n <= chars_max {
        return text.to_owned();
    }
    let head = chars_max / 2;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(n - (chars_max - head)).collect();
    format!("{start}{CUT}{end}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::trajectory::Trace;

    #[track_caller]
    fn check(row: &Value, files: &Value, conversation: &[Value], want: &str) {
        let item = Item {
            row: row.as_object().unwrap(),
            conversation,
            files: files.as_object(),
            trace: Trace::default(),
        };
        assert_eq!(render_brief(&[item]).unwrap().text, want);
    }

    #[test]
    fn only_task_answer_and_judgement_are_shown() {
        let files = json!({"target_system_prompt.txt": "skill", "target_user_prompt.txt": "2+2?"});
        let said = [
            json!({"role": "assistant", "content": "5"}),
            json!({"role": "system", "content": "Gold answer: 4"}),
        ];
        check(
            &json!({"id": "7", "task_description": "Sum up 2+2", "task_type": "sum", "fail_reason": "5"}),
            &files,
            &said,
            "### Task 1 (sum)\nSum up 2+2\n[assistant] 5\n[verification] Gold answer: 4",
        );
        check(
            &json!({"id": "7", "fail_reason": "wrong"}),
            &files,
            &said[..1],
            "### Task 1\n2+2?\nFailure reason: wrong\n[assistant] 5",
        );
        assert_eq!(render_brief(&[]), None);
    }

    #[test]
    fn the_middle_of_a_long_text_is_cut() {
        for (text, max, want) in [
            ("abcdef", 6, "abcdef".to_owned()),
            ("ábcdéf", 4, format!("áb{CUT}éf")),
            (" abc ", 3, "abc".to_owned()),
            ("abc", 1, format!("{CUT}c")),
            ("", 0, String::new()),
        ] {
            assert_eq!(cut(text, max), want, "{text}");
        }
    }
}
