//! Rewriting the whole skill from suggestions.

use serde_json::json;

use super::Call;
use crate::keys;
use crate::markers::Markers;

/// Bounds of the block that the longitudinal guidance stands in.
const SLOW_START: &str = "<!-- SLOW_UPDATE_START -->";
const SLOW_END: &str = "<!-- SLOW_UPDATE_END -->";

/// Returns the key and the new document: a line for each known marker, and the guidance as it was.
pub(super) fn reply(call: &Call<'_>) -> (String, String) {
    let mut skill = Markers::of(call.user).document();
    if let Some(block) = slow_block(call.user) {
        skill.push('\n');
        skill.push_str(block);
        skill.push('\n');
    }
    let answer = json!({
        "reasoning": "Every suggestion was taken over, one line each.",
        "change_summary": ["List all rules once, in order."],
        "new_skill": skill,
    });
    (keys::rewrite(call), answer.to_string())
}

fn slow_block(user: &str) -> Option<&str> {
    let start = user.find(SLOW_START)?;
    let len = user.get(start..)?.find(SLOW_END)? + SLOW_END.len();
    user.get(start..start + len)
}
