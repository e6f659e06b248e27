//! The analysts: missing rules are found in failures, notes in successes.

use serde_json::{Value, json};

use super::proposal::{Change, patch};
use super::{Call, number_after};
use crate::keys;
use crate::markers::{Kind, Markers};
use crate::settings::Params;
use crate::stage::{Mode, Stage, has};
use crate::unit::{pick, unit};
use crate::world::{family_counts, items_of};

/// Most edits of a call that names no budget.
const BUDGET: usize = 4;

/// Returns the key and the answer of the error analyst.
pub(super) fn error(params: &Params, call: &Call<'_>) -> (String, String) {
    let items = items_of(call.user);
    let known = Markers::of(call.user);
    let counts = family_counts(&items);
    let key = keys::items(Stage::AnalystError, call, &items);

    let mut changes = repairs(params, &counts, &known);
    changes.extend(harm(params, &key, &known));
    changes.truncate(number_after(call.user, "L").unwrap_or(BUDGET));

    let reasoning = "Each family needs its own rule, and no line that spoils its answers.";
    let mut answer = json!({
        "batch_size": items.len(),
        "failure_summary": counts.iter().map(failure).collect::<Vec<_>>(),
        "patch": patch(Mode::of(call.sys), reasoning, &changes, &known),
    });
    if has(call.sys, "appendix_notes") {
        answer["appendix_notes"] = appendix_notes(&counts, &known);
    }
    (key, answer.to_string())
}

/// Returns what helps: traps out, then the rules that are missing.
fn repairs<'a>(
    params: &Params,
    counts: &[(&'a str, usize)],
    known: &Markers<'_>,
) -> Vec<Change<'a>> {
    let families = || counts.iter().map(|(family, _)| *family);
    let traps = families()
        .filter(|family| known.traps.contains(family))
        .map(|family| Change::remove(Kind::Trap, family));
    let rules = families()
        .filter(|family| !known.rules.contains(family))
        .map(|family| Change::add(Kind::Rule, family));
    traps.chain(rules.take(params.rules_per_call)).collect()
}

/// Returns now and then something that hurts.
fn harm<'a>(params: &Params, key: &str, known: &Markers<'a>) -> Option<Change<'a>> {
    let draw = |name| unit(params.seed, &[name, key]);
    if known.rules.is_empty() || draw("harm") >= params.p_harm {
        return None;
    }
    let index = pick(params.seed, &["harmfam", key], known.rules.len());
    let family = known.rules.iter().nth(index)?;
    Some(if draw("harmkind") < 0.5 {
        Change::add(Kind::Trap, family)
    } else {
        Change::remove(Kind::Rule, family)
    })
}

/// Describes the failures of a family, without a marker.
fn failure((family, count): &(&str, usize)) -> Value {
    json!({
        "failure_type": "rule_missing",
        "count": count,
        "description": format!("Questions of family {family} were not answered with the phrase of \
                                the record."),
    })
}

/// Returns one reminder, for the most frequent family that has its rule already.
fn appendix_notes(counts: &[(&str, usize)], known: &Markers<'_>) -> Value {
    counts
        .iter()
        .find(|(family, _)| known.rules.contains(family))
        .map_or_else(
            || json!([]),
            |(family, _)| json!([format!("Apply the rule of family {family} each time.")]),
        )
}

/// Returns the key and the answer of the success analyst.
pub(super) fn success(params: &Params, call: &Call<'_>) -> (String, String) {
    let items = items_of(call.user);
    let known = Markers::of(call.user);
    let key = keys::items(Stage::AnalystSuccess, call, &items);

    let tag = format!("{:02x}", pick(params.seed, &["notetag", &key], 256));
    let is_due = unit(params.seed, &["note", &key]) < params.p_note;
    let note = (is_due && !known.notes.contains(tag.as_str()))
        .then(|| Change::add(Kind::Note, tag.as_str()));

    let answer = json!({
        "batch_size": items.len(),
        "success_patterns": family_counts(&items)
            .iter()
            .map(|(family, n)| format!("{n} answered as the record says in family {family}"))
            .collect::<Vec<_>>(),
        "patch": patch(
            Mode::of(call.sys),
            "What works is kept; a note may help the reader.",
            note.as_slice(),
            &known,
        ),
    });
    (key, answer.to_string())
}
