//! Runs one case and reads back what it left in its run folder.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use skillopt_benchmarks::{Item, Splits};
use skillopt_config::{Context, Flat, Origin, RunConfig};
use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::log::Log;
use skillopt_coordinator::progress::Watcher;
use skillopt_coordinator::sample::Samples;
use skillopt_coordinator::timings::Timings;
use skillopt_coordinator::train::{self, Plan};
use skillopt_core::skill::Folder;
use skillopt_core::stages::prompts;
use skillopt_queue::{MemoryStore, RunId};

use super::toy::{Tally, Toy};

/// What a run did.
pub(super) struct Seen {
    /// In the shape of a case's `expected`, as far as it is compared.
    pub(super) left: Value,
    pub(super) tally: Tally,
}

/// Runs a case's input to its end.
pub(super) fn run(input: &Value) -> Result<Seen, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let dir = tempfile::tempdir().map_err(|e| text(&e))?;
    let folder = RunFolder::new(dir.path());
    let toy = Toy::new(&input["splits"], &input["optimizer_script"]);
    let plan = plan(input)?;
    let config = input["config"].as_object().cloned().unwrap_or_default();
    let log = Log::new(
        Arc::new(MemoryStore::new()),
        RunId::new("case"),
        Watcher::silent(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|e| text(&e))?;
    let timings = Timings::default();
    runtime
        .block_on(train::train(&plan, &config, &toy, &folder, &log, &timings))
        .map_err(|e| format!("the run stopped: {e}"))?;
    Ok(Seen {
        left: read_back(dir.path())?,
        tally: toy.tally(),
    })
}

/// The configuration goes through the program's own reading, with what the vectors mean by their
/// trainer defaults: those of the program, and each scripted answer is used once.
fn plan(input: &Value) -> Result<Plan, String> {
    let mut keys = input["config"].as_object().cloned().unwrap_or_default();
    keys.insert("reask_unusable".to_owned(), Value::Bool(false));
    let flat = Flat::from_json(&keys, &Origin::Default);
    let (config, _) = RunConfig::resolve(&flat, &Context::BARE).map_err(|e| e.to_string())?;
    let part = |name: &str| -> Result<Vec<Item>, String> {
        let items = input["splits"][name].as_array().into_iter().flatten();
        items
            .enumerate()
            .map(|(i, v)| Item::new(v.clone(), Path::new(name), i).map_err(|e| e.to_string()))
            .collect()
    };
    let samples = Samples::new(Splits {
        train: part("train")?,
        val: part("val")?,
        test: part("test")?,
    });
    let initial = Folder::of_document(input["skill_init"].as_str().unwrap_or_default());
    Plan::new(&config, samples, initial, prompts::Set::default()).map_err(|e| e.to_string())
}

fn read_back(root: &Path) -> Result<Value, String> {
    let mut steps = json(&root.join("history.json"))?;
    for step in steps.as_array_mut().into_iter().flatten() {
        let number = step["step"].as_u64().unwrap_or_default();
        let path = root.join(format!("steps/step_{number:04}/trajectory_digest.json"));
        if path.exists() {
            step["digest"] = json(&path)?;
        }
    }
    let mut skills = Map::new();
    for (name, path) in entries(&root.join("skills")) {
        let document = read(&path)?;
        skills.insert(name, Folder::of_document(document).hash_short().into());
    }
    Ok(json!({
        "steps": steps,
        "summary": json(&root.join("summary.json"))?,
        "slow_update": by_epoch(&root.join("slow_update"), "slow_result.json")?,
        "meta_skill": by_epoch(&root.join("meta_skill"), "meta_skill_result.json")?,
        "best_skill": read(&root.join("best_skill.md"))?,
        "skill_files": skills,
    }))
}

/// Reads `epoch_NN/<file>` under the epoch's plain number, where there is such a file.
fn by_epoch(dir: &Path, file: &str) -> Result<Value, String> {
    let mut map = Map::new();
    for (name, path) in entries(dir) {
        let path = path.join(file);
        if path.exists() {
            let epoch = name.trim_start_matches("epoch_").trim_start_matches('0');
            map.insert(epoch.to_owned(), json(&path)?);
        }
    }
    Ok(map.into())
}

fn entries(dir: &Path) -> Vec<(String, std::path::PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.path()))
        .collect();
    entries.sort();
    entries
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn json(path: &Path) -> Result<Value, String> {
    serde_json::from_str(&read(path)?).map_err(|e| format!("{}: {e}", path.display()))
}
