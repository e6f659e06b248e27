//! A run as a trajectory: what was said and done, short enough for analysts to read.

use serde_json::Value;

use crate::relay::Record;

mod bound;
mod entry;
mod failure;
mod outputs;
#[cfg(test)]
mod tests;

use failure::tells_of_failure;
use outputs::Outputs;

pub(crate) use bound::bounded;
pub(crate) use entry::Entry;

/// Returns the entries of a run, the agent's last words left out: they stand by themselves. All of
/// them together are bounded; of a longer run some are left out, which notes in their places tell.
#[must_use]
pub fn entries(record: &Record) -> Vec<Value> {
    let answered: Vec<_> = record
        .exchanges
        .iter()
        .filter(|exchange| exchange.status == 200)
        .collect();
    let mut outputs = Outputs::of(record);
    let mut entries = Vec::new();
    for (at, exchange) in answered.iter().enumerate() {
        let is_last = at + 1 == answered.len();
        let text = exchange.said.text.trim();
        let are_last_words = is_last && exchange.said.calls.is_empty();
        if !text.is_empty() && !are_last_words {
            entries.push(Entry::message(text));
        }
        for (name, arguments) in &exchange.said.calls {
            let output = outputs.take(name, arguments);
            let is_failure = output.is_error || tells_of_failure(&output.text);
            entries.push(Entry::call(name, arguments, &output.text, is_failure));
        }
    }
    bounded(entries)
}
