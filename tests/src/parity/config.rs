//! Counterparts of the reference's configuration functions; see the parent module.

use serde_json::{Map, Value, json};
use skillopt_config::node::{Data, Mapping, Node, Origin};
use skillopt_config::overrides::cast;
use skillopt_config::roles::{RoleChoice, resolve_role_backends};
use skillopt_config::{load, yaml};

use super::Outcome;

pub(super) fn call(function: &str, case: &Value) -> Outcome {
    let input = &case["input"];
    match function {
        "load_and_flatten" => load_and_flatten(input),
        "cast_value" => Ok(cast_value(input)),
        "resolve_role_backends" => role_backends(input),
        _ => Err(format!("no counterpart for `{function}`")),
    }
}

fn load_and_flatten(input: &Value) -> Outcome {
    let dir = Folder::new().map_err(|e| e.to_string())?;
    let files = input["files"].as_object().cloned().unwrap_or_default();
    for (name, content) in &files {
        let text = without_env_of_named_benchmarks(content.as_str().unwrap_or_default());
        dir.write(name, &text).map_err(|e| e.to_string())?;
    }
    let entry = input["entry"].as_str().unwrap_or_default();
    let mut flat = load(&dir.path.join(entry)).map_err(|e| e.to_string())?;
    for text in input["overrides"].as_array().into_iter().flatten() {
        flat.set(text.as_str().unwrap_or_default())
            .map_err(|e| e.to_string())?;
    }
    // A typo in an override is refused by `RunConfig::resolve`, one step after this function.
    let typo = flat
        .unknown
        .iter()
        .find(|problem| matches!(problem.origin, Origin::File { .. }));
    if let Some(problem) = typo {
        return Err(problem.to_string());
    }
    Ok(json!({
        "structured": flat.is_structured(),
        "flat": flat.to_json_unredacted(),
    }))
}

/// The reference at this commit loses the `env` section of every structured file that names its
/// benchmark, and the cases were recorded so without a mark. We keep the section; to compare the
/// rest, the files are given to us without it.
fn without_env_of_named_benchmarks(text: &str) -> String {
    let Ok(mut map) = yaml::parse(text, "case") else {
        return text.to_owned();
    };
    let named = map
        .get("env")
        .and_then(Node::as_map)
        .is_some_and(|env| env.get("name").is_some());
    if !named {
        return text.to_owned();
    }
    map.remove("env");
    // JSON is YAML as long as no text is made to look plain.
    json!(Mapping::to_json(&map)).to_string()
}

fn cast_value(input: &Value) -> Value {
    let data = cast(input["text"].as_str().unwrap_or_default());
    let kind = match &data {
        Data::Bool(_) => "bool",
        Data::Int(_) => "int",
        Data::Float(_) => "float",
        _ => "str",
    };
    json!({ "value": Node::new(data, Origin::Default).to_json(), "type": kind })
}

fn role_backends(input: &Value) -> Outcome {
    let choice = |name: &str| RoleChoice {
        value: input[name].as_str(),
        explicit: false,
    };
    let (optimizer, target) = resolve_role_backends(
        input["backend"].as_str(),
        choice("optimizer_backend"),
        choice("target_backend"),
    )
    .map_err(|e| e.to_string())?;
    let mut map = Map::new();
    map.insert("optimizer_backend".to_owned(), Value::from(optimizer));
    map.insert("target_backend".to_owned(), Value::from(target));
    Ok(Value::Object(map))
}

/// A folder that is removed when it is dropped.
struct Folder {
    path: std::path::PathBuf,
}

impl Folder {
    fn new() -> std::io::Result<Self> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "skillopt-parity-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about a temporary folder that stays.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
