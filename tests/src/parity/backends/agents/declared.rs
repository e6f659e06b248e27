//! Cases of benchmarks that are a later part, as folders without Rust: a run of the benchmark itself is
//! refused before anything is spent, and what its case says of the agent holds for a benchmark that
//! somebody declares with the same task, files and answer.
//!
//! Where we differ on purpose:
//! - pictures, the list of them and folders of documents are copies among `inputs`: nothing of the
//!   machine is linked, and its paths are told to nobody;
//! - fields of the row that only the benchmark itself knows (`predicted_label`) are its own part;
//! - a declared benchmark has one turn, and the agent's own budget in it: whole runs are not repeated
//!   because an answer has no tags (`right` of the turn budget), so its row is that of the first run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Map, Value, json};
use skillopt_benchmarks::{LoadArgs, Suite, Task, registry};
use skillopt_config::{Context, Flat, Origin, RunConfig};

use super::benchmark::{self, MODEL, Slot};
use super::call;
use super::fake::{Fake, Seen};
use super::rig::{self, Rig};
use super::text;

/// Returns whether a case is of a benchmark that is a later part.
pub(super) fn is_later(case: &Value) -> bool {
    registry::find(text(&case["input"]["benchmark"])).is_err()
}

/// Runs one case.
pub(super) fn run(case: &Value) -> Result<(), String> {
    refused(text(&case["input"]["benchmark"]), case)?;
    rig::block_on(judge(case))
}

/// Checks that a run of a benchmark that is not there is refused.
fn refused(name: &str, case: &Value) -> Result<(), String> {
    let origin = Origin::File {
        path: "case.yaml".into(),
        line: 1,
        column: 1,
    };
    let keys = json!({"env": name, "target_backend": case["input"]["target_backend"]});
    let none = Map::new();
    let flat = Flat::from_json(keys.as_object().unwrap_or(&none), &origin);
    let names = registry::names();
    let context = Context {
        benchmarks: Some(&names),
        env: &|_| None,
    };
    match RunConfig::resolve(&flat, &context) {
        Err(refused) if refused.to_string().contains("cannot run it yet") => Ok(()),
        Err(refused) => Err(format!("refused, but not for the benchmark: {refused}")),
        Ok(_) => Err(format!("`{name}` is accepted, and is not there")),
    }
}

async fn judge(case: &Value) -> Result<(), String> {
    let rig = Rig::start().await?;
    let fake = Fake::new().map_err(|e| e.to_string())?;
    let backend = text(&case["input"]["target_backend"]);
    let (setup, agent) = benchmark::agent(&rig, &fake, backend)?;
    let invocation = &case["expected_request"]["invocations"][0];
    let script = case["response"]["script"].as_array();
    let slot = Slot {
        agent,
        backend,
        fake: &fake,
        script: script.map_or(&[][..], Vec::as_slice),
        seconds: invocation["timeout_s"].as_f64().ok_or("no limit of time")?,
        done: Mutex::new(Vec::new()),
    };
    drop(setup);
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let suite = declare(case, folder.path())?;
    let skill = text(&case["input"]["skill"]);
    let item = suite.splits.train.first().ok_or("no item")?;
    let task = Task {
        item: &item.value,
        skill,
        skill_files: &BTreeMap::new(),
        settings: &suite.settings,
    };
    let custom = registry::find("custom").map_err(|e| e.to_string())?;
    let record = custom
        .rollout(task, &slot)
        .await
        .map_err(|e| e.to_string())?;
    let seen = slot.lock();
    let [Some(seen)] = seen.as_slice() else {
        return Err(format!("{} runs, wanted 1", seen.len()));
    };
    // What it is told is the declared benchmark's own.
    let mut started = invocation.clone();
    if let Some(argv) = started["argv"].as_array_mut() {
        argv.retain(|word| !text(word).starts_with("{{slot:"));
    }
    let wanted = call::Wanted {
        backend,
        model: MODEL,
        data: &[],
    };
    call::compare(&wanted, &started, seen)?;
    benchmark::folder(invocation, seen, skill)?;
    files(case, seen)?;
    let expected = &case["expected_result"]["ok"];
    let mut keys = vec!["hard", "soft", "response"];
    if expected["agent_ok"] == true {
        keys.extend(["predicted_answer", "agent_ok", "n_turns"]);
    }
    for key in keys {
        if !crate::parity::same(&expected[key], &record.row[key], false) {
            let seen = &record.row[key];
            return Err(format!("`{key}` is {seen}, wanted {}", expected[key]));
        }
    }
    let asked = u64::try_from(rig.asked()).unwrap_or(0);
    if asked == 1 && record.usage.calls == 1 {
        Ok(())
    } else {
        Err(format!("{:?} of {asked} questions", record.usage))
    }
}

/// The declared folder: a task as a file, and what the case puts beside it.
fn declare(case: &Value, folder: &Path) -> Result<Suite, String> {
    let item = &case["input"]["item"];
    let gold = [
        &item["correct_choice"]["label"],
        &item["answers"][0],
        &item["ground_truth"],
    ];
    let gold = gold
        .into_iter()
        .find_map(Value::as_str)
        .ok_or("no answer")?;
    let mut inputs = json!({"task.md": "task.md"});
    let write = |name: &str, bytes: &str| -> Result<(), String> {
        std::fs::write(folder.join(name), bytes).map_err(|e| e.to_string())
    };
    write(
        "task.md",
        &format!("# Task\n\n{}\n", text(&item["question"])),
    )?;
    write(
        "prompt.md",
        "Do task {{id}}, which is `task.md`, and answer in answer tags.",
    )?;
    for picture in super::texts(&item["image_paths"]) {
        let name = picture.rsplit('/').next().unwrap_or_default();
        write(name, "PNG")?;
        inputs[format!("attachments/01_{name}")] = name.into();
        write(
            "list.md",
            &format!("# Files\n\n- `attachments/01_{name}`\n"),
        )?;
        inputs["ATTACHMENTS.md"] = "list.md".into();
    }
    for document in super::texts(&item["source_files"]) {
        write(document, "a document")?;
        inputs[format!("docs/root_1/{document}")] = document.into();
    }
    for part in ["train", "val", "test"] {
        let item = json!([{"id": format!("{}-{part}", text(&item["id"])), "answer": gold}]);
        write(&format!("{part}.json"), &item.to_string())?;
    }
    let definition = json!({
        "name": case["input"]["benchmark"],
        "items": {"train": "train.json", "val": "val.json", "test": "test.json"},
        "scorer": {"kind": "exact"}, "inputs": inputs,
    });
    write("benchmark.json", &definition.to_string())?;
    let mut args = LoadArgs {
        out_root: folder.join("out"),
        ..LoadArgs::default()
    };
    let place = folder.display().to_string();
    args.extra.insert("benchmark_dir".to_owned(), place.into());
    let custom = registry::find("custom").map_err(|e| e.to_string())?;
    custom.load(&args).map_err(|e| e.to_string())
}

/// Pictures and documents lie there as the case says, and nothing says from where.
fn files(case: &Value, seen: &Seen) -> Result<(), String> {
    let tree = &case["expected_request"]["invocations"][0]["workspace_tree"];
    for (path, content) in tree.as_object().into_iter().flatten() {
        let is_there = if let Some(folder) = path.strip_suffix('@') {
            // A link to a folder there.
            let documents = super::texts(&case["input"]["item"]["source_files"]);
            documents
                .iter()
                .all(|name| seen.file(&format!("{folder}/{name}")).is_some())
        } else if path.starts_with("attachments/") {
            seen.file(path).as_deref() == content.as_str()
        } else if path == "ATTACHMENTS.md" {
            let list = seen.file(path).unwrap_or_default();
            list.contains("`attachments/") && !list.contains("source:")
        } else {
            // The task and the skill are compared for every benchmark.
            true
        };
        if !is_there {
            return Err(format!(
                "`{path}` is not as it should be: {:?}",
                seen.work.keys()
            ));
        }
    }
    Ok(())
}
