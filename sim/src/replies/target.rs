//! The target answers a task; the rules and traps of its skill decide how well.

use super::Call;
use crate::keys;
use crate::markers::Markers;
use crate::settings::Params;
use crate::unit::unit;
use crate::world::{Item, last_item};

/// The prose before the answer.
const PROSE: &str = "I looked the record up in the passages and read its code phrase.";
/// What a long reply is padded with.
const PADDING: &str = " The passages were read once more to be sure of the phrase.";
/// A wrong answer that is not even near.
const UNKNOWN: &str = "unknown";

/// Returns the key and the answer.
pub(super) fn reply(params: &Params, call: &Call<'_>) -> (String, String) {
    let skill = Markers::of(call.sys);
    let fp = skill.fingerprint();
    // Only a caller that names the stage itself can be without an item.
    let Some(item) = last_item(call.user) else {
        return (keys::target(call, "", &fp), wrap(params, UNKNOWN));
    };
    let luck = Luck {
        seed: params.seed,
        model: call.model,
        id: item.id,
        fp: &fp,
    };
    let answer = if luck.stays_or_changes(params.sticky) < chance(params, &skill, item.family) {
        item.gold
    } else {
        wrong_answer(params, &luck, &item)
    };
    (keys::target(call, item.id, &fp), wrap(params, answer))
}

/// Returns the chance of a right answer.
fn chance(params: &Params, skill: &Markers<'_>, family: &str) -> f64 {
    let base = if skill.traps.contains(family) {
        params.p_trap
    } else if skill.rules.contains(family) {
        params.p_rule
    } else {
        params.p_none
    };
    (base - params.crowd * skill.traps.len() as f64).max(0.0)
}

/// The draws of one item with one skill.
struct Luck<'a> {
    seed: u64,
    model: &'a str,
    id: &'a str,
    fp: &'a str,
}

impl Luck<'_> {
    fn draw(&self, name: &str) -> f64 {
        unit(self.seed, &[name, self.model, self.id, self.fp])
    }

    /// Returns a draw that, for a share of the items, does not depend on the skill.
    fn stays_or_changes(&self, sticky: f64) -> f64 {
        if self.draw("stick") < sticky {
            unit(self.seed, &["u", self.model, self.id])
        } else {
            self.draw("u")
        }
    }
}

/// Returns the gold without its last word, or nothing like it.
fn wrong_answer<'a>(params: &Params, luck: &Luck<'_>, item: &Item<'a>) -> &'a str {
    if luck.draw("near") >= params.p_near {
        return UNKNOWN;
    }
    item.gold
        .trim_end()
        .rsplit_once(' ')
        .map_or(UNKNOWN, |(near, _)| near)
}

fn wrap(params: &Params, answer: &str) -> String {
    let mut text = String::from(PROSE);
    let tail = "\n<answer></answer>".len() + answer.chars().count();
    // Prose and padding are ASCII, so that bytes are characters.
    while text.len() + tail < params.reply_chars {
        let missing = params.reply_chars - text.len() - tail;
        text.push_str(PADDING.get(..missing).unwrap_or(PADDING));
    }
    text.push_str("\n<answer>");
    text.push_str(answer);
    text.push_str("</answer>");
    text
}
