//! Whole training runs against the toy environment of the vectors; see the parent module.
//!
//! A case runs through the real training loop, configuration, run folder and log; only the
//! answers come from a script ([`toy`]). What it left behind is compared in [`compare`], against
//! the case's expectation after the required differences ([`differences`]).

mod compare;
mod differences;
mod run;
mod toy;

use serde_json::Value;

use super::Outcome;

/// Runs a case. The rules of comparison are this file's own (README of the vectors), so a case
/// that holds gives back its expectation, and one that does not is an error that lists what
/// differs.
pub(super) fn call(function: &str, case: &Value) -> Outcome {
    if function != "train" {
        return Err(format!("no counterpart for `{function}`"));
    }
    let input = &case["input"];
    let seen = run::run(input)?;
    let wanted = differences::wanted(input, &case["expected"])?;
    let found = compare::compare(&wanted, &seen);
    if found.is_empty() {
        Ok(case["expected"].clone())
    } else {
        Err(found.join("; "))
    }
}
