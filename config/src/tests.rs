//! Whole configurations: what is refused, what is put right, and what is shown.

use std::path::Path;

use serde_json::{Map, Value, json};
use skillopt_core::job::Profile;

use crate::*;

const KNOWN: &[&str] = &["searchqa", "docvqa"];

fn flat(yaml: &str, sets: &[&str]) -> Flat {
    let map = yaml::parse(yaml, "run.yaml").expect("valid YAML");
    let mut flat = Flat::from_layer(map);
    for text in sets {
        flat.set(text).expect("an override");
    }
    flat
}

fn resolve(yaml: &str, sets: &[&str]) -> Result<(RunConfig, Vec<Warning>), Errors> {
    resolve_with(yaml, sets, &|_| None)
}

fn resolve_with(
    yaml: &str,
    sets: &[&str],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(RunConfig, Vec<Warning>), Errors> {
    let benchmarks = Some(KNOWN);
    RunConfig::resolve(&flat(yaml, sets), &Context { benchmarks, env })
}

#[test]
fn what_is_refused() {
    for (yaml, sets, wants) in [
        (
            "env: {name: serchqa}",
            vec![],
            vec!["env.name", "`searchqa`?", "run.yaml:1:13"],
        ),
        ("train: {seed: 1}", vec![], vec!["names no benchmark"]),
        (
            "env: {name: alfworld}",
            vec![],
            vec!["env.name", "cannot run it yet"],
        ),
        (
            "train: {batch_sizes: 4}",
            vec![],
            vec!["train.batch_sizes", "`train.batch_size`?"],
        ),
        (
            "train: {use_gate: true}",
            vec![],
            vec!["`evaluation.use_gate`?"],
        ),
        (
            "optimizer: {edit_budget: 3}",
            vec![],
            vec!["`optimizer.learning_rate`?"],
        ),
        (
            "",
            vec!["train.zzz=1"],
            vec!["train.zzz", "--set train.zzz"],
        ),
        (
            "train: {batch_size: 0}",
            vec![],
            vec!["train.batch_size", "at least 1"],
        ),
        ("train: {num_epochs: -1}", vec![], vec!["out of range"]),
        (
            "train: {batch_size: 1e3}",
            vec![],
            vec!["is text, not a number"],
        ),
        (
            "train: {batch_size: 1.5}",
            vec![],
            vec!["not a whole number"],
        ),
        (
            "gradient: {merge_batch_size: 1}",
            vec![],
            vec!["at least 2"],
        ),
        (
            "gradient: {minibatch_size: 0, analyst_workers: 0}",
            vec![],
            vec!["minibatch_size", "analyst_workers"],
        ),
        (
            "optimizer: {learning_rate: 0}",
            vec![],
            vec!["optimizer.learning_rate"],
        ),
        (
            "optimizer: {lr_scheduler: cosin}",
            vec![],
            vec!["`cosine`?", "`linear`"],
        ),
        (
            "optimizer: {lr_scheduler: Cosine}",
            vec![],
            vec!["spelled exactly"],
        ),
        (
            "optimizer: {skill_update_mode: pach}",
            vec![],
            vec!["`patch`?"],
        ),
        (
            "optimizer: {use_skill_aware_reflection: true, skill_update_mode: rewrite}",
            vec![],
            vec!["appendix"],
        ),
        (
            "evaluation: {use_gate: 'yes'}",
            vec![],
            vec!["use_gate", "truth value"],
        ),
        ("evaluation: {use_gate: 0}", vec![], vec!["truth value"]),
        (
            "evaluation: {gate_mixed_weight: 1.5}",
            vec![],
            vec!["from 0 to 1"],
        ),
        (
            "evaluation: {gate_mixed_weight: .nan}",
            vec![],
            vec!["finite"],
        ),
        ("evaluation: {gate_metric: sof}", vec![], vec!["`soft`?"]),
        (
            "env: {split_ratio: 2:1:7}",
            vec![],
            vec!["base 60", "\"2:1:7\""],
        ),
        ("env: {split_ratio: '2:1'}", vec![], vec!["is no ratio"]),
        (
            "env: {split_mode: split_dir}",
            vec![],
            vec!["env.split_dir"],
        ),
        (
            "train: {train_size: 50}\nenv: {limit: 10}",
            vec![],
            vec!["train.train_size", "env.limit: 10"],
        ),
        (
            "model: {backend: clade}",
            vec![],
            vec!["model.backend", "`claude_chat`?"],
        ),
        (
            "model: {optimizer_backend: cursor_exec}",
            vec![],
            vec!["for the optimizer"],
        ),
        (
            "model: {target_backend: openai_chta}",
            vec![],
            vec!["`openai_chat`?"],
        ),
        (
            "model: {sim: {p42: 0.1}}",
            vec![],
            vec!["model.sim.p42", "`p429`?"],
        ),
        (
            "model: {openai_compatible_max_tokens: none}",
            vec![],
            vec!["openai_compatible_max_tokens"],
        ),
        (
            "model: {retry_base_ms: 90000}",
            vec![],
            vec!["retry_cap_ms"],
        ),
        ("model: {reasoning_effort: hihg}", vec![], vec!["`high`?"]),
        ("model: {target: true}", vec![], vec!["quote it"]),
    ] {
        let errors = resolve(yaml, &sets).expect_err(yaml).to_string();
        for want in wants {
            assert!(errors.contains(want), "{yaml}: `{want}` not in\n{errors}");
        }
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let yaml = "train: {batch_size: 0, sed: 1}\nenv: {name: x}\nevaluation: {use_gate: maybe}\n";
    assert_eq!(resolve(yaml, &[]).expect_err("faults").0.len(), 4);
}

#[test]
fn what_is_put_right_or_warned_about() {
    for (yaml, sets, warning, key, want) in [
        (
            "optimizer: {learning_rate: 1, min_learning_rate: 2}",
            vec![],
            Some("1 is used"),
            "min_edit_budget",
            json!(1),
        ),
        (
            "optimizer: {learning_rate: 1}",
            vec![],
            None,
            "min_edit_budget",
            json!(1),
        ),
        (
            "optimizer: {lr_control_mode: off}",
            vec![],
            None,
            "lr_control_mode",
            json!("none"),
        ),
        (
            "optimizer: {skill_update_mode: full_rewrite}",
            vec![],
            None,
            "lr_control_mode",
            json!("none"),
        ),
        (
            "gradient: {max_analyst_rounds: 3}",
            vec![],
            Some("no effect"),
            "seed",
            json!(42),
        ),
        (
            "model: {target_minimax_api_key: k}",
            vec![],
            Some("both roles"),
            "seed",
            json!(42),
        ),
        (
            "batchsize: 3",
            vec![],
            Some("`batch_size`?"),
            "batchsize",
            json!(3),
        ),
        ("train: 5", vec![], Some("not a mapping"), "seed", json!(42)),
        (
            "env: {split_dri: x}",
            vec![],
            Some("`env.split_dir`?"),
            "split_dri",
            json!("x"),
        ),
        (
            "env: {batch_size: 3}",
            vec![],
            Some("`train.batch_size`?"),
            "batch_size",
            json!(40),
        ),
        (
            "env: {my_own_setting: 3, benchmark_dir: x}",
            vec![],
            None,
            "my_own_setting",
            json!(3),
        ),
        ("train: {seed: null}", vec![], None, "seed", json!(42)),
        (
            "model: {backend: claude}",
            vec![],
            None,
            "target_model",
            json!("claude-sonnet-4-6"),
        ),
        (
            "model: {backend: claude, target: gpt-5.5}",
            vec![],
            None,
            "target_model",
            json!("gpt-5.5"),
        ),
        (
            "model: {backend: compat}",
            vec![],
            None,
            "optimizer_model",
            json!("gpt-4o-mini"),
        ),
        (
            "model: {backend: simulated}",
            vec![],
            None,
            "target_model",
            json!("sim-target"),
        ),
        (
            "model: {backend: cursor}",
            vec![],
            None,
            "optimizer_backend",
            json!("openai_chat"),
        ),
        (
            "model: {backend: claude}",
            vec!["model.target_backend=openai_chat"],
            None,
            "target_backend",
            json!("openai_chat"),
        ),
        (
            "",
            vec!["model.target=007"],
            None,
            "target_model",
            json!("007"),
        ),
        (
            "",
            vec!["model.sim_p429=0.05", "model.sim.seed=7"],
            None,
            "sim",
            json!({"p429": 0.05, "seed": 7}),
        ),
        (
            "",
            vec!["model.openai_compatible_api_key=k"],
            Some("OPENAI_COMPATIBLE_API_KEY"),
            "openai_compatible_api_key",
            json!("***"),
        ),
        (
            "evaluation: {leading_words: 'must, never'}",
            vec![],
            None,
            "leading_words",
            json!(["must", "never"]),
        ),
        ("env: {hedge: 0.1}", vec![], None, "hedge", json!(0.1)),
        (
            "env: {hedge: 0.1}",
            vec!["budget.requests=5"],
            Some("where a cap pays (`budget.requests`), no call is made twice"),
            "hedge",
            json!(0.1),
        ),
        (
            "env: {image_detail: low}",
            vec![],
            None,
            "image_detail",
            json!("low"),
        ),
    ] {
        let mut sets = sets;
        sets.push("env.name=searchqa");
        let (config, warnings) = resolve(yaml, &sets).unwrap_or_else(|e| panic!("{yaml}: {e}"));
        assert_eq!(shown(&config).get(key), Some(&want), "{yaml} {sets:?}");
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let warnings = warnings.join("\n");
        match warning {
            Some(text) => assert!(warnings.contains(text), "{yaml}: {warnings}"),
            None => assert_eq!(warnings, "", "{yaml}"),
        }
    }
}

#[test]
fn the_environment_fills_what_is_unset() {
    let env = |name: &str| {
        Some(match name {
            "OPENAI_COMPATIBLE_BASE_URL" => "http://shared/v1/".to_owned(),
            "TARGET_OPENAI_COMPATIBLE_BASE_URL" => "http://target/v1".to_owned(),
            "OPENAI_COMPATIBLE_API_KEY" => "sk-1".to_owned(),
            "OPENAI_COMPATIBLE_TEMPERATURE" => "0".to_owned(),
            _ => return None,
        })
    };
    let yaml = "env: {name: searchqa}\nmodel: {openai_compatible_api_key: ''}\n";
    let (config, _) = resolve_with(yaml, &[], &env).expect("valid");
    let optimizer = described(&config, Role::Optimizer);
    assert_eq!(optimizer.endpoint, "http://shared/v1");
    assert_eq!(optimizer.temperature, Some(0.0));
    let key = config
        .backends
        .secret(Role::Optimizer, "openai_compatible_api_key");
    assert_eq!(key.map(Secret::expose), Some("sk-1"));
    let target = described(&config, Role::Target);
    assert_eq!(target.endpoint, "http://target/v1");
    let sets = ["model.openai_compatible_base_url=http://file/v1"];
    let (config, _) = resolve_with(yaml, &sets, &env).expect("valid");
    let target = described(&config, Role::Target);
    assert_eq!(target.endpoint, "http://file/v1", "the configuration wins");
}

fn described(config: &RunConfig, role: Role) -> Profile {
    let mut profile = Profile {
        role: role.as_str().to_owned(),
        backend: "openai_compatible".to_owned(),
        model: "m".to_owned(),
        endpoint: String::new(),
        temperature: None,
        max_tokens: 0,
        reasoning_effort: String::new(),
        settings: Map::new(),
    };
    config.backends.describe(role, &mut profile);
    profile
}

#[test]
fn a_call_of_the_target_has_the_limit_that_somebody_set() {
    for (backend, sets, seconds, is_warned) in [
        ("openai_compatible", vec![], 300.0, false),
        (
            "openai_compatible",
            vec!["model.target_openai_compatible_timeout_seconds=600"],
            600.0,
            false,
        ),
        (
            "openai_compatible",
            vec![
                "model.openai_compatible_timeout_seconds=7",
                "env.exec_timeout=60",
            ],
            60.0,
            false,
        ),
        (
            "openai_compatible",
            vec![
                "model.target_openai_compatible_timeout_seconds=600",
                "env.exec_timeout=60",
            ],
            60.0,
            true,
        ),
        // It knows of no limit of its own, and an agent's task is many calls.
        ("simulated", vec![], 120.0, false),
        ("codex_exec", vec![], 120.0, false),
    ] {
        let target = format!("model.target_backend={backend}");
        let mut all = vec![target.as_str()];
        all.extend(sets);
        let (config, warnings) = resolve("env: {name: searchqa}", &all).expect("valid");
        let limit = config.call_seconds(Role::Target);
        assert!((limit - seconds).abs() < 1e-9, "{all:?}: {limit}");
        let warned = warnings.iter().any(|w| w.key == "env.exec_timeout");
        assert_eq!(warned, is_warned, "{all:?}: {warnings:?}");
    }
}

#[test]
fn a_limit_of_answers_that_the_backend_cuts_is_said() {
    for (backend, more, tokens, is_warned) in [
        ("openai_compatible", "", "16384", true),
        ("openai_compatible", "", "8000", false),
        (
            "openai_compatible",
            "model.target_openai_compatible_max_tokens=500",
            "501",
            true,
        ),
        ("openai_chat", "", "64000", false),
    ] {
        let target = format!("model.target_backend={backend}");
        let limit = format!("env.max_completion_tokens={tokens}");
        let mut sets = vec![target.as_str(), limit.as_str()];
        sets.extend(Some(more).filter(|more| !more.is_empty()));
        let (_, warnings) = resolve("env: {name: searchqa}", &sets).expect("valid");
        let warned = warnings
            .iter()
            .any(|w| w.key == "env.max_completion_tokens");
        assert_eq!(warned, is_warned, "{sets:?}: {warnings:?}");
        // Nobody is told of what nobody has set.
        let (_, warnings) = resolve("env: {name: searchqa}", &sets[..1]).expect("valid");
        assert!(
            !warnings
                .iter()
                .any(|w| w.key == "env.max_completion_tokens")
        );
    }
}

#[test]
fn what_the_program_of_an_agent_is_not_told_is_said() {
    let declared =
        "model.agent_cli={name: a, command: [a, --effort, \"{effort}\"], skills: s, wire: chat}";
    let set = ["model.reasoning_effort", "env.max_completion_tokens"];
    for (backend, more, values, want) in [
        (
            "codex_exec",
            "",
            ["high", "900"],
            [None, Some("no setting")],
        ),
        ("claude_code_exec", "", ["medium", "900"], [None, None]),
        ("copilot_exec", "", ["high", "900"], [None, None]),
        (
            "copilot_exec",
            "",
            ["medium", "16384"],
            [Some("the usual value"); 2],
        ),
        ("cursor_exec", "", ["max", "900"], [Some("no setting"); 2]),
        // Whoever wants nothing sent loses nothing.
        (
            "cursor_exec",
            "",
            ["none", "16384"],
            [None, Some("no setting")],
        ),
        (
            "declared_exec",
            "",
            ["low", "900"],
            [Some("`{effort}`"), Some("no setting")],
        ),
        (
            "declared_exec",
            declared,
            ["low", "900"],
            [None, Some("no setting")],
        ),
        // What the role has of its own takes the place of what both share.
        (
            "codex_exec",
            "model.codex_exec_reasoning_effort=none",
            ["high", "900"],
            [None, Some("no setting")],
        ),
        ("openai_compatible", "", ["high", "900"], [None, None]),
    ] {
        let own = [0, 1].map(|at| format!("{}={}", set[at], values[at]));
        let target = format!("model.target_backend={backend}");
        let mut sets = vec![target.as_str(), &own[0], &own[1]];
        sets.extend(Some(more).filter(|more| !more.is_empty()));
        let (_, warnings) = resolve("env: {name: searchqa}", &sets).expect("valid");
        for (key, want) in set.iter().zip(want) {
            let said = warnings.iter().find(|warning| warning.key == *key);
            let said = said.map(ToString::to_string);
            let is_as_wanted = match (&said, want) {
                (Some(said), Some(word)) => said.contains(word) && said.contains(backend),
                (said, want) => said.is_some() == want.is_some(),
            };
            assert!(is_as_wanted, "{sets:?}: {said:?}, wanted {want:?}");
        }
        // Nobody is told of what nobody has set.
        let (_, warnings) = resolve("env: {name: searchqa}", &sets[..1]).expect("valid");
        let about = |warning: &&Warning| set.contains(&warning.key.as_str());
        assert_eq!(warnings.iter().find(about), None, "{backend}");
    }
}

#[test]
fn the_usual_effort_is_the_one_that_agents_leave_to_their_programs() {
    let usual = RunConfig::default().reasoning_effort;
    assert_eq!(usual.as_str(), skillopt_backends::agents::USUAL_EFFORT);
}

#[test]
fn limits_of_one_task_have_bounds() {
    let yaml = "env: {name: searchqa}\nmodel: {target_backend: codex_exec}";
    for (set, want) in [
        ("model.agent_max_memory_mib=64", None),
        ("model.agent_max_memory_mib=63", Some("from 64 to 1048576")),
        ("model.agent_max_memory_mib=2GiB", Some("a whole number")),
        ("model.agent_max_disk_mib=0", Some("from 16 to 1048576")),
        ("model.agent_max_processes=8", Some("from 64 to 32768")),
        ("model.agent_max_process=64", Some("agent_max_processes")),
    ] {
        let refused = resolve(yaml, &[set]).err().map(|e| e.to_string());
        let is_as_wanted = match (&refused, want) {
            (Some(words), Some(want)) => words.contains(want),
            (words, want) => words.is_some() == want.is_some(),
        };
        assert!(is_as_wanted, "{set}: {refused:?}");
    }
}

#[test]
fn credentials_are_never_shown() {
    let yaml = "env: {name: searchqa, search_token: tok-9, own: {password: pw-9}}\n\
                model: {azure_openai_api_key: sk-9, target_qwen_chat_api_key: 99}\n\
                x: {y_secret: se-9}\n";
    let (config, warnings) = resolve(yaml, &[]).expect("valid");
    let all = format!("{config:?} {warnings:?} {:?}", flat(yaml, &[]).known);
    let json = Value::Object(to_config_json(&config, None)).to_string();
    for text in [all, json] {
        for secret in ["tok-9", "pw-9", "sk-9", "se-9", "99"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    assert_eq!(
        config
            .backends
            .secret(Role::Target, "qwen_chat_api_key")
            .map(Secret::expose),
        Some("99")
    );
}

#[test]
fn an_address_with_a_credential_is_refused_without_repeating_it() {
    let yaml = "env: {name: searchqa}\nmodel: {backend: compat}\n";
    let set = "model.target_openai_compatible_base_url=";
    for (address, want) in [
        ("https://u:pw-9@h/v1", "password"),
        ("https://h/v1?key=pw-9", "`?`"),
        ("https://h/v1#pw-9", "`?`"),
    ] {
        let env = |name: &str| {
            (name == "OPTIMIZER_OPENAI_COMPATIBLE_BASE_URL").then(|| address.to_owned())
        };
        let sets = format!("{set}{address}");
        for (error, key) in [
            (resolve(yaml, &[&sets]), "--set model.target_openai"),
            (resolve_with(yaml, &[], &env), "variable OPTIMIZER_OPENAI"),
        ] {
            let text = error.expect_err(address).to_string();
            assert!(text.contains(want) && text.contains(key), "{text}");
            assert!(!text.contains("pw-9"), "{text}");
        }
        // Nor is one shown where the address itself is not what is wrong.
        let text = resolve(yaml, &["model.reasoning_effort=https://u:pw-9@h"]).expect_err("word");
        assert!(!text.to_string().contains("pw-9"), "{text}");
        // A backend that is not used may have one; it is not written.
        let (config, _) = resolve("env: {name: searchqa}", &[&sets]).expect("valid");
        let json = Value::Object(to_config_json(&config, None)).to_string();
        assert!(
            json.contains("https://h/v1") && !json.contains("pw-9"),
            "{json}"
        );
    }
}

#[test]
fn differences_that_matter() {
    let json = |sets: &[&str]| {
        let (config, _) = resolve("env: {name: searchqa}", sets).expect("valid");
        to_config_json(&config, None)
    };
    let base = json(&[]);
    for (set, want) in [
        ("env.workers=3", None),
        ("env.slots=3", None),
        ("env.out_root=/x", None),
        ("model.retry_attempts=3", None),
        ("model.target_openai_compatible_timeout_seconds=3", None),
        ("model.openai_compatible_api_key=k", None),
        ("env.exec_timeout=0.5", None),
        ("train.seed=7", Some("seed")),
        ("env.own=1", Some("own")),
        (
            "model.openai_compatible_base_url=http://h/v1",
            Some("openai_compatible_base_url"),
        ),
    ] {
        let found = differs(&base, &json(&[set]));
        assert_eq!(found.first().map(|d| d.0.as_str()), want, "{set}");
    }
}

#[test]
fn sizes() {
    let (config, _) = resolve(
        "env: {name: searchqa}\ntrain: {num_epochs: 2, batch_size: 3, accumulation: 2}",
        &[],
    )
    .expect("valid");
    let sizes = Sizes::derive(&config, 20).expect("sizes");
    assert_eq!(
        (
            sizes.steps_per_epoch,
            sizes.batches_per_epoch,
            sizes.total_steps
        ),
        (4, 8, 8)
    );
    assert_eq!(Sizes::derive(&config, 0), Err(SizeError::Unknown));
    let sized = RunConfig {
        train_size: 10,
        ..config
    };
    assert!(Sizes::derive(&sized, 20).is_err());
}

#[test]
fn flags_reach_their_keys() {
    let all = flags();
    let find = |name: &str| all.iter().find(|f| f.name == name).expect("a flag");
    let mut flat = flat("env: {name: searchqa}", &[]);
    for (name, value) in [
        ("edit_budget", "3"),
        ("use_gate", "0"),
        ("backend", "qwen"),
        ("target_backend", "openai_chat"),
        ("judge_model", "m"),
    ] {
        flat.set_flag(find(name), value).expect(name);
    }
    assert!(flat.set_flag(find("eval_test"), "maybe").is_err());
    let (config, _) = RunConfig::resolve(&flat, &Context::BARE).expect("valid");
    assert_eq!(config.edit_budget, 3);
    assert!(!config.use_gate);
    assert_eq!(config.target_backend, "openai_chat");
    assert_eq!(config.env_extra.get("judge_model"), Some(&json!("m")));
    assert_eq!(config.origin("edit_budget").to_string(), "--edit_budget");
}

#[test]
fn every_default_passes_its_own_check() {
    for key in KEYS {
        let value = (key.default)();
        if value.is_null() || value == json!("") {
            continue;
        }
        let node = node::Node::from_json(&value, &Origin::Default);
        assert!(setting::check(&key.kind, &node).is_ok(), "{}", key.name);
    }
}

#[test]
fn shipped_files_load() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    for (file, env) in [
        ("_base_/default.yaml", ""),
        ("features/soft_gate.yaml", ""),
        ("searchqa/default.yaml", "searchqa"),
        ("searchqa/mini.yaml", "searchqa"),
        ("docvqa/default.yaml", "docvqa"),
        ("officeqa/default.yaml", "officeqa"),
        ("spreadsheetbench/default.yaml", "spreadsheetbench"),
        (
            "livemathematicianbench/default.yaml",
            "livemathematicianbench",
        ),
        ("alfworld/default.yaml", "alfworld"),
    ] {
        let mut flat = load(&root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        flat.set("model.backend=claude").expect("an override");
        let (config, warnings) =
            RunConfig::resolve(&flat, &Context::BARE).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!(warnings, [], "{file}");
        assert_eq!(config.env, env);
        assert_eq!(config.lr_scheduler, LrScheduler::Cosine, "{file}");
        assert_eq!(
            config.target_model, "claude-sonnet-4-6",
            "a shipped default is no choice"
        );
    }
}

#[test]
fn the_reference_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    if std::env::var_os("SKILLOPT_BLESS").is_some() {
        std::fs::write(&path, reference_page()).expect("the page is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed.replace("\r\n", "\n") == reference_page(),
        "docs/configuration.md is stale; run `SKILLOPT_BLESS=1 cargo test -p skillopt-config`"
    );
}
