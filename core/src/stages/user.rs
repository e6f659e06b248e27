//! User texts: titled sections, quoted material between tags.

use serde_json::{Map, Value};

use crate::loose;
use crate::update_mode::UpdateMode;

/// Opens the section of earlier steps, where there is one.
pub const STEP_BUFFER_TAG: &str = "<earlier_steps>";
/// Opens the section of the optimizer's memory, where there is one.
pub const META_SKILL_TAG: &str = "<optimizer_memory>";

const MEMORY_NOTE: &str = "Memory from earlier epochs of this training. Use it where the evidence \
    is ambiguous; never force it against the evidence.";

/// A user text under construction.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Adds a paragraph.
    pub(super) fn line(mut self, line: &str) -> Self {
        self.0.push_str(line);
        self.0.push_str("\n\n");
        self
    }

    /// Adds material that is data, not instruction, between tags; it cannot end its own section.
    pub(super) fn quote(mut self, tag: &str, body: &str) -> Self {
        let end = format!("</{tag}>");
        let body = body.replace(&end, &format!("&lt;/{tag}>"));
        self.0.push_str(&format!("<{tag}>\n{body}\n{end}\n\n"));
        self
    }

    /// Adds the current skill.
    pub(super) fn skill(self, skill: &str) -> Self {
        self.quote("current_skill", skill)
    }

    /// Adds the earlier steps, if there are any.
    pub(super) fn step_buffer(self, buffer: &str) -> Self {
        if buffer.is_empty() {
            self
        } else {
            self.quote("earlier_steps", buffer)
        }
    }

    /// Adds the optimizer's memory, if there is one.
    pub(super) fn meta_skill(self, memory: &str) -> Self {
        if crate::text::is_blank(memory) {
            return self;
        }
        self.line(MEMORY_NOTE).quote("optimizer_memory", memory)
    }

    /// Returns the text without blanks at its end.
    pub(super) fn finish(mut self) -> String {
        self.0.truncate(self.0.trim_end().len());
        self.0
    }

    /// Returns the text ending with `json` on lines of its own.
    pub(super) fn finish_with(mut self, json: &Value) -> String {
        self.0.truncate(self.0.trim_end().len());
        format!("{}\n{}", self.0, pretty(json))
    }
}

/// Returns indented JSON.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Describes items one a line: `[<index>] op=… support=… target="…" content="…"`. Texts are quoted
/// as JSON, so that an item never spills over its line.
pub(super) fn describe(items: &[Value], mode: UpdateMode) -> String {
    let lines: Vec<String> = items
        .iter()
        .enumerate()
        .map(|(i, item)| format!("[{i}] {}", describe_item(item, mode)))
        .collect();
    lines.join("\n")
}

fn describe_item(item: &Value, mode: UpdateMode) -> String {
    let Some(map) = item.as_object() else {
        return item.to_string();
    };
    let support = map
        .get("support_count")
        .and_then(loose::integer)
        .unwrap_or(1);
    match mode {
        UpdateMode::Patch => {
            let op = word(map, "op", "append");
            format!(
                "op={op} support={support}{}",
                quoted(map, &["target", "content"])
            )
        }
        UpdateMode::Suggestions => {
            let (kind, priority) = (word(map, "type", "?"), word(map, "priority_hint", "?"));
            let texts = quoted(map, &["title", "instruction"]);
            format!("type={kind} priority={priority} support={support}{texts}")
        }
        UpdateMode::FullRewrite => {
            format!(
                "support={support}{}",
                quoted(map, &["title", "change_summary", "new_skill"])
            )
        }
    }
}

/// Returns a field that should be one word, quoted if it is not.
fn word(map: &Map<String, Value>, key: &str, default: &str) -> String {
    let text = loose::field(map, key);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.as_str() {
        "" => default.to_owned(),
        _ if text.chars().all(is_word) => text,
        _ => Value::String(text).to_string(),
    }
}

fn quoted(map: &Map<String, Value>, keys: &[&str]) -> String {
    let mut text = String::new();
    for key in keys {
        if let Some(value) = map.get(*key).filter(|value| loose::is_truthy(value)) {
            text.push_str(&format!(" {key}={value}"));
        }
    }
    text
}
