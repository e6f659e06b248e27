//! Names, aliases, roles, models and precedence: the cases without a call.
//!
//! Some say in words what was set up; what the words mean stands here, beside the case's name. We
//! have one resolver for every command, so that `train` and `eval` cases go the same way.

use std::path::Path;

use serde_json::{Map, Value, json};
use skillopt_backends::needs_responses;
use skillopt_config::roles::{RoleChoice, default_model, normalize_label, resolve_role_backends};
use skillopt_config::{Context, Flat, Origin, RunConfig, flags, yaml};
use skillopt_coordinator::prepare;
use skillopt_core::job::Profile;
use skillopt_core::role::Role;

/// Runs one case.
///
/// # Errors
/// What differs, in words.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let id = case["id"].as_str().unwrap_or_default();
    let wanted = &case["expected_result"]["ok"];
    let input = &case["input"];
    if input["entry"].is_string() {
        return entry(id, case);
    }
    match id.trim_start_matches("config/") {
        "alias_table" => rows(wanted, |args| Ok(normalize_label(text(&args[0])).into())),
        "default_model_table" => rows(wanted, default_models),
        "responses_api_model_table" => {
            rows(wanted, |args| Ok(needs_responses(text(&args[0])).into()))
        }
        "legacy_set_backend_table" => labels(wanted),
        "role_whitelist" => whitelist(wanted),
        "trainer_role_resolution_table" => rows(wanted, roles),
        // A value is checked before it is taken, so that there is none to stay behind.
        "rejected_role_value_sticks" => {
            refused(&json!({"target_backend": "nonsense"}), &Value::Null)
        }
        "role_env_not_validated" => refused(&json!({}), &input["env"]),
        "redaction_of_saved_config" => redaction(wanted),
        "settings_are_process_global" => {
            let of = |address: &str| {
                let keys = json!({"target_backend": "qwen_chat", "qwen_chat_base_url": address});
                resolve(&keys, &Value::Null)
            };
            let (a, _b) = (of("http://a/v1")?, of("http://b/v1")?);
            is(
                "the address",
                &profile(&a, Role::Target).endpoint,
                "http://a/v1",
            )
        }
        "target_client_cache_ignores_backend_switch" => {
            let of = |backend: &str| resolve(&json!({"target_backend": backend}), &input["env"]);
            let (qwen, openai) = (of("qwen_chat")?, of("openai_chat")?);
            is(
                "the first",
                &profile(&qwen, Role::Target).backend,
                "qwen_chat",
            )?;
            is(
                "the address",
                &profile(&openai, Role::Target).endpoint,
                "http://x.test/v1",
            )
        }
        // The second router is gone; its names mean what they mean everywhere.
        "legacy_router_names" => wanted.as_array().into_iter().flatten().try_for_each(|row| {
            let none = RoleChoice::default();
            let resolved = resolve_role_backends(row[0].as_str(), none, none);
            resolved.map(|_| ()).map_err(|e| e.to_string())
        }),
        name if name.starts_with("codex_env") => codex(wanted, &json!({}), &input["env"]),
        "codex_config_sequence_restores_baseline" => codex_sequence(wanted, &input["env"]),
        _ => Err(format!("no counterpart for `{}`", input["op"])),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is(what: &str, seen: &str, wanted: &str) -> Result<(), String> {
    if seen == wanted {
        Ok(())
    } else {
        Err(format!("{what} is `{seen}`, wanted `{wanted}`"))
    }
}

/// Compares a table of arguments and results.
fn rows(
    wanted: &Value,
    function: impl Fn(&[Value]) -> Result<Value, String>,
) -> Result<(), String> {
    for row in wanted.as_array().into_iter().flatten() {
        let args = row["args"].as_array().map_or(&[][..], Vec::as_slice);
        let seen = function(args).map_err(|why| format!("{args:?}: {why}"))?;
        if seen != row["result"] {
            return Err(format!("{args:?} is {seen}, wanted {}", row["result"]));
        }
    }
    Ok(())
}

/// An unknown label is refused, whereas it means `openai_chat` to the reference (D34).
fn roles(args: &[Value]) -> Result<Value, String> {
    let choice = |value| RoleChoice {
        value,
        explicit: false,
    };
    let (optimizer, target) = (choice(args[1].as_str()), choice(args[2].as_str()));
    let label = match resolve_role_backends(args[0].as_str(), optimizer, target) {
        Err(refused) if refused.role.is_none() => None,
        _ => args[0].as_str(),
    };
    let (optimizer, target) =
        resolve_role_backends(label, optimizer, target).map_err(|e| e.to_string())?;
    Ok(json!([optimizer, target]))
}

/// The reference's table serves its library. A run names a model, and a backend changes it only
/// where the shipped name means nothing to it; elsewhere the library's default is `gpt-4o`.
fn default_models(args: &[Value]) -> Result<Value, String> {
    let label = normalize_label(text(&args[0]));
    let own = default_model(Role::Target, &label).filter(|model| !model.is_empty());
    Ok(own.unwrap_or("gpt-4o").into())
}

fn labels(wanted: &Value) -> Result<(), String> {
    let none = RoleChoice::default();
    for row in wanted.as_array().into_iter().flatten() {
        match resolve_role_backends(row["label"].as_str(), none, none) {
            Err(_) if row["error"].is_string() => {}
            Ok((optimizer, target)) => {
                is("the optimizer", &optimizer, text(&row["optimizer"]))?;
                is("the target", &target, text(&row["target"]))?;
            }
            Err(e) => return Err(e.to_string()),
        }
    }
    Ok(())
}

/// The two labels that are no backends mean the one that they stand for.
fn whitelist(wanted: &Value) -> Result<(), String> {
    for row in wanted.as_array().into_iter().flatten() {
        let name = text(&row["name"]);
        for role in ["optimizer", "target"] {
            let given = RoleChoice {
                value: Some(name),
                explicit: true,
            };
            let none = RoleChoice::default();
            let (optimizer, target) = if role == "optimizer" {
                (given, none)
            } else {
                (none, given)
            };
            let seen = resolve_role_backends(None, optimizer, target);
            let seen = match seen {
                Ok((optimizer, _)) if role == "optimizer" => optimizer,
                Ok((_, target)) => target,
                Err(_) => "rejected".to_owned(),
            };
            let wanted = match name {
                "azure_openai" => "openai_chat",
                "codex" => "codex_exec",
                _ => text(&row[role]),
            };
            is(&format!("`{name}` as {role}"), &seen, wanted)?;
        }
    }
    Ok(())
}

fn origin(path: &str) -> Origin {
    Origin::File {
        path: path.into(),
        line: 1,
        column: 1,
    }
}

fn resolve(keys: &Value, env: &Value) -> Result<RunConfig, String> {
    let none = Map::new();
    let keys = keys.as_object().unwrap_or(&none);
    resolve_flat(&Flat::from_json(keys, &origin("case.yaml")), env).map(|(config, _)| config)
}

/// Returns the configuration with the number of its warnings.
fn resolve_flat(flat: &Flat, env: &Value) -> Result<(RunConfig, usize), String> {
    let env = |name: &str| env[name].as_str().map(str::to_owned);
    let context = Context {
        benchmarks: None,
        env: &env,
    };
    let (config, warnings) = RunConfig::resolve(flat, &context).map_err(|e| e.to_string())?;
    Ok((config, warnings.len()))
}

fn profile(config: &RunConfig, role: Role) -> Profile {
    prepare::profile(config, role)
}

fn refused(keys: &Value, env: &Value) -> Result<(), String> {
    match resolve(keys, env) {
        Err(_) => Ok(()),
        Ok(config) => Err(format!("accepted as `{}`", config.target_backend)),
    }
}

/// Every key of a credential is masked completely, whatever its prefix.
fn redaction(wanted: &Value) -> Result<(), String> {
    let names = wanted.as_object().into_iter().flatten();
    let keys: Map<String, Value> = names
        .map(|(name, _)| (name.clone(), "sk-canary".into()))
        .collect();
    let config = resolve(&keys.into(), &Value::Null)?;
    let written = Value::from(skillopt_config::to_config_json(&config, None));
    if written.to_string().contains("sk-canary") {
        return Err(format!("a credential is written: {written}"));
    }
    for (name, _) in wanted.as_object().into_iter().flatten() {
        is(name, text(&written[name]), "***")?;
    }
    Ok(())
}

/// Runs a case of the command line or of a file.
fn entry(id: &str, case: &Value) -> Result<(), String> {
    let flat = as_written(id, &case["input"])?;
    let (config, warnings) = resolve_flat(&flat, &Value::Null)?;
    if let Some(wanted) = case["expected_result"]["warnings"].as_array()
        && wanted.is_empty() != (warnings == 0)
    {
        return Err(format!("{warnings} warnings, wanted {wanted:?}"));
    }
    let mut wanted = case["expected_result"]["ok"].clone();
    for (name, right) in right(id) {
        wanted[name] = right;
    }
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        if wanted == "<absent>" || name == "cli_rejected" || name == "codex_exec_full_auto" {
            continue;
        }
        let seen = value_of(&config, name);
        if seen != *wanted {
            return Err(format!("`{name}` is {seen}, wanted {wanted}"));
        }
    }
    Ok(())
}

/// Reads what a case gives: flags, overrides, or a file over the base file.
fn as_written(id: &str, input: &Value) -> Result<Flat, String> {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/_base_/default.yaml");
    let base = skillopt_config::load(&base).map_err(|e| e.to_string())?;
    if id == "config/train_flat_yaml" {
        return Ok(layer(&json!({
            "backend": "codex", "codex_bin": "/x/codex", "sandbox": "read-only",
            "optimizer_model": "a", "target_model": "b",
        })));
    }
    if id == "config/train_codex_alias_layers" {
        let base = layer(&json!({
            "codex_exec_path": "/base/codex", "codex_exec_sandbox": "read-only",
        }));
        return Ok(base.overlaid(layer(&json!({
            "codex_cli_bin": "/child/codex", "codex_bin": "/child/other",
            "codex_sandbox": "workspace-write", "sandbox": "danger-full-access",
        }))));
    }
    if let Some(text) = input["yaml"].as_str() {
        let parsed = yaml::parse(text, "own.yaml").map_err(|e| e.to_string())?;
        return Ok(base.overlaid(Flat::from_layer(parsed)));
    }
    let mut flat = base;
    let words: Vec<&str> = input["argv"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    for pair in words.chunks(2) {
        let &[name, value] = pair else {
            return Err(format!("a flag without a value: {pair:?}"));
        };
        match name {
            "--config" => {}
            "--cfg-options" => flat.set(value).map_err(|e| e.to_string())?,
            name => {
                let name = name.trim_start_matches('-');
                let flag = flags::flags().into_iter().find(|flag| flag.name == name);
                let flag = flag.ok_or_else(|| format!("no flag `{name}`"))?;
                flat.set_flag(&flag, value).map_err(|e| e.to_string())?;
            }
        }
    }
    Ok(flat)
}

fn layer(keys: &Value) -> Flat {
    let none = Map::new();
    Flat::from_json(keys.as_object().unwrap_or(&none), &origin("case.yaml"))
}

/// What the sentence of a case marked as a bug says, as values.
fn right(id: &str) -> Vec<(&'static str, Value)> {
    match id.trim_start_matches("config/") {
        // Every backend is accepted, with a model that it knows.
        "train_cli_backend_openai_compatible_rejected" | "train_cfg_option_openai_compatible" => {
            vec![
                ("optimizer_backend", "openai_compatible".into()),
                ("target_backend", "openai_compatible".into()),
                ("optimizer_model", "gpt-4o-mini".into()),
                ("target_model", "gpt-4o-mini".into()),
            ]
        }
        // A model in the operator's own file is kept.
        "train_yaml_explicit_gpt55_target_replaced" => vec![("target_model", "gpt-5.5".into())],
        "train_cli_bool_words" => vec![("codex_exec_network_access", true.into())],
        // One resolver: as `train` has it.
        "eval_yaml_qwen_runs_on_openai" => vec![
            ("target_backend", "qwen_chat".into()),
            ("target_model", "Qwen/Qwen3.5-4B".into()),
        ],
        "eval_target_qwen_keeps_gpt_name" => vec![("target_model", "Qwen/Qwen3.5-4B".into())],
        _ => Vec::new(),
    }
}

fn value_of(config: &RunConfig, name: &str) -> Value {
    match name {
        "model_backend" => config.model_backend.as_str().into(),
        "optimizer_backend" => config.optimizer_backend.as_str().into(),
        "target_backend" => config.target_backend.as_str().into(),
        "optimizer_model" => config.optimizer_model.as_str().into(),
        "target_model" => config.target_model.as_str().into(),
        // The older names count as the new ones.
        "azure_openai_endpoint" => format!("{}/", profile(config, Role::Target).endpoint).into(),
        "azure_openai_api_version" => {
            profile(config, Role::Target).settings["azure_api_version"].clone()
        }
        "azure_openai_api_key" => {
            let older = config.backends.secret(Role::Target, "azure_api_key");
            let is_there = older.is_some_and(|key| key.expose() == "<key>");
            if is_there {
                "{{secret:LEGACY}}".into()
            } else {
                Value::Null
            }
        }
        name => as_switch(config.backends.get(Role::Target, name)),
    }
}

/// Reads a word that means yes or no.
fn as_switch(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(word)) => match word.to_lowercase().as_str() {
            "true" | "yes" | "on" => true.into(),
            "false" | "no" | "off" => false.into(),
            _ => word.as_str().into(),
        },
        Some(value) => value.clone(),
        None => Value::Null,
    }
}

/// The settings of the Codex program, with their defaults. A word that is no switch is an error
/// here: it was a typo, and silence would hide it.
fn codex(wanted: &Value, keys: &Value, env: &Value) -> Result<(), String> {
    let mut keys = keys.clone();
    keys["target_backend"] = "codex_exec".into();
    let is_typo = env["CODEX_EXEC_WEB_SEARCH"] == "maybe";
    let config = match resolve(&keys, env) {
        Err(why) if is_typo && why.contains("CODEX_EXEC_WEB_SEARCH") => return Ok(()),
        resolved => resolved?,
    };
    for (name, default) in [
        ("path", json!("codex")),
        ("sandbox", json!("workspace-write")),
        ("profile", json!("")),
        ("reasoning_effort", json!("none")),
        ("use_sdk", json!("auto")),
        ("network_access", json!(false)),
        ("web_search", json!(false)),
        ("approval_policy", json!("never")),
    ] {
        let key = format!("codex_exec_{name}");
        let seen = match as_switch(config.backends.get(Role::Target, &key)) {
            Value::Null => default,
            seen => seen,
        };
        if seen != wanted[name] {
            return Err(format!("`{name}` is {seen}, wanted {}", wanted[name]));
        }
    }
    Ok(())
}

/// Each configuration starts from the environment alone; nothing of the one before is left.
fn codex_sequence(wanted: &Value, env: &Value) -> Result<(), String> {
    let configs = [
        json!({
            "codex_exec_path": "/a", "codex_exec_sandbox": "read-only",
            "codex_exec_network_access": true,
        }),
        json!({}),
        json!({"codex_path": "/b", "codex_exec_network_access": "no"}),
        json!({"codex_exec_network_access": "perhaps"}),
        json!({"codex_exec_path": "", "codex_exec_sandbox": "", "codex_exec_network_access": ""}),
    ];
    for (config, wanted) in configs.iter().zip(wanted.as_array().into_iter().flatten()) {
        match (codex(wanted, config, env), wanted["error"].is_string()) {
            (Err(_), true) | (Ok(()), false) => {}
            (Ok(()), true) => return Err(format!("{config} was accepted")),
            (Err(why), false) => return Err(format!("{config}: {why}")),
        }
    }
    Ok(())
}
