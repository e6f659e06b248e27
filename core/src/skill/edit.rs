//! Applying a model's edits to the document.
//!
//! An edit is the JSON object the model wrote: `op`, `target`, `content`, and bookkeeping fields
//! that do not matter here. Edits never touch a protected region and never bring markers in.
//! Source: training spec, 2.13, 3.2, 3.3 with D8–D15.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{front_matter, regions};
use crate::text;

/// Longest `target` and `content_preview` of a report, in code points.
const PREVIEW_LEN: usize = 200;

/// What became of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the names are the documented wire format and say it all"
)]
pub enum Status {
    AppliedAppend,
    AppliedAppendBeforeProtectedRegion,
    AppliedInsertAfter,
    AppliedInsertAfterFallbackAppend,
    AppliedInsertAfterFallbackBeforeProtectedRegion,
    AppliedReplace,
    AppliedDelete,
    SkippedProtectedRegion,
    SkippedReplaceMissingTarget,
    SkippedReplaceTargetNotFound,
    SkippedDeleteMissingTarget,
    SkippedDeleteTargetNotFound,
    SkippedEmptyContent,
    SkippedUnknownOp,
    Error,
}

impl Status {
    /// Returns whether the edit was carried out (even if it left the text as it was).
    #[must_use]
    pub const fn is_applied(self) -> bool {
        matches!(
            self,
            Self::AppliedAppend
                | Self::AppliedAppendBeforeProtectedRegion
                | Self::AppliedInsertAfter
                | Self::AppliedInsertAfterFallbackAppend
                | Self::AppliedInsertAfterFallbackBeforeProtectedRegion
                | Self::AppliedReplace
                | Self::AppliedDelete
        )
    }
}

/// The record of one edit (training spec 2.13).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// 1-based place of the edit in its patch.
    pub index: usize,
    /// The op as the model wrote it; an empty text if it wrote none.
    pub op: Value,
    /// First 200 code points of the target.
    pub target: String,
    /// First 200 code points of the cleaned content.
    pub content_preview: String,
    /// What became of it.
    pub status: Status,
    /// Why, if `status` is [`Status::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Applies one edit and returns the new text with a report of index 1.
///
/// The text is unchanged unless the status [is applied](Status::is_applied).
#[must_use]
pub fn apply_edit(skill: &str, edit: &Value) -> (String, Report) {
    apply_one(skill, edit, 1)
}

/// Applies edits one after another, each to the text the one before left. A failing edit is
/// reported and the rest goes on.
#[must_use]
pub fn apply_patch(skill: &str, patch_edits: &[Value]) -> (String, Vec<Report>) {
    let mut skill = skill.to_owned();
    let reports = patch_edits
        .iter()
        .enumerate()
        .map(|(i, edit)| {
            let (next, report) = apply_one(&skill, edit, i + 1);
            skill = next;
            report
        })
        .collect();
    (skill, reports)
}

fn apply_one(skill: &str, edit: &Value, index: usize) -> (String, Report) {
    let edit = match Edit::read(edit) {
        Ok(edit) => edit,
        Err(error) => return (skill.to_owned(), failed(index, error)),
    };
    let (next, status) = match edit.apply(skill) {
        Ok((next, _)) if breaks_protection(skill, &next) => {
            (skill.to_owned(), Status::SkippedProtectedRegion)
        }
        Ok(applied) => applied,
        Err(skipped) => (skill.to_owned(), skipped),
    };
    let report = Report {
        index,
        op: edit.op,
        target: text::head(edit.target, PREVIEW_LEN).to_owned(),
        content_preview: text::head(&edit.content, PREVIEW_LEN).to_owned(),
        status,
        error: None,
    };
    (next, report)
}

/// Returns whether an edit of body text changed what is protected after all: text around a
/// removed passage can close up to a marker, and a new first line can start front matter.
fn breaks_protection(before: &str, after: &str) -> bool {
    let grown = regions::marker_counts(before)
        .into_iter()
        .zip(regions::marker_counts(after))
        .any(|(before, after)| after > before);
    let front = |skill| {
        let (front, _) = front_matter::split(skill);
        text::trim_end(front)
    };
    grown || front(before) != front(after)
}

fn failed(index: usize, error: String) -> Report {
    Report {
        index,
        op: Value::String(String::new()),
        target: String::new(),
        content_preview: String::new(),
        status: Status::Error,
        error: Some(error),
    }
}

/// A new text and how it came about, or why the edit was skipped.
type Applied = Result<(String, Status), Status>;

/// An edit with its content cleaned: trimmed, then without marker strings.
struct Edit<'a> {
    op: Value,
    target: &'a str,
    content: String,
}

impl<'a> Edit<'a> {
    fn read(edit: &'a Value) -> Result<Self, String> {
        let Value::Object(fields) = edit else {
            return Err(format!(
                "an edit must be a JSON object, this one is {}",
                kind_of(edit)
            ));
        };
        let content = text_field(fields, "content")?;
        Ok(Self {
            op: fields.get("op").cloned().unwrap_or_else(|| "".into()),
            target: text_field(fields, "target")?,
            content: regions::without_markers(text::trim(content)),
        })
    }

    fn apply(&self, skill: &str) -> Applied {
        let found = Some(self.target)
            .filter(|target| !target.is_empty())
            .and_then(|target| skill.find(target))
            .map(|at| at..at + self.target.len());
        let protected = regions::protected(skill);
        if let Some(found) = &found
            && protected.iter().any(|region| region.contains(&found.start))
        {
            return Err(Status::SkippedProtectedRegion);
        }
        let overlaps = found.as_ref().is_some_and(|found| {
            protected
                .iter()
                .any(|region| found.start < region.end && region.start < found.end)
        });
        match self.op.as_str() {
            Some("append" | "insert_after") if self.content.is_empty() => {
                Err(Status::SkippedEmptyContent)
            }
            Some("append") => Ok(self.append(
                skill,
                &protected,
                Status::AppliedAppend,
                Status::AppliedAppendBeforeProtectedRegion,
            )),
            Some("insert_after") => Ok(match found {
                Some(found) => self.insert_after(skill, &found, &protected),
                None => self.append(
                    skill,
                    &protected,
                    Status::AppliedInsertAfterFallbackAppend,
                    Status::AppliedInsertAfterFallbackBeforeProtectedRegion,
                ),
            }),
            Some("replace" | "delete") if overlaps => Err(Status::SkippedProtectedRegion),
            Some("replace") => match found {
                Some(found) => Ok((splice(skill, found, &self.content), Status::AppliedReplace)),
                None if self.target.is_empty() => Err(Status::SkippedReplaceMissingTarget),
                None => Err(Status::SkippedReplaceTargetNotFound),
            },
            Some("delete") => match found {
                Some(found) => Ok((splice(skill, found, ""), Status::AppliedDelete)),
                None if self.target.is_empty() => Err(Status::SkippedDeleteMissingTarget),
                None => Err(Status::SkippedDeleteTargetNotFound),
            },
            _ => Err(Status::SkippedUnknownOp),
        }
    }

    /// Puts the content at the end of the body: in front of the first block, else at the end of
    /// the document.
    fn append(
        &self,
        skill: &str,
        protected: &[Range<usize>],
        at_end: Status,
        before_region: Status,
    ) -> (String, Status) {
        let front = front_matter::split(skill).0.len();
        // A marker in the front matter may open a block that reaches into the body.
        let floor = protected
            .iter()
            .find(|region| region.start < front)
            .map_or(0, |region| region.end);
        match regions::first_start(skill, floor) {
            Some(at) => (self.insert_before(skill, at, floor), before_region),
            None => (self.insert_before(skill, skill.len(), floor), at_end),
        }
    }

    /// Puts the content below the line in which the target ends, or right behind a target that
    /// brings its own line end (D14), but never into a region (D15).
    fn insert_after(
        &self,
        skill: &str,
        found: &Range<usize>,
        protected: &[Range<usize>],
    ) -> (String, Status) {
        let at = if self.target.ends_with('\n') {
            found.end
        } else {
            skill[found.end..]
                .find('\n')
                .map_or(skill.len(), |line_end| found.end + line_end + 1)
        };
        let inside = protected
            .iter()
            .find(|region| region.start < at && at < region.end);
        let Some(region) = inside else {
            let text = format!("\n{}\n", self.content);
            return (splice(skill, at..at, &text), Status::AppliedInsertAfter);
        };
        // Trimming what stands before must stop at whatever protected part ends there.
        let floor = protected
            .iter()
            .map(|other| other.end)
            .filter(|end| *end <= region.start)
            .max()
            .unwrap_or(0);
        (
            self.insert_before(skill, region.start, floor),
            Status::AppliedInsertAfterFallbackBeforeProtectedRegion,
        )
    }

    /// Puts the content between the text before `at`, right-trimmed down to `floor` at most, and
    /// the rest, with blank lines between, but none at the start of the body (D13).
    fn insert_before(&self, skill: &str, at: usize, floor: usize) -> String {
        let (kept, rest) = skill.split_at(at);
        let kept = &kept[..floor.max(text::trim_end(kept).len())];
        let gap = if text::is_blank(front_matter::split(kept).1) {
            if kept.is_empty() || kept.ends_with('\n') {
                ""
            } else {
                "\n"
            }
        } else {
            "\n\n"
        };
        let line_end = if rest.is_empty() { "\n" } else { "\n\n" };
        format!("{kept}{gap}{}{line_end}{rest}", self.content)
    }
}

fn splice(skill: &str, range: Range<usize>, text: &str) -> String {
    format!("{}{text}{}", &skill[..range.start], &skill[range.end..])
}

/// Returns a text field; an absent or null one is empty (D12).
fn text_field<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!(
            "`{name}` of an edit must be text, this one is {}",
            kind_of(other)
        )),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
