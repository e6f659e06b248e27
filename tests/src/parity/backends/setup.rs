//! From a case's environment and keys to the profiles and clients of both roles.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use skillopt_backends::declare::{Local, Options};
use skillopt_backends::{CallError, ChatModel, Http, registry};
use skillopt_config::{Context, Flat, Origin, RunConfig};
use skillopt_coordinator::prepare;
use skillopt_core::job::Profile;
use skillopt_core::role::Role;

use super::sign_in::FakeAz;

/// What the placeholders of a case stand for.
pub(super) struct Places {
    address: SocketAddr,
}

impl Places {
    pub(super) const fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Fills the placeholders in.
    pub(super) fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(map) => {
                let pairs = map.iter();
                pairs
                    .map(|(name, value)| (name.clone(), self.fill(value)))
                    .collect::<Map<_, _>>()
                    .into()
            }
            other => other.clone(),
        }
    }

    fn fill_text(&self, text: &str) -> String {
        let text = text.replace("{{host}}", &self.address.to_string()).replace(
            "{{other_host}}",
            &format!("localhost:{}", self.address.port()),
        );
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("{{secret:") {
            let (name, end) = after.split_once("}}").unwrap_or((after, ""));
            out.push_str(before);
            out.push_str("canary-");
            out.push_str(name);
            rest = end;
        }
        out.push_str(rest);
        out
    }
}

/// A case, ready for its calls.
pub(super) struct Setup {
    pub(super) config: RunConfig,
    pub(super) http: Arc<Http>,
    pub(super) warnings: usize,
    env: BTreeMap<String, String>,
}

impl Setup {
    /// # Errors
    /// The configuration is refused.
    pub(super) fn new(case: &Value, az: &FakeAz) -> Result<Self, String> {
        let input = &case["input"];
        let env = texts(&input["env"]);
        let lookup = |name: &str| env.get(name).cloned();
        let context = Context {
            benchmarks: None,
            env: &lookup,
        };
        let (config, warnings) =
            RunConfig::resolve(&flat(case, az, &env), &context).map_err(|e| e.to_string())?;
        Ok(Self {
            config,
            http: Http::new(),
            warnings: warnings.len(),
            env,
        })
    }

    /// Returns a variable of the case's environment.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    pub(super) fn profile(&self, role: Role) -> Profile {
        prepare::profile(&self.config, role)
    }

    /// # Errors
    /// The settings are refused.
    pub(super) fn connect(
        &self,
        profile: &Profile,
        role: Role,
    ) -> Result<Arc<dyn ChatModel>, CallError> {
        let backends = &self.config.backends;
        let option = |key: &str| backends.get(role, key).cloned();
        let local = Local {
            options: Options(&option),
            secret: &|key| backends.secret(role, key).cloned(),
            env: &|name| self.env.get(name).cloned(),
            http: &self.http,
        };
        registry::connect(profile, &local)
    }

    /// Returns the limit of one exchange where the caller names none.
    pub(super) fn timeout(&self, role: Role) -> Duration {
        Duration::from_secs_f64(self.config.call_seconds(role))
    }
}

fn texts(map: &Value) -> BTreeMap<String, String> {
    let pairs = map.as_object().into_iter().flatten();
    pairs
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

fn flat(case: &Value, az: &FakeAz, env: &BTreeMap<String, String>) -> Flat {
    let input = &case["input"];
    let (mut shipped, mut own) = (Map::new(), Map::new());
    for (name, value) in input["config"].as_object().into_iter().flatten() {
        if is_of_base_file(case, name, value) {
            shipped.insert(name.clone(), value.clone());
        } else {
            own.insert(name.clone(), value.clone());
        }
    }
    for call in input["library_config"].as_array().into_iter().flatten() {
        own.extend(library_config(call));
    }
    as_library(&mut own, env);
    own.extend(az.settings());
    layer(&shipped, "configs/_base_/default.yaml").overlaid(layer(&own, "case.yaml"))
}

fn layer(map: &Map<String, Value>, path: &str) -> Flat {
    let origin = Origin::File {
        path: path.into(),
        line: 1,
        column: 1,
    };
    Flat::from_json(map, &origin)
}

/// Cases named `base_yaml_…` are about keys that an operator never wrote: they hold the very
/// values of the base file that comes with the reference (backends spec 1.6).
fn is_of_base_file(case: &Value, name: &str, value: &Value) -> bool {
    let id = case["id"].as_str().unwrap_or_default();
    let bare = ["optimizer_", "target_"]
        .iter()
        .find_map(|role| name.strip_prefix(role))
        .unwrap_or(name);
    let shipped = match bare {
        "azure_openai_api_version" => "2024-12-01-preview",
        "azure_openai_ad_scope" => "https://cognitiveservices.azure.com/.default",
        "minimax_temperature" => "0.7",
        "minimax_max_tokens" => "8000",
        "minimax_enable_thinking" => "false",
        "minimax_model" => "MiniMax-M3",
        _ => return false,
    };
    id.contains("base_yaml") && value == shipped
}

/// A case without a model or an effort uses the reference as a library, whose defaults are not
/// those of a run (backends spec 1.3): `gpt-4o`, and no effort.
fn as_library(own: &mut Map<String, Value>, env: &BTreeMap<String, String>) {
    own.entry("reasoning_effort").or_insert_with(|| "".into());
    for role in ["optimizer", "target"] {
        let set = |name: String| {
            let value = env.get(&name.to_uppercase());
            let value = value
                .map(String::as_str)
                .or_else(|| own.get(&name)?.as_str());
            value.unwrap_or_default().trim().to_lowercase()
        };
        let backend = set(format!("{role}_backend"));
        let is_openai = matches!(backend.as_str(), "" | "openai_chat" | "azure_openai");
        let is_named = ["model", "deployment"]
            .iter()
            .any(|what| !set(format!("{role}_{what}")).is_empty());
        if is_openai && !is_named {
            own.insert(format!("{role}_model"), "gpt-4o".into());
        }
    }
}

/// A configuring call of the library as flat keys.
fn library_config(call: &Value) -> Map<String, Value> {
    let function = call["fn"].as_str().unwrap_or_default();
    let backend = function.trim_start_matches("configure_");
    let arguments = call["kwargs"].as_object();
    let mut keys = Map::new();
    for (name, value) in arguments.into_iter().flatten() {
        let (role, bare) = ["optimizer_", "target_"]
            .iter()
            .find_map(|role| Some((*role, name.strip_prefix(role)?)))
            .unwrap_or(("", name));
        match (role, bare) {
            ("", "model") => {
                for role in ["optimizer_model", "target_model"] {
                    keys.entry(role).or_insert_with(|| value.clone());
                }
            }
            (role, "model") => {
                keys.insert(format!("{role}model"), value.clone());
            }
            (role, bare) => {
                let prefix = backend.trim_end_matches("_chat");
                let prefix = if prefix == "qwen" {
                    "qwen_chat"
                } else {
                    prefix
                };
                keys.insert(format!("{role}{prefix}_{bare}"), value.clone());
            }
        }
    }
    json!(keys).as_object().cloned().unwrap_or_default()
}
