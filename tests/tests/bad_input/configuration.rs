//! Configuration files and overrides.

use skillopt_tests::support::World;
use skillopt_tests::support::program::{command, run};
use skillopt_tests::support::sim::closed_port;

use crate::refused;

/// Adds one override.
#[track_caller]
fn check(set: &str, words: &[&str]) {
    refused(&World::new(), &["--set", set], words);
}

#[test]
fn a_typo_names_the_nearest_key() {
    check("train.batchsize=8", &["batchsize", "`train.batch_size`"]);
    check(
        "optimizer.lr_schedular=cosine",
        &["lr_schedular", "lr_scheduler"],
    );
    check("optimizer.lr_scheduler=cosin", &["cosin", "cosine"]);
    check("env.name=serchqa", &["serchqa", "searchqa"]);
    check(
        "optimizer.skill_update_mode=ful_rewrite_minibatch",
        &["full_rewrite_minibatch"],
    );
    check(
        "model.target_backend=openai_compatibel",
        &["openai_compatible"],
    );
}

#[test]
fn a_typo_in_a_file_is_found_with_its_place() {
    let world = World::new();
    let text = std::fs::read_to_string(world.path("config.yaml")).unwrap();
    world.write("config.yaml", text.replace("num_epochs", "num_epoch"));
    refused(
        &world,
        &[],
        &["num_epoch", "`train.num_epochs`", "config.yaml:"],
    );
}

#[test]
fn sizes_must_be_positive_and_fit() {
    for key in [
        "train.batch_size",
        "train.num_epochs",
        "train.accumulation",
        "gradient.minibatch_size",
        "optimizer.learning_rate",
        "env.max_completion_tokens",
        "env.workers",
    ] {
        for value in ["0", "-3", "1.5", "many", "99999999999999999999"] {
            check(&format!("{key}={value}"), &[key]);
        }
    }
    check(
        "gradient.merge_batch_size=1",
        &["gradient.merge_batch_size"],
    );
    check("env.limit=-1", &["env.limit"]);
    check("env.exec_timeout=0", &["env.exec_timeout"]);
    check("env.exec_timeout=nan", &["env.exec_timeout"]);
    check(
        "evaluation.gate_mixed_weight=1.5",
        &["evaluation.gate_mixed_weight"],
    );
    refused(&World::new(), &["--slots", "0"], &["slots"]);
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    check("train.train_size=99", &["train_size", "99", "24"]);
    check(
        "model.retry_base_ms=99",
        &["model.retry_base_ms", "model.retry_cap_ms: 10"],
    );
    refused(
        &World::new(),
        &["--set", "env.limit=5", "train.train_size=24"],
        &["train.train_size", "env.limit: 5"],
    );
}

#[test]
fn a_file_must_be_there_and_be_a_configuration() {
    let world = World::new();
    std::fs::rename(world.path("config.yaml"), world.path("confg.yaml")).unwrap();
    refused(&world, &[], &["config.yaml", "did you mean", "confg.yaml"]);
    for (content, words) in [
        (&b""[..], &["env.name"][..]),
        (b"- a\n- b\n", &["config.yaml"]),
        (b"train: [1, 2\n", &["config.yaml"]),
        (b"train:\n\tbatch_size: 1\n", &["config.yaml"]),
        (b"train: \xff\xfe\n", &["config.yaml", "UTF-8"]),
    ] {
        let world = World::new();
        world.write("config.yaml", content);
        refused(&world, &[], words);
    }
    let world = World::new();
    world.write("config.yaml", b"[".repeat(100_000));
    refused(&world, &[], &["config.yaml"]);
}

#[test]
fn bases_in_a_circle_or_missing_are_refused() {
    let world = World::new();
    world.write("config.yaml", "_base_: other.yaml\n");
    world.write("other.yaml", "_base_: config.yaml\n");
    refused(&world, &[], &["_base_", "config.yaml", "other.yaml"]);
    world.write("config.yaml", "_base_: config.yaml\n");
    refused(&world, &[], &["_base_", "config.yaml"]);
    world.write("config.yaml", "_base_: nowhere.yaml\n");
    refused(&world, &[], &["nowhere.yaml"]);
}

#[test]
fn an_address_must_be_one() {
    for address in [
        "not an address",
        "localhost:8000/v1",
        "https://",
        "http:///v1",
        "ftp://host/v1",
    ] {
        let url = format!("model.target_openai_compatible_base_url={address}");
        refused(
            &World::new(),
            &["--set", &url],
            &[
                "`model.target_openai_compatible_base_url`",
                "is no address",
                address,
            ],
        );
    }
    // The address of both roles is wrong, which is one fault.
    check(
        "model.openai_compatible_base_url=host",
        &["`model.openai_compatible_base_url`"],
    );
}

/// Nobody listens at the coordinator's address: whatever is sent ends with another code.
#[test]
fn what_no_agent_can_have_is_refused_before_it_is_submitted() {
    let world = World::new();
    world.write("skill.md", "# Skill\n\nAnswer in few words.\n");
    world.write(
        "sweep.yaml",
        "sweep:\n  name: one\n  base: config.yaml\n  models:\n    - name: a\n      model:\n        \
         target: m\n        target_backend: codex_exec\n        codex_exec_profile: prof\n        \
         agent_provider: openai_compatible\n        \
         openai_compatible_base_url: http://127.0.0.1:1/v1\n  benchmarks: [searchqa]\n",
    );
    let nobody = format!("http://127.0.0.1:{}", closed_port());
    let submit = |args: &[&str]| {
        let mut call = command(["submit"].iter().chain(args));
        call.args(["--coordinator", &nobody]);
        run(call.current_dir(world.path("")))
    };
    let agent = [
        "--set",
        "model.target_backend=codex_exec",
        "model.agent_provider=openai_compatible",
        "model.openai_compatible_base_url=http://127.0.0.1:1/v1",
    ];
    let train = [&["train", "config.yaml"][..], &agent].concat();
    let eval = [
        "eval",
        "config.yaml",
        "--skill",
        "skill.md",
        "--split",
        "val",
    ];
    let eval = [&eval[..], &agent].concat();
    for call in [&train, &eval] {
        for (setting, words) in [
            ("model.codex_exec_profile=prof", "`agent_cli`"),
            (
                "model.codex_exec_web_search=true",
                "its model and nothing else",
            ),
            (
                "model.agent_provider=copilot_chat",
                "cannot be its provider",
            ),
        ] {
            let call = [&call[..], &[setting]].concat();
            submit(&call).code(2).says(&["codex_exec", words]);
        }
        submit(call).code(7);
    }
    submit(&["sweep.yaml"])
        .code(2)
        .says(&["codex_exec_profile", "`agent_cli`"]);
}
