//! What an analyst proposes, and how the update modes write it down.

use serde_json::{Value, json};

use crate::markers::{Kind, Markers};
use crate::stage::Mode;

/// One line added to or removed from a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<'a> {
    /// Whether the line is added.
    pub(super) is_add: bool,
    /// Kind of the line.
    pub(super) kind: Kind,
    /// Family or tag of the line.
    pub(super) name: &'a str,
}

impl<'a> Change<'a> {
    /// Adds the line of a marker.
    pub(super) const fn add(kind: Kind, name: &'a str) -> Self {
        Self {
            is_add: true,
            kind,
            name,
        }
    }

    /// Removes the line of a marker.
    pub(super) const fn remove(kind: Kind, name: &'a str) -> Self {
        Self {
            is_add: false,
            kind,
            name,
        }
    }

    fn edit(&self) -> Value {
        let line = self.kind.line(self.name);
        if self.is_add {
            json!({"op": "append", "content": line})
        } else {
            json!({"op": "delete", "target": line})
        }
    }

    fn suggestion(&self) -> Value {
        let (kind, verb) = if self.is_add {
            ("add_rule", "Add")
        } else {
            ("remove_rule", "Remove")
        };
        let what = self.kind.as_str().to_lowercase();
        json!({
            "type": kind,
            "title": format!("{verb} the {what} for {}", self.name),
            "motivation": format!("The shown answers speak for it: {}.", self.name),
            "instruction": self.kind.line(self.name),
            "priority_hint": "high",
        })
    }
}

/// Returns the patch that makes `changes`: `{reasoning, <payload key>: […]}`. In full rewrite the
/// changes are applied to the markers in `known`, and the one candidate lists the result.
pub(super) fn patch(
    mode: Mode,
    reasoning: &str,
    changes: &[Change<'_>],
    known: &Markers<'_>,
) -> Value {
    let payload: Vec<Value> = match mode {
        Mode::Patch => changes.iter().map(Change::edit).collect(),
        Mode::Suggestions => changes.iter().map(Change::suggestion).collect(),
        Mode::FullRewrite if changes.is_empty() => Vec::new(),
        Mode::FullRewrite => vec![candidate(&applied(changes, known))],
    };
    json!({"reasoning": reasoning, mode.payload_key(): payload})
}

fn applied<'a>(changes: &[Change<'a>], known: &Markers<'a>) -> Markers<'a> {
    let mut markers = known.clone();
    for change in changes {
        if change.is_add {
            markers.insert(change.kind, change.name);
        } else {
            markers.remove(change.kind, change.name);
        }
    }
    markers
}

/// Returns a skill candidate whose document lists `markers`.
pub(super) fn candidate(markers: &Markers<'_>) -> Value {
    json!({
        "title": "Rules for records",
        "change_summary": ["List the rules that the shown answers speak for."],
        "new_skill": markers.document(),
    })
}
