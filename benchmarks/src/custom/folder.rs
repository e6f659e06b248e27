//! Reading a custom benchmark's folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skillopt_config::yaml;

use super::definition::{Definition, Items, Scorer, Settings};
use super::{attached, judge, keys, program, template};
use crate::agent::tools;
use crate::contract::LoadArgs;
use crate::error::LoadError;
use crate::nearest;
use crate::splits::{self, Format, Loaded, Part, read};

/// Most files a command judge may bring.
const FILES_MAX: usize = 64;
/// Most bytes they may have together; they travel with every job's settings.
const FILES_BYTES_MAX: usize = 1 << 20;

/// Returns the folder that the configuration names.
pub(super) fn locate(args: &LoadArgs) -> Result<PathBuf, LoadError> {
    let named = args
        .extra
        .get("benchmark_dir")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let named = if named.trim().is_empty() {
        &args.data_path
    } else {
        named
    };
    if named.trim().is_empty() {
        return Err(LoadError::setting(
            "benchmark_dir",
            "a custom benchmark needs its folder, e.g. `benchmark_dir: data/capitals`",
        ));
    }
    Ok(PathBuf::from(named))
}

/// Reads the definition and the texts it names, and checks them.
pub(super) fn settings(folder: &Path, args: &LoadArgs) -> Result<Settings, LoadError> {
    let (path, definition) = definition(folder)?;
    let text = |name: &str| -> Result<String, LoadError> {
        let path = folder.join(name);
        let bytes = read::bytes(&path)?;
        read::utf8(&bytes, &path).map(str::to_owned)
    };
    let prompt = text(&definition.prompt)?;
    let system = definition
        .system
        .as_deref()
        .map_or_else(|| Ok(String::new()), text)?;
    check_prompt(&folder.join(&definition.prompt), &prompt, &definition)?;
    if let Scorer::Regex {
        pattern: Some(pattern),
        ..
    } = &definition.scorer
    {
        judge::compile(pattern).map_err(|problem| LoadError::content(&path, problem))?;
    }
    let files = match &definition.scorer {
        Scorer::Command { command, .. } => {
            let files = judge_files(folder, &definition)?;
            let search = std::env::var_os("PATH");
            program::check(command, folder, &files, search.as_deref())
                .map_err(|problem| LoadError::content(&path, problem))?;
            files
        }
        _ => BTreeMap::new(),
    };
    Ok(Settings {
        definition,
        prompt,
        system,
        files,
        max_completion_tokens: args.max_completion_tokens,
    })
}

fn definition(folder: &Path) -> Result<(PathBuf, Definition), LoadError> {
    let names = ["benchmark.yaml", "benchmark.yml", "benchmark.json"];
    let Some(path) = names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
    else {
        return Err(LoadError::content(
            folder,
            "no `benchmark.yaml` or `benchmark.json` in this folder",
        ));
    };
    let bytes = read::bytes(&path)?;
    let text = read::utf8(&bytes, &path)?;
    let value = if read::has_extension(&path, "json") {
        serde_json::from_str(text).map_err(|e| read::json_error(&path, &e, 0))?
    } else {
        yaml(&path, text)?
    };
    keys::check(&value).map_err(|problem| LoadError::content(&path, problem))?;
    let definition: Definition =
        serde_json::from_value(value).map_err(|e| LoadError::content(&path, e.to_string()))?;
    if definition.name.trim().is_empty() {
        return Err(LoadError::content(&path, "`name` is empty"));
    }
    attached::check(&definition).map_err(|problem| LoadError::content(&path, problem))?;
    let files = definition.inputs.keys().chain(&definition.outputs);
    tools::check(&definition.tools, files).map_err(|problem| LoadError::content(&path, problem))?;
    if matches!(definition.scorer, Scorer::Files { .. }) {
        let is_wanted = |name: &String| definition.outputs.contains(name);
        if definition.expected.is_empty() || !definition.expected.keys().all(is_wanted) {
            return Err(LoadError::content(
                &path,
                "`scorer.kind: files` compares the files of `expected` with those of `outputs`; name \
                 each in both",
            ));
        }
    }
    Ok((path, definition))
}

/// Refuses a prompt that would show the target what it must not see.
fn check_prompt(path: &Path, prompt: &str, definition: &Definition) -> Result<(), LoadError> {
    let secret = definition.scorer.gold().into_iter();
    let secret: Vec<&str> = secret
        .chain(definition.hidden.iter().map(String::as_str))
        .collect();
    let fields = template::fields(prompt);
    if let Some(field) = fields.iter().find(|field| secret.contains(field)) {
        return Err(LoadError::content(
            path,
            format!("`{{{{{field}}}}}` would show the gold answer to the target; remove it"),
        ));
    }
    if fields.iter().all(|field| *field == "skill") {
        return Err(LoadError::content(
            path,
            "no placeholder of an item, e.g. `{{question}}`: every prompt would be the same",
        ));
    }
    Ok(())
}

/// The folder's files but for the items: what a command judge may need.
fn judge_files(
    folder: &Path,
    definition: &Definition,
) -> Result<BTreeMap<String, String>, LoadError> {
    let items: Vec<&str> = match &definition.items {
        Items::One(name) => vec![name],
        Items::Parts(parts) => vec![&parts.train, &parts.val, &parts.test],
    };
    let mut files = BTreeMap::new();
    let mut bytes_left = FILES_BYTES_MAX;
    for path in read::files(folder)? {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with('.') || name.is_empty() || items.contains(&name) {
            continue;
        }
        let bytes = read::bytes(&path)?;
        let text = read::utf8(&bytes, &path)?.to_owned();
        bytes_left = bytes_left.checked_sub(bytes.len()).ok_or_else(|| {
            LoadError::content(
                folder,
                format!("the judge's files exceed {FILES_BYTES_MAX} bytes; move data elsewhere"),
            )
        })?;
        files.insert(name.to_owned(), text);
    }
    if files.len() > FILES_MAX {
        return Err(LoadError::content(
            folder,
            format!("more than {FILES_MAX} files"),
        ));
    }
    Ok(files)
}

/// Loads the items.
pub(super) fn items(
    folder: &Path,
    settings: &Settings,
    args: &LoadArgs,
) -> Result<Loaded, LoadError> {
    let definition = &settings.definition;
    let mut loaded = match &definition.items {
        Items::Parts(parts) => {
            let paths = [&parts.train, &parts.val, &parts.test].map(|name| folder.join(name));
            Loaded {
                splits: splits::from_files(&paths, read::rows)?,
                generated: None,
            }
        }
        Items::One(name) => splits::load(
            &FORMAT,
            &LoadArgs {
                split_mode: "ratio".to_owned(),
                data_path: folder.join(name).display().to_string(),
                split_ratio: definition
                    .split_ratio
                    .clone()
                    .unwrap_or_else(|| args.split_ratio.clone()),
                ..args.clone()
            },
        )?,
    };
    loaded.splits.limit(args.limit);
    for part in Part::ALL {
        for item in loaded.splits.part_mut(part) {
            attached::attach(folder, definition, &mut item.value).map_err(|problem| {
                LoadError::content(folder, format!("item `{}`: {problem}", item.id))
            })?;
        }
    }
    for item in Part::ALL.iter().flat_map(|part| loaded.splits.part(*part)) {
        check_item(settings, &item.value).map_err(|problem| {
            LoadError::content(folder, format!("item `{}`: {problem}", item.id))
        })?;
    }
    Ok(loaded)
}

const FORMAT: Format = Format {
    name: "custom",
    default_mode: "ratio",
    part_files: &["json", "jsonl", "csv"],
    raw_rows: read::rows,
    raw_item: splits::keep_raw,
    part_item: splits::keep,
};

fn check_item(settings: &Settings, item: &Value) -> Result<(), String> {
    let has = |field: &str| {
        if item.get(field).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = item
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, _)| k.as_str())
            .collect();
        Err(format!(
            "no field `{field}`; {}",
            nearest::hint(field, &names)
        ))
    };
    for field in template::fields(&settings.prompt) {
        if field != "skill" {
            has(field)?;
        }
    }
    let Some(gold) = settings.definition.scorer.gold() else {
        return Ok(());
    };
    has(gold)?;
    let value = item.get(gold).unwrap_or(&Value::Null);
    judge::check(&settings.definition.scorer, value).map_err(|e| format!("`{gold}`: {e}"))
}

fn yaml(path: &Path, text: &str) -> Result<Value, LoadError> {
    let map = yaml::parse(text, &path.display().to_string()).map_err(|e| LoadError::Content {
        path: path.to_owned(),
        place: format!(", line {}, column {}", e.line, e.column),
        problem: e.reason,
    })?;
    let mut json = map.to_json();
    // Unquoted, `2:1:2` is a number in YAML 1.1 and so may be a name; both are meant as written.
    for key in ["name", "split_ratio"] {
        if let Some(raw) = map.get(key).and_then(|node| node.raw.clone()) {
            json.insert(key.to_owned(), raw.into());
        }
    }
    Ok(Value::Object(json))
}
