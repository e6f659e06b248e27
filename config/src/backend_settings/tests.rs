//! Where settings of backends come from, and what wins.

use serde_json::{Map, Value, json};
use skillopt_core::job::Profile;
use skillopt_core::role::Role;

use crate::{Context, Flat, Origin, RunConfig};

type Vars<'a> = &'a [(&'a str, &'a str)];

/// Resolves a configuration; `shipped` stands in a base file that comes with the program.
fn resolve(shipped: &Value, own: &Value, vars: Vars<'_>) -> Result<RunConfig, String> {
    let env = |name: &str| {
        let found = vars.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let layer = |map: &Value, path: &str| {
        let origin = Origin::File {
            path: path.into(),
            line: 1,
            column: 1,
        };
        Flat::from_json(map.as_object().unwrap(), &origin)
    };
    let flat = layer(shipped, "configs/_base_/default.yaml").overlaid(layer(own, "own.yaml"));
    let context = Context {
        benchmarks: None,
        env: &env,
    };
    RunConfig::resolve(&flat, &context)
        .map(|(config, _)| config)
        .map_err(|e| e.to_string())
}

fn profile(config: &RunConfig, role: Role) -> Profile {
    let (backend, model) = match role {
        Role::Optimizer => (&config.optimizer_backend, &config.optimizer_model),
        Role::Target => (&config.target_backend, &config.target_model),
    };
    let mut profile = Profile {
        role: role.as_str().to_owned(),
        backend: backend.clone(),
        model: model.clone(),
        endpoint: String::new(),
        temperature: None,
        max_tokens: 0,
        reasoning_effort: String::new(),
        settings: Map::new(),
    };
    config.backends.describe(role, &mut profile);
    profile
}

const QWEN: (&str, &str) = ("TARGET_BACKEND", "qwen_chat");

#[test]
fn the_environment_names_backends_and_models_that_nobody_else_names() {
    let vars = [QWEN, ("TARGET_DEPLOYMENT", "d")];
    for (shipped, own, backend, model) in [
        (json!({}), json!({}), "qwen_chat", "d"),
        (
            json!({"backend": "azure_openai", "target_backend": "openai_chat", "target_model": "gpt-5.5"}),
            json!({}),
            "qwen_chat",
            "d",
        ),
        (
            json!({}),
            json!({"target_backend": "minimax_chat", "target_model": "m"}),
            "minimax_chat",
            "m",
        ),
        (json!({}), json!({"backend": "claude"}), "claude_chat", "d"),
    ] {
        let config = resolve(&shipped, &own, &vars).unwrap();
        assert_eq!(config.target_backend, backend, "{shipped} {own}");
        assert_eq!(config.target_model, model, "{shipped} {own}");
    }
    let vars = [QWEN, ("TARGET_DEPLOYMENT", "d"), ("QWEN_CHAT_MODEL", "q")];
    let config = resolve(&json!({}), &json!({}), &vars).unwrap();
    assert_eq!(config.target_model, "q");
    let error = resolve(&json!({}), &json!({}), &[("TARGET_BACKEND", "nope")]).unwrap_err();
    assert!(error.contains("TARGET_BACKEND"), "{error}");
}

#[test]
fn a_shipped_base_file_ranks_below_the_environment() {
    let vars = [QWEN, ("QWEN_CHAT_TEMPERATURE", "0.1")];
    for (shipped, own, want) in [
        (json!({"qwen_chat_temperature": "0.7"}), json!({}), 0.1),
        (json!({}), json!({"qwen_chat_temperature": "0.7"}), 0.7),
        (
            json!({"target_qwen_chat_temperature": 0.7}),
            json!({"qwen_chat_temperature": 0.3}),
            0.3,
        ),
    ] {
        let config = resolve(&shipped, &own, &vars).unwrap();
        let seen = profile(&config, Role::Target).temperature;
        assert_eq!(seen, Some(want), "{shipped} {own}");
    }
}

#[test]
fn words_and_blanks_leave_a_number_out() {
    for (vars, want) in [
        (&[][..], Some(0.7)),
        (&[("QWEN_CHAT_TEMPERATURE", " OFF ")], None),
        (&[("QWEN_CHAT_TEMPERATURE", " ")], None),
        (
            &[
                ("QWEN_CHAT_TEMPERATURE", "0.4"),
                ("TARGET_QWEN_CHAT_TEMPERATURE", ""),
            ],
            None,
        ),
        (&[("QWEN_CHAT_TEMPERATURE", "0")], Some(0.0)),
    ] {
        let vars: Vec<_> = vars.iter().copied().chain([QWEN]).collect();
        let config = resolve(&json!({}), &json!({}), &vars).unwrap();
        let seen = profile(&config, Role::Target).temperature;
        assert_eq!(seen, want, "{vars:?}");
    }
}

#[test]
fn a_wrong_variable_fails_the_runs_that_use_its_backend_only() {
    let vars = [("MINIMAX_REGION", "apac")];
    resolve(&json!({}), &json!({}), &vars).unwrap();
    let own = json!({"target_backend": "minimax_chat"});
    let error = resolve(&json!({}), &own, &vars).unwrap_err();
    assert!(error.contains("MINIMAX_REGION"), "{error}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let own = json!({
        "target_backend": "qwen_chat", "qwen_chat_enable_thinking": true,
        "qwen_chat_thinking_mode": "disabled",
    });
    let error = resolve(&json!({}), &own, &[]).unwrap_err();
    assert!(error.contains("qwen_chat_thinking_mode"), "{error}");
    // What the configuration says counts more than what is left in the environment.
    let own = json!({"target_backend": "qwen_chat", "qwen_chat_thinking_mode": "disabled"});
    let vars = [("QWEN_CHAT_ENABLE_THINKING", "true")];
    let config = resolve(&json!({}), &own, &vars).unwrap();
    let settings = profile(&config, Role::Target).settings;
    assert_eq!(Value::from(settings), json!({"enable_thinking": false}));
}

#[test]
fn a_role_has_two_spellings_in_the_environment() {
    let vars = [
        ("AZURE_OPENAI_ENDPOINT", "http://shared"),
        ("AZURE_OPENAI_OPTIMIZER_ENDPOINT", "http://infix"),
        ("AZURE_OPENAI_TARGET_ENDPOINT", "http://infix"),
        ("TARGET_AZURE_OPENAI_ENDPOINT", "http://prefix"),
    ];
    let config = resolve(&json!({}), &json!({}), &vars).unwrap();
    assert_eq!(profile(&config, Role::Optimizer).endpoint, "http://infix");
    assert_eq!(profile(&config, Role::Target).endpoint, "http://prefix");
}
