//! What benchmarks with agents share: the skill as a document, the trajectory of a run.

mod desk;
pub(crate) mod tools;

use serde_json::{Value, json};
use skillopt_backends::Worked;

pub use desk::{Desk, DeskError};

/// Where an agent finds its task.
pub(crate) const TASK_FILE: &str = "task.md";

/// What stands in a skill that is still empty: CLIs pass over a document without a body.
const EMPTY_BODY: &str = "There are no rules yet. Work as you think best.";

/// Returns a trained skill as a document that CLIs list: front matter with name and description, and
/// the skill as its body.
#[must_use]
pub fn skill_document(skill: &str, about: &str) -> String {
    let body = match skill.trim() {
        "" => EMPTY_BODY,
        skill => skill,
    };
    if body.starts_with("---\n") {
        return format!("{body}\n");
    }
    // JSON strings are YAML strings, so that no quote in the text can end one.
    format!(
        "---\nname: \"skillopt-target\"\ndescription: {}\n---\n\n{body}\n",
        json!(about)
    )
}

/// Returns the entries of a run in a trajectory: what was done, what was said last, and what is known.
pub(crate) fn entries(turn: u32, reply: &str, worked: &Worked) -> Vec<Value> {
    let mut entries = worked.trace.clone();
    entries.push(json!({
        "type": "message", "role": "assistant", "turn": turn, "content": reply,
    }));
    if !worked.facts.is_empty() {
        entries.push(json!({"type": "agent", "turn": turn, "facts": worked.facts}));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_becomes_a_document_that_clis_list() {
        let document = skill_document("Count twice.\n", "How to \"count\"");
        assert_eq!(
            document,
            "---\nname: \"skillopt-target\"\ndescription: \"How to \\\"count\\\"\"\n---\n\nCount twice.\n"
        );
        assert!(skill_document(" ", "x").contains(EMPTY_BODY));
        let own = "---\nname: own\n---\nBody";
        assert_eq!(skill_document(own, "x"), "---\nname: own\n---\nBody\n");
    }
}
