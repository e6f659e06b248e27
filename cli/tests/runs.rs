//! Whole runs through the real program, and what can be seen of them afterwards.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod common;

use common::Place;
use serde_json::Value;

#[test]
fn demo() {
    let place = Place::new();
    place.golden("demo", "demo --quiet");
    assert!(place.path("outputs/demo/run/best_skill.md").exists());
    let agrees = place.run("replay outputs/demo/run --quiet");
    assert_eq!(agrees.code, 0, "{agrees:?}");
}

#[test]
fn a_run_and_what_is_seen_of_it() {
    let place = Place::with_data();
    let first = place.run("train run.yaml -q");
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{first:?}");
    assert_eq!(
        place.run("train run.yaml -q"),
        first,
        "the same again, from the store"
    );
    for (name, args) in [
        ("run/train", "train run.yaml -q"),
        ("run/runs", "runs"),
        ("run/show", "show outputs/run"),
        ("run/show-step", "show outputs/run --step 1"),
        ("run/show-step-json", "show outputs/run --step 1 --json"),
        ("run/show-no-step", "show outputs/run --step 40"),
        ("run/show-json", "show outputs/run --json"),
        ("run/replay", "replay outputs/run -q"),
        ("run/replay-json", "replay outputs/run -q --json"),
        ("run/other", "train run.yaml --seed 7"),
        ("run/config-check", "config check run.yaml"),
        ("run/config-show", "config show run.yaml --origin"),
    ] {
        place.golden(name, args);
    }
}

#[test]
fn a_replay_finds_every_change() {
    let place = Place::with_data();
    assert_eq!(place.run("train run.yaml -q").code, 0);
    let write = |path: &str, from: &str, to: &str| {
        let text = place.read(path);
        assert!(text.contains(from), "{path} has no {from}");
        place.write(path, &text.replacen(from, to, 1));
        text
    };
    for (path, from, to) in [
        ("outputs/run/history.json", "\"step\": 1", "\"step\": 2"),
        ("outputs/run/summary.json", "\"version\"", "\"versions\""),
        (
            "outputs/run/steps/step_0001/rollout/results.jsonl",
            "\"hard\":",
            "\"hard\": ",
        ),
        ("outputs/run/skills/skill_v0002.md", "RULE", "RULES"),
    ] {
        let old = write(path, from, to);
        let seen = place.run("replay outputs/run -q");
        assert_eq!(seen.code, 1, "{path}: {seen:?}");
        let name = path.trim_start_matches("outputs/run/");
        assert_eq!(
            seen.out,
            format!(
                "✕ `{name}` differs\ndoes not agree: 1 place where the run and its answers part ways\n"
            )
        );
        place.write(path, &old);
    }
    let data = write("data/val/items.json", "Record val-00000", "Record val-0");
    let seen = place.run("replay outputs/run -q");
    assert!(
        seen.out
            .starts_with("✕ the data, the first skill or the prompts are others now\n"),
        "{seen:?}"
    );
    place.write("data/val/items.json", &data);
    let config = write("outputs/run/config.json", "\"seed\": 42", "\"seed\": 43");
    let seen = place.run("replay outputs/run -q");
    assert!(
        seen.out
            .starts_with("✕ `seed` was 42 when the run was begun, and is 43 now\n"),
        "{seen:?}"
    );
    place.write("outputs/run/config.json", &config);
    place.write("outputs/run/skills/extra.md", "x");
    let seen = place.run("replay outputs/run -q");
    assert!(
        seen.out
            .starts_with("✕ `skills/extra.md` is no file of this run\n"),
        "{seen:?}"
    );
    std::fs::remove_file(place.path("outputs/run/skills/extra.md")).unwrap();
    std::fs::remove_file(place.path("outputs/run/best_skill.md")).unwrap();
    let seen = place.run("replay outputs/run -q --json");
    let value: Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!((&value["agrees"], seen.code), (&Value::from(false), 1));
    assert_eq!(value["differences"][0], "`best_skill.md` is missing");
}

#[test]
fn json_lines_are_whole_and_versioned() {
    let place = Place::with_data();
    let seen = place.run("train run.yaml --json");
    assert_eq!((seen.code, seen.err.as_str()), (0, ""));
    let lines: Vec<Value> = seen
        .out
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert!(lines.iter().all(|line| line["v"] == 1));
    let kind = |line: &Value| line["type"].as_str().unwrap().to_owned();
    assert_eq!(kind(&lines[0]), "preflight");
    assert_eq!(
        lines
            .iter()
            .filter(|l| kind(l) == "step" && l["slow"] == false)
            .count(),
        4
    );
    let result = lines.last().unwrap();
    assert_eq!(kind(result), "result");
    assert_eq!(result["best_skill"], "outputs/run/best_skill.md");
    assert_eq!(result["run"]["steps_done"], 4);
}

#[test]
fn an_evaluation_is_made_once() {
    let place = Place::with_data();
    place.write("skill.md", "Be brief.\n");
    for (name, args) in [
        (
            "eval/test",
            "eval run.yaml --skill skill.md --split test --out outputs/e -q",
        ),
        (
            "eval/again",
            "eval run.yaml --skill skill.md --split valid_unseen --out outputs/e -q",
        ),
        (
            "eval/other",
            "eval run.yaml --skill skill.md --split val --out outputs/e -q",
        ),
        (
            "eval/json",
            "eval run.yaml --skill skill.md --out outputs/all -q --json",
        ),
        ("eval/runs", "runs"),
        ("eval/runs-json", "runs --json"),
        ("eval/show", "show outputs/e"),
        ("eval/show-json", "show outputs/e --json"),
        ("eval/show-step", "show outputs/e --step 1"),
        ("eval/replay", "replay outputs/e"),
    ] {
        place.golden(name, args);
    }
    let summary: Value = serde_json::from_str(&place.read("outputs/e/eval_summary.json")).unwrap();
    assert_eq!(summary["n_items"], 20);
    assert_eq!(summary["split"], "test");
}

#[test]
fn a_run_without_gain_says_so() {
    let place = Place::with_data();
    let args = "train run.yaml -q --set model.sim.p_rule=0 model.sim.p_none=0.5 --out outputs/none";
    place.golden("run/no-gain", args);
    let code = place.run(&format!("{args} --exit-code")).code;
    assert_eq!(code, 5);
}

#[test]
fn a_dead_provider_pauses_the_run() {
    let place = Place::with_data();
    let args = "train run.yaml -q --set model.retry_attempts=2 model.retry_base_ms=1 --backend \
                openai_compatible --openai_compatible_base_url http://127.0.0.1:1/v1 \
                --openai_compatible_api_key sk-secret";
    let seen = place.run(args);
    assert_eq!((seen.code, seen.out.as_str()), (4, ""), "{seen:?}");
    assert!(
        seen.err.contains("error: paused (provider)"),
        "{}",
        seen.err
    );
    assert!(seen.err.contains("hint: 0 of 4 steps and all answers so far are kept; go on with `skillopt train run.yaml"), "{}", seen.err);
    assert!(!seen.err.contains("sk-secret"), "{}", seen.err);
    let fix = "fix: nothing listens there: check the port, and start the server \
               (`model.openai_compatible_base_url`)\n";
    assert!(seen.err.contains(fix), "{}", seen.err);
    let runs = place.run("runs");
    assert!(runs.out.contains("paused (provider)"), "{runs:?}");
    let shown = place.run("show outputs/run");
    let lines: Vec<&str> = shown.out.split_inclusive('\n').collect();
    assert!(lines[0].starts_with("paused (provider), 2"), "{shown:?}");
    assert!(lines[0].contains(": no connection to"), "{shown:?}");
    assert_eq!(
        lines[1],
        "kept: 0 of 4 steps and all answers so far; the same command goes on from here\n"
    );
    assert_eq!(lines[2], fix);
    assert!(
        shown
            .out
            .contains("\n0 of 12 validation rollouts are in.\n"),
        "{shown:?}"
    );
    let replayed = place.run("replay outputs/run -q");
    assert!(replayed.out.starts_with("agrees so far"), "{replayed:?}");
}

#[test]
fn a_ratio_split_and_a_folder_with_other_things() {
    let place = Place::with_data();
    place.write("items.jsonl", &items());
    let ratio = "train run.yaml -q --split_mode ratio --data_path items.jsonl --out outputs/ratio";
    let first = place.run(ratio);
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{first:?}");
    assert_eq!(place.run(ratio), first);
    let replay = place.run("replay outputs/ratio -q");
    assert_eq!(replay.code, 0, "{replay:?}");
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/notes.txt", "mine");
    let refused = place.run(&ratio.replace("outputs/ratio", "mine"));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(std::fs::read_dir(place.path("mine")).unwrap().count(), 1);
}

/// Items in SearchQA format.
fn items() -> String {
    let item = |n: usize| serde_json::json!({"id": format!("q{n}"), "question": "?", "context": "[DOC] a", "answers": ["a"]});
    (0..20).map(|n| format!("{}\n", item(n))).collect()
}

#[test]
fn a_benchmark_that_is_a_folder() {
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write(
        "mine/benchmark.yaml",
        "name: capitals\nitems: items.csv\nsplit_ratio: \"2:1:2\"\nscorer: {kind: exact, gold: capital}\n",
    );
    place.write(
        "mine/prompt.md",
        "Capital of {{country}}? <answer>Paris</answer>\n",
    );
    let rows: String = (0..10)
        .map(|n| format!("c{n},country {n},town {n}\n"))
        .collect();
    place.write("mine/items.csv", &format!("id,country,capital\n{rows}"));
    let config = "model: {backend: simulated}\ntrain: {num_epochs: 1, batch_size: 4}\n\
                  env: {name: custom, benchmark_dir: mine, out_root: out, workers: 4}\n";
    place.write("own.yaml", config);
    let seen = place.run("train own.yaml -q");
    assert_eq!((seen.code, seen.err.as_str()), (0, ""), "{seen:?}");
    let replay = place.run("replay out -q");
    assert_eq!((replay.code, replay.err.as_str()), (0, ""), "{replay:?}");
    assert_eq!(place.run("doctor own.yaml").code, 0);
}

#[test]
fn the_doctor_names_what_is_broken() {
    let place = Place::with_data();
    let well = place.run("doctor run.yaml");
    assert_eq!((well.code, well.err.as_str()), (0, ""), "{well:?}");
    assert_eq!(well.out.matches("● ").count(), 12, "{}", well.out);
    assert!(
        well.out.contains("● sandbox          bubblewrap 0."),
        "{}",
        well.out
    );
    let dead = place.run(
        "doctor run.yaml --backend openai_compatible --openai_compatible_base_url http://127.0.0.1:1/v1",
    );
    assert_eq!(dead.code, 4, "{dead:?}");
    assert!(
        dead.out.contains("✕ target model     no connection to"),
        "{}",
        dead.out
    );
    let wrong = place.run("doctor run.yaml --split_dir nowhere --json");
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let broken = wrong
        .out
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let broken: Vec<Value> = broken.filter(|c| c["state"] == "broken").collect();
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0]["name"], "data and skill");
    assert!(
        !place.path("outputs").exists(),
        "the doctor leaves nothing behind"
    );
}

#[test]
fn nothing_to_judge_is_no_score() {
    let place = Place::with_data();
    place.write("data/test/items.json", "[]");
    place.write("skill.md", "Be brief.");
    let seen = place.run("eval run.yaml --skill skill.md --split test --out outputs/e -q");
    assert_eq!(seen.code, 3, "{seen:?}");
}

/// The run folders below `outputs`, by name.
fn folders(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path("outputs")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_run_without_a_named_folder_goes_on_where_it_stopped() {
    let place = Place::with_data();
    let config = place
        .read("run.yaml")
        .replace("  out_root: outputs/run\n", "");
    place.write("run.yaml", &config);
    place.write("skill.md", "Be brief.\n");
    for args in [
        "train run.yaml",
        "eval run.yaml --skill skill.md --split selection",
    ] {
        let first = place.run(args);
        assert_eq!(first.code, 0, "{first:?}");
        let before = folders(&place);
        let dir = before
            .iter()
            .find(|d| args.starts_with("train") == d.starts_with("skillopt"));
        let dir = dir.unwrap();
        // As if it had been killed.
        let status = format!("outputs/{dir}/.skillopt/status.json");
        let over = place.read(&status);
        place.write(
            &status,
            &over
                .replace("improved", "running")
                .replace("evaluated", "running"),
        );
        let again = place.run(args);
        let words = format!("going on with `outputs/{dir}`; use --out for a new run\n");
        assert!(again.err.starts_with(&words), "{again:?}");
        assert_eq!((again.code, folders(&place)), (0, before.clone()));
        let new = place.run(args);
        assert_eq!(new.code, 0, "{new:?}");
        assert_eq!(
            folders(&place).len(),
            before.len() + 1,
            "the run is over: a new one"
        );
    }
}

#[test]
fn a_store_in_use_keeps_a_run_from_leaving_anything_behind() {
    let place = Place::with_data();
    let busy = "train run.yaml --store s.sqlite --set model.sim.latency=fixed:600000";
    let mut child = place
        .command(busy)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().starts_with("run folder:")));
    let refused = place.run("train run.yaml --store s.sqlite --out outputs/second");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.err.contains("in use by another process"),
        "{refused:?}"
    );
    assert!(!place.path("outputs/second").exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_evaluation_that_was_not_made_has_no_score() {
    let place = Place::with_data();
    place.write("skill.md", "Be brief.\n");
    let args = "eval run.yaml -q --skill skill.md --out outputs/e --set model.retry_attempts=1 --backend \
                openai_compatible --openai_compatible_base_url http://127.0.0.1:1/v1";
    assert_eq!(place.run(args).code, 4);
    let shown = place.run("show outputs/e");
    for words in [
        "paused (provider)",
        "Measuring the skill on all splits.",
        "calls and tokens: —",
    ] {
        assert!(shown.out.contains(words), "{words}: {shown:?}");
    }
    let shown = place.run("runs --json");
    let row: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(row["type"], "evaluation");
    assert_eq!(row["evaluation"]["hard"], Value::Null);
    assert_eq!(row["notice"]["state"], "paused (provider)");
}

#[test]
fn calls_that_are_tried_again_are_told() {
    let place = Place::with_data();
    let seen = place.run(
        "train run.yaml --json --set model.retry_attempts=2 model.retry_base_ms=30000 --backend \
         openai_compatible --openai_compatible_base_url http://127.0.0.1:1/v1",
    );
    assert_eq!(seen.code, 4, "{seen:?}");
    assert_eq!(
        seen.out.matches("\"type\":\"retrying\"").count(),
        1,
        "{seen:?}"
    );
}

#[test]
fn a_run_says_what_it_has_used_and_what_for() {
    let place = Place::with_data();
    assert_eq!(place.run("train run.yaml -q").code, 0);
    let rows = |by: &str| -> Vec<Value> {
        let seen = place.run(&format!("usage outputs/run --by {by} --json"));
        assert_eq!(seen.code, 0, "{seen:?}");
        let lines = seen.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let whole = rows("run").swap_remove(0);
    let requests = whole["requests"].as_u64().unwrap();
    assert!(requests > 0, "{whole}");
    assert_eq!(whole["cost_usd"], Value::Null, "its price is unknown");
    assert!(whole["outcomes"]["answer"].as_u64() > Some(0), "{whole}");
    for by in ["role", "stage", "model"] {
        let sum: u64 = rows(by)
            .iter()
            .filter_map(|row| row["requests"].as_u64())
            .sum();
        assert_eq!(sum, requests, "by {by}");
    }
    let names = |by: &str| {
        rows(by)
            .iter()
            .map(|row| row["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("role"), ["optimizer", "target"]);
    assert_eq!(names("model"), ["sim-optimizer", "sim-target"]);
    // Nothing is asked again, and what was used stays.
    assert_eq!(place.run("train run.yaml -q").code, 0);
    assert_eq!(rows("run").swap_remove(0)["requests"], requests);
    for (args, words) in [
        ("usage outputs/run --by tenant", "belongs to no tenant"),
        ("usage data", "`data` holds no run"),
    ] {
        let seen = place.run(args);
        assert!(
            seen.code == 2 && seen.err.contains(words),
            "{args}: {seen:?}"
        );
    }
}

#[test]
fn a_backend_that_changes_nothing_is_warned_of() {
    let place = Place::with_data();
    let text = place.read("run.yaml").replace(
        "  backend: simulated\n",
        "  optimizer_backend: simulated\n  target_backend: simulated\n",
    );
    place.write("roles.yaml", &text);
    for (args, want) in [
        ("config check roles.yaml --backend openai_compatible", true),
        ("config check roles.yaml --backend simulated", false),
        ("config check run.yaml --backend openai_compatible", false),
    ] {
        let seen = place.run(args);
        let is_warned = seen
            .err
            .contains("use `--optimizer_backend` and `--target_backend`");
        assert_eq!((seen.code, is_warned), (0, want), "{args}: {seen:?}");
    }
}

#[test]
fn made_up_data_replaces_only_made_up_data() {
    let place = Place::with_data();
    let again = "sim data data --train 16 --val 12 --test 20";
    let before = place.read("data/val/items.json");
    assert_eq!(place.run(again).code, 0);
    assert_eq!(place.read("data/val/items.json"), before);
    let mine = "[{\"id\": \"mine\"}]";
    place.write("data/val/items.json", mine);
    let refused = place.run(again);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(place.read("data/val/items.json"), mine);
    assert_eq!(place.run(&format!("{again} --force")).code, 0);
    assert_eq!(place.read("data/val/items.json"), before);
}
