//! Compares what a run left with what its case wants, by the rules of the vectors' README.

use serde_json::{Map, Value};

use super::differences::Wanted;
use super::run::Seen;
use crate::parity::same;

/// Fields that our step records have and the vectors leave out or do not know.
const OURS_IN_STEPS: &[&str] = &["accumulation_batches", "tokens", "score_is_stale"];

/// Fields that hold free text or details of which a case names only some.
const PARTIAL_IN_STEPS: &[&str] = &["digest", "lr_decision"];

/// Returns everything that differs, in words.
pub(super) fn compare(wanted: &Wanted, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    steps(&wanted.left["steps"], &seen.left["steps"], &mut found);
    for name in ["summary", "best_skill", "skill_files"] {
        differ(name, &wanted.left[name], &seen.left[name], &mut found);
    }
    for name in ["slow_update", "meta_skill"] {
        epochs(name, &wanted.left[name], &seen.left[name], &mut found);
    }
    // The number of calls by stage and what each prompt contained; our loop asks in the
    // reference's order when answers come at once.
    if wanted.calls != seen.tally.calls {
        found.push(format!(
            "calls: got {:?}, wanted {:?}",
            seen.tally.calls, wanted.calls
        ));
    }
    for (split, most) in &wanted.evaluated {
        let n = seen.tally.evaluated.get(split).copied().unwrap_or_default();
        // Fewer are fine, if the answers were stored; none at all are not.
        if n > *most || n == 0 {
            found.push(format!(
                "{split}: {n} items evaluated, wanted at most {most}"
            ));
        }
    }
    for split in seen.tally.evaluated.keys() {
        if !wanted.evaluated.contains_key(split) {
            found.push(format!("{split}: items evaluated, wanted none"));
        }
    }
    found
}

fn steps(wanted: &Value, seen: &Value, found: &mut Vec<String>) {
    let (wanted, seen) = (list(wanted), list(seen));
    if wanted.len() != seen.len() {
        let (n, m) = (seen.len(), wanted.len());
        found.push(format!("{n} steps, wanted {m}"));
    }
    for (wanted, seen) in wanted.iter().zip(seen) {
        let name = format!("step {}", wanted["step"]);
        let empty = Map::new();
        let wanted = wanted.as_object().unwrap_or(&empty);
        let seen = seen.as_object().unwrap_or(&empty);
        for (key, value) in wanted {
            let got = seen.get(key).unwrap_or(&Value::Null);
            let partial = PARTIAL_IN_STEPS.contains(&key.as_str());
            if !seen.contains_key(key) || !same(value, got, partial) {
                found.push(format!("{name}: {key} is {got}, wanted {value}"));
            }
        }
        // A field that the reference does not write at such a step is wrong there.
        for key in seen.keys() {
            if !wanted.contains_key(key) && !OURS_IN_STEPS.contains(&key.as_str()) {
                found.push(format!("{name}: {key} is there, wanted none"));
            }
        }
    }
}

/// Compares the outcomes of each epoch; a case names only some keys of each.
fn epochs(name: &str, wanted: &Value, seen: &Value, found: &mut Vec<String>) {
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<String> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|e| e.0.clone())
            .collect();
        keys.sort();
        keys
    };
    if keys(wanted) != keys(seen) {
        let (got, want) = (keys(seen), keys(wanted));
        found.push(format!("{name}: epochs {got:?}, wanted {want:?}"));
    }
    for (epoch, wanted) in wanted.as_object().into_iter().flatten() {
        differ(&format!("{name} {epoch}"), wanted, &seen[epoch], found);
    }
}

/// Compares the keys that `wanted` names.
fn differ(name: &str, wanted: &Value, seen: &Value, found: &mut Vec<String>) {
    match wanted.as_object() {
        Some(map) => {
            for (key, value) in map {
                let got = &seen[key];
                if !same(value, got, false) {
                    found.push(format!("{name}: {key} is {got}, wanted {value}"));
                }
            }
        }
        None if !same(wanted, seen, false) => {
            found.push(format!("{name} is {seen}, wanted {wanted}"));
        }
        None => {}
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
