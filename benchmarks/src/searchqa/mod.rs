//! SearchQA: short answers to trivia clues from search snippets (benchmarks spec chapter 2).

mod materialize;
pub mod prompt;
mod rollout;
pub mod score;

use std::path::Path;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skillopt_core::job::RolloutRecord;

pub use materialize::materialize_searchqa;

use crate::contract::{AnalystPrompts, Benchmark, LoadArgs, Suite, Target, Task};
use crate::error::{LoadError, RolloutError};
use crate::splits::{self, Format, Loaded, Part};

const NAME: &str = "searchqa";
/// Prompts and scorer; see [`Benchmark::version`].
const VERSION: &str = "searchqa-1";

/// How its files are laid out.
pub const FORMAT: Format = Format {
    name: NAME,
    default_mode: "ratio",
    part_files: &["json", "jsonl"],
    raw_rows: splits::one_raw_file,
    raw_item: splits::keep_raw,
    part_item: splits::keep,
};

/// The benchmark.
#[derive(Clone, Copy, Debug)]
pub struct SearchQa;

#[async_trait]
impl Benchmark for SearchQa {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn load(&self, args: &LoadArgs) -> Result<Suite, LoadError> {
        check_folder(args)?;
        let Loaded { splits, generated } = splits::load(&FORMAT, args)?;
        let source = if args.split_dir.is_empty() {
            &args.data_path
        } else {
            &args.split_dir
        };
        for item in Part::ALL.iter().flat_map(|part| splits.part(*part)) {
            rollout::check(&item.value).map_err(|problem| {
                LoadError::content(Path::new(source), format!("item `{}`: {problem}", item.id))
            })?;
        }
        let failures = [
            "rule_missing",
            "rule_wrong",
            "rule_ignored",
            "answer_format",
            "other",
        ];
        Ok(Suite {
            title: NAME.to_owned(),
            splits,
            generated,
            settings: json!({
                "max_turns": args.max_turns.max(1),
                "max_completion_tokens": args.max_completion_tokens,
            }),
            task_types: vec!["qa".to_owned()],
            failure_categories: failures.map(str::to_owned).to_vec(),
            analyst_prompts: AnalystPrompts::default(),
        })
    }

    fn keeps_answers(&self, settings: &Value) -> bool {
        settings.get("max_turns").and_then(Value::as_u64) > Some(1)
    }

    fn files(&self, task: Task<'_>) -> Map<String, Value> {
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

/// Says where a split folder comes from that is not there; the published data is not shipped.
fn check_folder(args: &LoadArgs) -> Result<(), LoadError> {
    let folder = args.split_dir.trim();
    let is_wanted = args.split_mode.trim().eq_ignore_ascii_case("split_dir") && !folder.is_empty();
    if !is_wanted || Path::new(folder).exists() {
        return Ok(());
    }
    Err(LoadError::content(
        Path::new(folder),
        "there is no such folder; `skillopt materialize-searchqa` makes one from published id lists, \
         and `configs/searchqa/mini.yaml` uses the small one that is shipped, `data/searchqa/split`",
    ))
}

/// Says why a whole batch is worthless: every row has `agent_ok` false (benchmarks spec 2.5). A
/// row without `agent_ok` counts as an answer.
#[must_use]
pub fn systemic_failure(rows: &[Value]) -> Option<String> {
    let failed = |row: &Value| row.get("agent_ok") == Some(&Value::Bool(false));
    if rows.is_empty() || !rows.iter().all(failed) {
        return None;
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        let reason = row
            .get("fail_reason")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((reason, 1)),
        }
    }
    // The first of several equally common reasons.
    let commonest = counts.iter().rev().max_by_key(|(_, count)| *count);
    let reason = commonest
        .map(|(reason, _)| *reason)
        .filter(|reason| !reason.is_empty());
    Some(format!(
        "all {} rollouts of the batch failed; the commonest cause: {}",
        rows.len(),
        reason.unwrap_or("not given")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_split_folder_says_where_to_get_one() {
        let load = |split_dir: &str| {
            SearchQa.load(&LoadArgs {
                split_mode: "split_dir".to_owned(),
                split_dir: split_dir.to_owned(),
                ..LoadArgs::default()
            })
        };
        let text = load("no/such").unwrap_err().to_string();
        for want in ["no/such", "skillopt materialize-searchqa", "mini.yaml"] {
            assert!(text.contains(want), "{text}");
        }
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/searchqa/split");
        let suite = load(&shipped.display().to_string()).unwrap();
        assert_eq!(suite.splits.train.len(), 8);
    }
}
