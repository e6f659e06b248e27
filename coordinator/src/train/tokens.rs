//! Tokens by stage.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use skillopt_core::job::Usage;

/// Adds up tokens by stage label. Sums do not depend on the order in which answers come.
#[derive(Debug, Default)]
pub(super) struct Tokens(RefCell<BTreeMap<String, Usage>>);

impl Tokens {
    pub(super) fn add(&self, stage: &str, usage: Usage) {
        if usage != Usage::default() {
            *self.0.borrow_mut().entry(stage.to_owned()).or_default() += usage;
        }
    }

    pub(super) fn join(&self, other: &Self) {
        for (stage, usage) in other.0.borrow().iter() {
            self.add(stage, *usage);
        }
    }

    /// Returns the record of one step (training spec 2.10).
    pub(super) fn of_step(&self) -> Value {
        let stages = self.0.borrow();
        stages
            .iter()
            .map(|(stage, usage)| (stage.clone(), json!(usage)))
            .collect::<Map<_, _>>()
            .into()
    }

    /// Returns the summary of the run (training spec 8.2).
    pub(super) fn summary(&self) -> Value {
        let with_total = |usage: &Usage| {
            let total = usage.prompt_tokens + usage.completion_tokens;
            let mut record = json!(usage);
            record["total_tokens"] = total.into();
            record
        };
        let stages = self.0.borrow();
        let mut total = Usage::default();
        let mut map = Map::new();
        for (stage, usage) in stages.iter() {
            total += *usage;
            map.insert(stage.clone(), with_total(usage));
        }
        map.insert("_total".to_owned(), with_total(&total));
        map.into()
    }
}
