//! Calls that look back over an epoch: guidance for the target, memory for the optimizer.

use serde_json::json;

use super::Call;
use crate::keys;
use crate::markers::{Kind, Markers};
use crate::settings::Params;
use crate::stage::Stage;
use crate::unit::unit;
use crate::world::{family_counts, items_of};

/// Chance that the guidance brings a missing rule.
const RULE_CHANCE: f64 = 0.8;

/// Returns the key and the guidance: a neutral sentence and mostly one missing rule.
pub(super) fn slow_update(params: &Params, call: &Call<'_>) -> (String, String) {
    let items = items_of(call.user);
    let known = Markers::of(call.user);
    let key = keys::items(Stage::SlowUpdate, call, &items);

    let mut content = String::from("Read the whole record before answering.");
    let missing = family_counts(&items)
        .into_iter()
        .find(|(family, _)| !known.rules.contains(family));
    if let Some((family, _)) = missing
        && unit(params.seed, &["slowrule", &key]) < RULE_CHANCE
    {
        content.push('\n');
        content.push_str(&Kind::Rule.line(family));
    }
    let answer = json!({
        "reasoning": "What stayed wrong over the epoch needs a lasting reminder.",
        "slow_update_content": content,
    });
    (key, answer.to_string())
}

/// Returns the key and the memory. It is quoted in later analyst calls, so it holds no marker.
pub(super) fn meta_skill(call: &Call<'_>) -> (String, String) {
    let items = items_of(call.user);
    let key = keys::items(Stage::MetaSkill, call, &items);
    let answer = json!({
        "reasoning": "Both skills were compared on the same items.",
        "meta_skill_content": format!(
            "The last comparison covered {} items. One rule for each family helped most; edits \
             that take rules away hurt.",
            items.len(),
        ),
    });
    (key, answer.to_string())
}
