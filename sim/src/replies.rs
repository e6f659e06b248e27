//! What the simulated model says, a file for each group of stages (chapter 5).
//!
//! Pure: a reply follows from the parameters and the call, so a retried, repeated or reordered
//! call gets the same one.

mod analyst;
mod merge;
mod pool;
mod proposal;
mod rewrite;
mod slow;
mod target;

use serde_json::{Value, json};

pub use crate::call::{Call, Reply};
use crate::keys;
use crate::settings::Params;
use crate::stage::Stage;

/// Returns the reply to `call`.
#[must_use]
pub fn reply(params: &Params, call: &Call<'_>) -> Reply {
    let stage = call
        .stage
        .unwrap_or_else(|| Stage::recognise(call.sys, call.user));
    let (key, text) = match stage {
        Stage::Target => target::reply(params, call),
        Stage::AnalystError => analyst::error(params, call),
        Stage::AnalystSuccess => analyst::success(params, call),
        Stage::MergeFailure | Stage::MergeSuccess | Stage::MergeFinal => merge::reply(stage, call),
        Stage::Ranking => pool::ranking(params, call),
        Stage::LrAutonomous => pool::lr_autonomous(call),
        Stage::SlowUpdate => slow::slow_update(params, call),
        Stage::MetaSkill => slow::meta_skill(call),
        Stage::Rewrite => rewrite::reply(call),
        Stage::AppendixConsolidate => appendix_consolidate(call),
        Stage::Other => (keys::text("other", call), "ok".to_owned()),
    };
    Reply { text, key, stage }
}

fn appendix_consolidate(call: &Call<'_>) -> (String, String) {
    let notes: Value = json!({"appendix_notes": ["Follow the listed rules before answering."]});
    (keys::text("appendix", call), notes.to_string())
}

/// Returns the first number that follows `name`, blanks, `=` and blanks: `budget = 4`.
fn number_after(text: &str, name: &str) -> Option<usize> {
    memchr::memmem::find_iter(text.as_bytes(), name).find_map(|start| {
        let rest = text.get(start + name.len()..)?.trim_start();
        let rest = rest.strip_prefix('=')?.trim_start();
        let end = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest.get(..end)?.parse().ok()
    })
}

#[cfg(test)]
mod contract_tests;
#[cfg(test)]
mod tests;
