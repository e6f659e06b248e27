//! A benchmark without Rust: a folder with `benchmark.yaml`, a prompt, items and a judge.
//!
//! Everything a rollout needs travels as the job's settings, so a worker needs no folder, and any
//! change of the prompt, the judge or its files is another job. See `docs/custom-benchmark.md`.

mod attached;
mod command;
pub mod definition;
mod folder;
mod judge;
mod keys;
mod program;
mod record;
mod rollout;
mod template;
mod work;

use std::collections::BTreeSet;

use async_trait::async_trait;
use skillopt_core::job::RolloutRecord;

use crate::contract::{AnalystPrompts, Benchmark, LoadArgs, Suite, Target, Task};
use crate::error::{LoadError, RolloutError};
use crate::splits::{Loaded, Part};

/// Version of what this program adds to the folder: message layout, built-in judges. The folder's
/// own content is in the settings.
const VERSION: &str = "custom-1";

/// The benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Custom;

#[async_trait]
impl Benchmark for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn load(&self, args: &LoadArgs) -> Result<Suite, LoadError> {
        let folder = folder::locate(args)?;
        let settings = folder::settings(&folder, args)?;
        let Loaded { splits, generated } = folder::items(&folder, &settings, args)?;
        let task_types: BTreeSet<String> = Part::ALL
            .iter()
            .flat_map(|part| splits.part(*part))
            .map(|item| record::task_type(&settings, &item.value))
            .collect();
        let mut categories = settings.definition.failure_categories.clone();
        if categories.is_empty() {
            let usual = [
                "rule_missing",
                "rule_wrong",
                "rule_ignored",
                "answer_format",
                "other",
            ];
            categories = usual.map(str::to_owned).to_vec();
        }
        Ok(Suite {
            title: settings.definition.name.clone(),
            splits,
            generated,
            settings: serde_json::to_value(&settings)
                .map_err(|e| LoadError::content(&folder, e.to_string()))?,
            task_types: task_types.into_iter().collect(),
            failure_categories: categories,
            analyst_prompts: AnalystPrompts::default(),
        })
    }

    fn keeps_answers(&self, settings: &serde_json::Value) -> bool {
        settings.pointer("/definition/scorer/command").is_some()
    }

    fn files(&self, task: Task<'_>) -> serde_json::Map<String, serde_json::Value> {
        rollout::files(task)
    }

    async fn rollout(
        &self,
        task: Task<'_>,
        target: &dyn Target,
    ) -> Result<RolloutRecord, RolloutError> {
        rollout::rollout(task, target).await
    }
}

#[cfg(test)]
mod tests;
