//! What lies in the folder of a task.
//!
//! The skill lies where each CLI looks for skills, as the document that was trained: no headings are
//! put around it. Folders are copied, not linked, so that no agent can change what others read; no
//! path of the machine is told. A folder is new for each run, so that nothing has to be wiped.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skillopt_benchmarks::agent::{Desk, skill_document};
use skillopt_config::yaml;

use super::fake::Seen;
use super::scene::Scene;
use super::{text, texts};

/// What a skill is for, where a case does not say.
const ABOUT: &str = "How to do it.";
/// Where skills end, whatever CLI looks for them.
const SKILL: &str = "skills/skillopt-target/SKILL.md";

/// Makes what a case speaks of: pictures, data, and answer keys that no agent may see.
pub(super) fn lay_out(scene: &Scene) -> io::Result<()> {
    let input = &scene.case["input"];
    let call = &input["call"];
    for path in texts(&call["images"]) {
        put(Path::new(path), b"x")?;
    }
    let keys = scene.case["expected_result"]["error"]["dirs"].as_str();
    for path in texts(&call["data_dirs"]) {
        let path = Path::new(path);
        let is_named = keys.is_none_or(|name| path.to_string_lossy().contains(name));
        if is_named {
            put(&path.join("note.txt"), b"n")?;
        } else if let Some(name) = keys {
            // A link to the folder that has the name.
            let folder = scene.work.path().join(name);
            put(&folder.join("gold.txt"), b"g")?;
            if !path.exists() {
                std::os::unix::fs::symlink(&folder, path)?;
            }
        }
    }
    Ok(())
}

fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)
}

/// Compares what an agent found with what a case says lies there.
pub(super) fn compare(scene: &Scene, invocation: &Value, seen: &Seen) -> Result<(), String> {
    let Some(tree) = invocation["workspace_tree"].as_object() else {
        return Ok(());
    };
    let skill = text(&scene.case["input"]["workspace"]["skill"]);
    let machine = scene.work.path().display().to_string();
    for (path, wanted) in tree {
        if path.ends_with(SKILL) {
            let found = seen.work.keys().find(|path| path.ends_with(SKILL));
            let found = found.and_then(|path| seen.file(path));
            document(&found.unwrap_or_default(), skill, None)?;
        } else if path == "ATTACHMENTS.md" {
            list(text(wanted), &seen.file(path).unwrap_or_default(), &machine)?;
        } else if path == "codex_last_message.txt" {
            // Each run has a folder of its own, and no file in it holds an answer.
            if seen.work.contains_key(path) {
                return Err(format!("`{path}` is there"));
            }
        } else if seen.file(path).as_deref() != wanted.as_str() {
            return Err(format!(
                "`{path}` is {:?}, wanted {wanted}",
                seen.file(path)
            ));
        }
    }
    Ok(())
}

/// The list names every file, and says nothing of where it came from.
fn list(wanted: &str, seen: &str, machine: &str) -> Result<(), String> {
    let named = wanted
        .split('`')
        .filter(|part| part.starts_with("attachments/"));
    for path in named {
        if !seen.contains(path) {
            return Err(format!("`{path}` is not listed: {seen:?}"));
        }
    }
    if seen.contains(machine) || seen.is_empty() {
        return Err(format!("the list says {seen:?}"));
    }
    Ok(())
}

/// A document that CLIs list: front matter with the name by which the prompt calls it and a
/// description, and the skill as it was trained.
fn document(seen: &str, skill: &str, about: Option<&str>) -> Result<(), String> {
    let differs = |why: &str| Err(format!("{why} in {seen:?}"));
    let Some((front, body)) = seen
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---\n"))
    else {
        return differs("no front matter");
    };
    let front = yaml::parse(front, "SKILL.md")
        .map_err(|e| e.to_string())?
        .to_json();
    let is = |key: &str| front.get(key).and_then(Value::as_str).unwrap_or_default();
    if is("name") != "skillopt-target" || is("description").is_empty() {
        return differs("no name, or no description");
    }
    if about.is_some_and(|about| is("description") != about) {
        return differs("another description");
    }
    let body = body.trim();
    // A skill without a word has words that say so.
    let is_body = match skill.trim() {
        "" => !body.is_empty(),
        skill => body == skill,
    };
    if is_body && seen.ends_with('\n') {
        Ok(())
    } else {
        differs("another body")
    }
}

/// Runs a case of the workspace.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    match text(&input["op"]) {
        "prepare_workspace" => prepare(case),
        "render_skill_md" => {
            let rows = case["expected_result"]["ok"].as_array();
            rows.into_iter().flatten().try_for_each(rendered)
        }
        other => Err(format!("no counterpart for `{other}`")),
    }
}

/// What a benchmark says of itself is the description and the prompt: no preamble stands in the
/// document, and the name is always the one that the prompt calls.
fn rendered(row: &Value) -> Result<(), String> {
    let args = texts(&row["args"]);
    let (skill, about) = match args[..] {
        [skill, _, about, ..] => (skill, Some(about)),
        [skill, about] => (skill, Some(about)),
        [skill] => (skill, None),
        [] => return Err("no skill".to_owned()),
    };
    let seen = skill_document(skill, about.unwrap_or(ABOUT));
    document(&seen, skill, about)
}

fn prepare(case: &Value) -> Result<(), String> {
    let machine = tempfile::tempdir().map_err(|e| e.to_string())?;
    let work = machine.path().display().to_string();
    let case: Value = serde_json::from_str(&case.to_string().replace("{{work}}", &work))
        .map_err(|e| e.to_string())?;
    let input = &case["input"];
    let after = case["expected_result"]["files_after"].as_object();
    let after: BTreeMap<&str, &Value> = after
        .into_iter()
        .flatten()
        .filter_map(|(path, content)| Some((path.strip_prefix("ws/x/")?, content)))
        .collect();
    let made = build(input, &after);
    let error = &case["expected_result"]["error"];
    if error.is_object() {
        return match made {
            Err(why) if why.contains(text(&error["path"])) => Ok(()),
            other => Err(format!("it came to {other:?}, wanted {error}")),
        };
    }
    let made = made?.into_workspace();
    document(&made.skill, text(&input["skill"]), Some(ABOUT))?;
    let mut left = made.files;
    for (path, wanted) in after {
        if path.ends_with(SKILL) {
            continue;
        }
        if let Some(folder) = path.strip_suffix('@') {
            let note = left.remove(&format!("{folder}/note.txt"));
            if note.as_deref() != Some(b"n") {
                return Err(format!("`{folder}` is no copy"));
            }
            continue;
        }
        let seen = left.remove(path);
        let seen = seen.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if path == "ATTACHMENTS.md" {
            list(text(wanted), &seen.unwrap_or_default(), &work)?;
        } else if seen.as_deref() != wanted.as_str() {
            return Err(format!("`{path}` is {seen:?}, wanted {wanted}"));
        }
    }
    match left.first_key_value() {
        Some((path, _)) => Err(format!("`{path}` is there, too")),
        None => Ok(()),
    }
}

/// Puts a folder together. Files of the machine hold what the case finds in the folder afterwards.
fn build(input: &Value, after: &BTreeMap<&str, &Value>) -> Result<Desk, String> {
    let none = BTreeMap::new();
    let desk = Desk::new(text(&input["skill"]), ABOUT, &none);
    let mut desk = match input["task_filename"].as_str() {
        Some(name) => desk.file(name, text(&input["task_text"])),
        None => desk.task(text(&input["task_text"])),
    };
    for (path, content) in input["extra_files"].as_object().into_iter().flatten() {
        desk = desk.file(path, text(content));
    }
    let wrong = |e: io::Error| e.to_string();
    for pair in input["copy_files"].as_array().into_iter().flatten() {
        let (from, to) = (Path::new(text(&pair[0])), text(&pair[1]));
        let content = after.get(to).map_or("", |content| text(content));
        put(from, content.as_bytes()).map_err(wrong)?;
        desk = desk.copy(from, to).map_err(|e| e.to_string())?;
    }
    for pair in input["link_dirs"].as_array().into_iter().flatten() {
        let (from, to) = (Path::new(text(&pair[0])), text(&pair[1]));
        put(&from.join("note.txt"), b"n").map_err(wrong)?;
        desk = desk.copy_folder(from, to).map_err(|e| e.to_string())?;
    }
    let images: Vec<PathBuf> = texts(&input["images"]).iter().map(PathBuf::from).collect();
    for (at, image) in images.iter().enumerate() {
        let name = image.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("attachments/{:02}_{name}", at + 1);
        // A picture that the case finds nowhere is none.
        if let Some(content) = after.get(path.as_str()) {
            put(image, text(content).as_bytes()).map_err(wrong)?;
        }
    }
    desk.attach(&images).map_err(|e| e.to_string())
}
