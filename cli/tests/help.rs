//! Everything said before a run begins: help, and what is wrong with what was typed.

mod common;

use common::Place;

#[test]
fn help() {
    let place = Place::new();
    for (name, args) in [
        ("help/nothing", ""),
        ("help/short", "-h"),
        ("help/long", "--help"),
        ("help/train", "train -h"),
        ("help/eval", "eval -h"),
        ("help/demo", "demo -h"),
        ("help/runs", "runs -h"),
        ("help/show", "show -h"),
        ("help/watch", "watch -h"),
        ("help/top", "top -h"),
        ("help/replay", "replay -h"),
        ("help/config", "config -h"),
        ("help/config-show", "config show -h"),
        ("help/doctor", "doctor -h"),
        ("help/completions", "completions -h"),
        ("help/sim-serve", "sim serve -h"),
        ("help/sim-data", "sim data -h"),
        ("help/materialize", "materialize-searchqa -h"),
        ("help/up", "up -h"),
        ("help/coordinator", "coordinator -h"),
        ("help/worker", "worker -h"),
        ("help/submit", "submit -h"),
        ("help/submit-nothing", "submit"),
        ("help/submit-train", "submit train -h"),
        ("help/submit-eval", "submit eval -h"),
        ("help/submit-sweep", "submit sweep -h"),
        ("help/cancel", "cancel -h"),
        ("help/pause", "pause -h"),
        ("help/resume", "resume -h"),
        ("help/export", "export -h"),
        ("help/workers", "workers -h"),
        ("help/workers-drain", "workers drain -h"),
        ("help/usage", "usage -h"),
        ("help/caps", "caps -h"),
        ("help/why", "why -h"),
        ("help/token", "token -h"),
        ("help/token-create", "token create -h"),
        ("help/token-list", "token list -h"),
        ("help/token-revoke", "token revoke -h"),
    ] {
        place.golden(name, args);
    }
}

#[test]
fn the_long_help_of_train_has_a_flag_for_every_key() {
    let help = Place::new().run("train --help").out;
    for flag in [
        "--skill_update_mode",
        "--lr_scheduler",
        "--split_dir",
        "--judge_model",
        "--qwen_chat_base_url",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    let mut flags = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'));
    assert!(
        !flags.any(|line| line.contains("api_key")),
        "credentials are hidden"
    );
}

#[test]
fn what_is_typed_wrong() {
    let place = Place::with_data();
    place.write("bad.yaml", "_base_: run.yaml\ntrain:\n  batch_size: 0\n  num_epoch: 3\noptimizer:\n  lr_scheduler: cosin\n");
    place.write("loop.yaml", "_base_: loop.yaml\n");
    place.write(
        "none.yaml",
        "_base_: run.yaml\nenv:\n  split_dir: nowhere\n",
    );
    place.write("broken.yaml", "train: [1, 2\n");
    for (name, args) in [
        ("wrong/command", "trian"),
        ("wrong/flag", "train run.yaml --edit_budgt 3"),
        ("wrong/no-config", "train"),
        ("wrong/missing-file", "train runn.yaml"),
        ("wrong/not-yaml", "train broken.yaml"),
        ("wrong/bad-config", "train bad.yaml"),
        ("wrong/bad-config-json", "train bad.yaml --json"),
        ("wrong/base-cycle", "train loop.yaml"),
        ("wrong/no-data", "train none.yaml"),
        ("wrong/set", "train run.yaml --set train.batch_size"),
        ("wrong/flag-value", "train run.yaml --use_gate maybe"),
        (
            "wrong/backend",
            "train run.yaml --backend simulated --target_backend cursor_exec",
        ),
        ("wrong/benchmark", "train run.yaml --env searchq"),
        ("wrong/slots", "train run.yaml --slots 100000000"),
        ("wrong/no-skill", "train run.yaml --skill_init nowhere.md"),
        ("wrong/eval-no-skill", "eval run.yaml --skill nowhere.md"),
        (
            "wrong/eval-split",
            "eval run.yaml --skill run.yaml --split tset",
        ),
        ("wrong/show-nothing", "show outputs"),
        ("wrong/runs-nothing", "runs nowhere"),
        ("wrong/replay-nothing", "replay nowhere"),
        ("wrong/sim-setting", "sim serve --p429 2"),
        ("wrong/sim-address", "sim serve --listen nowhere"),
        ("wrong/cluster-command", "cancle 3f9c"),
        ("wrong/submit-command", "submit trian"),
        ("wrong/submit-nowhere", "submit train run.yaml"),
        (
            "wrong/submit-bad-config",
            "submit train bad.yaml --coordinator http://127.0.0.1:1",
        ),
        (
            "wrong/submit-no-skill",
            "submit eval run.yaml --skill nowhere.md --coordinator http://127.0.0.1:1",
        ),
        (
            "wrong/submit-dollars",
            "submit train run.yaml --usd 5e3 --coordinator http://127.0.0.1:1",
        ),
        ("wrong/workers-nowhere", "workers"),
        (
            "wrong/coordinator-plain",
            "workers --coordinator http://cluster.example:7420",
        ),
        (
            "wrong/coordinator-address",
            "why 3f9c --coordinator cluster.example:7420",
        ),
        (
            "wrong/coordinator-login",
            "why 3f9c --coordinator https://me:secret@cluster.example",
        ),
        ("wrong/worker-slots", "worker --slots chta=3"),
        ("wrong/worker-no-redis", "worker"),
        ("wrong/coordinator-no-redis", "coordinator"),
        ("wrong/coordinator-key", "coordinator --tls-cert cert.pem"),
        ("wrong/token-role", "token create --name ci --role admni"),
        ("wrong/up-workers", "up --workers 0"),
    ] {
        place.golden(name, args);
    }
    assert!(!place.path("outputs").exists(), "nothing was begun");
}

#[test]
fn credentials_on_the_command_line_are_told_of_and_not_shown() {
    let place = Place::with_data();
    let seen = place.run("config show run.yaml --openai_compatible_api_key sk-secret-1 --origin");
    assert_eq!(seen.code, 0, "{seen:?}");
    assert!(
        seen.err.contains("OPENAI_COMPATIBLE_API_KEY"),
        "{}",
        seen.err
    );
    assert!(
        !seen.out.contains("sk-secret") && !seen.err.contains("sk-secret"),
        "{seen:?}"
    );
}

#[test]
fn colour_obeys_flag_and_environment() {
    let place = Place::with_data();
    let coloured = |args: &str, env: &[(&str, &str)]| {
        let output = place
            .command(args)
            .envs(env.iter().copied())
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap().contains("\x1b[")
    };
    for (args, env, want) in [
        ("show x", &[][..], false),
        ("show x --color always", &[], true),
        ("show x", &[("CLICOLOR_FORCE", "1")], true),
        (
            "show x",
            &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
            false,
        ),
        ("show x --color never", &[("CLICOLOR_FORCE", "1")], false),
    ] {
        assert_eq!(coloured(args, env), want, "{args} {env:?}");
    }
}
