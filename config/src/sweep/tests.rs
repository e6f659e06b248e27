use std::path::Path;

use serde_json::json;

use super::*;
use crate::context::Context;
use crate::run_config::RunConfig;

const BASE: &str = "model: {backend: simulated}\ntrain: {num_epochs: 1, seed: 7}\nenv: {name: searchqa, split_dir: d, split_mode: split_dir}\n";

fn folder(sweep: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("base.yaml"), BASE).unwrap();
    std::fs::write(
        dir.path().join("other.yaml"),
        "env: {name: custom, benchmark_dir: x}\n",
    )
    .unwrap();
    std::fs::write(dir.path().join("s.yaml"), sweep).unwrap();
    dir
}

fn read(sweep: &str) -> Result<Sweep, SweepError> {
    load(&folder(sweep).path().join("s.yaml"))
}

fn cells(sweep: &str) -> Vec<CellConfig> {
    let dir = folder(sweep);
    load(&dir.path().join("s.yaml")).unwrap().expand().unwrap()
}

fn names(sweep: &str) -> Vec<String> {
    cells(sweep).into_iter().map(|cell| cell.name).collect()
}

fn config(cell: &CellConfig) -> RunConfig {
    RunConfig::resolve(&cell.flat, &Context::BARE).unwrap().0
}

/// Every problem of a file, without its place.
fn faults(sweep: &str) -> Vec<String> {
    let dir = folder(sweep);
    let result = load(&dir.path().join("s.yaml")).and_then(|sweep| sweep.expand());
    let text = result.expect_err(sweep).to_string();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn cells_come_in_the_order_of_the_file() {
    for (keys, want) in [
        (
            "models: [b, a], benchmarks: [searchqa]",
            vec!["b/searchqa/chat", "a/searchqa/chat"],
        ),
        (
            "models: [a], benchmarks: [x, y], harnesses: [chat, codex_exec]",
            vec!["a/x/chat", "a/x/codex_exec", "a/y/chat", "a/y/codex_exec"],
        ),
        (
            "models: [a, b], benchmarks: [x, y], harnesses: [chat, codex_exec], \
             include: ['*/*/chat', 'a/*/*'], exclude: ['*/y/codex_exec', 'b/x/*']",
            vec!["a/x/chat", "a/x/codex_exec", "a/y/chat", "b/y/chat"],
        ),
        (
            "models: [a], benchmarks: [x], seeds: [2, 1]",
            vec!["a/x/chat#2", "a/x/chat#1"],
        ),
        (
            "models: [a], benchmarks: [x], seeds: [2, 1], repeats: 2, exclude: ['a/x/chat#1@2']",
            vec!["a/x/chat#2@1", "a/x/chat#2@2", "a/x/chat#1@1"],
        ),
        (
            "models: [a], benchmarks: [x], repeats: 2",
            vec!["a/x/chat@1", "a/x/chat@2"],
        ),
    ] {
        let sweep = format!("sweep: {{base: base.yaml, {keys}}}\n");
        assert_eq!(names(&sweep), want, "{keys}");
    }
}

#[test]
fn later_layers_win() {
    let cells = cells(
        "train: {batch_size: 3, num_epochs: 2}\n\
         env: {limit: 9}\n\
         sweep:\n\
         \x20 base: base.yaml\n\
         \x20 seeds: [5]\n\
         \x20 models: [sim-small, {name: big, model: {target: lab/big, sim: {p_none: 0.3}}, train: {batch_size: 4}}]\n\
         \x20 benchmarks: [{name: short, env: {name: searchqa, limit: 4}}, {name: own, config: other.yaml}]\n\
         \x20 harnesses: [chat, {name: box, model: {target_backend: simulated}}]\n\
         \x20 cells: [{match: 'big/*/chat', train: {batch_size: 5}}, {match: '*/own/*', model: {backend: simulated}}]\n",
    );
    assert_eq!(cells.len(), 8);
    let at = |name: &str| config(cells.iter().find(|c| c.name == name).expect(name));
    let small = at("sim-small/short/chat#5");
    assert_eq!(small.target_model, "sim-small");
    assert_eq!((small.batch_size, small.num_epochs, small.seed), (3, 2, 5));
    assert_eq!((small.env.as_str(), small.limit), ("searchqa", 4));
    let big = at("big/short/chat#5");
    assert_eq!(big.target_model, "lab/big");
    assert_eq!(big.sim.get("p_none"), Some(&json!(0.3)));
    assert_eq!(big.batch_size, 5);
    assert_eq!(at("big/short/box#5").batch_size, 4);
    let own = at("big/own/box#5");
    assert_eq!((own.env.as_str(), own.limit), ("custom", 9));
    assert_eq!(own.target_backend, "simulated");
    assert!(own.split_dir.is_empty(), "its own file replaces the base");
}

#[test]
fn what_is_left_out_has_a_default() {
    let sweep = read("sweep: {base: base.yaml, models: [a], benchmarks: [searchqa]}\n").unwrap();
    assert_eq!(sweep.name, "s");
    assert_eq!((sweep.repeats, sweep.weight), (1, 100));
    assert_eq!(sweep.arms, [Arm::NoSkill, Arm::StartingSkill]);
    assert!(!sweep.transfer && !sweep.family && sweep.caps == Caps::default());
    let cell = &sweep.expand();
    assert!(cell.is_err(), "the folder is gone by now");
}

#[test]
fn a_whole_file_is_read() {
    let dir = folder(
        "sweep:\n  name: whole\n  base: base.yaml\n  models: [a]\n  benchmarks: [searchqa]\n  transfer: yes\n\
         \x20 correct: family\n  weight: 5\n  caps: {requests: 10, tokens: 20, dollars: 1.5}\n\
         \x20 arms: [starting_skill, {name: by hand, skill: skills/hand.md}]\n",
    );
    let sweep = load(&dir.path().join("s.yaml")).unwrap();
    assert_eq!((sweep.name.as_str(), sweep.weight), ("whole", 5));
    assert!(sweep.transfer && sweep.family);
    let caps = Caps {
        requests: Some(10),
        tokens: Some(20),
        micro_usd: Some(1_500_000),
    };
    assert_eq!(sweep.caps, caps);
    let Some(Arm::Skill { name, skill }) = sweep.arms.last() else {
        panic!("{:?}", sweep.arms);
    };
    assert_eq!(name, "by hand");
    assert_eq!(skill.path, dir.path().join(Path::new("skills/hand.md")));
}

#[test]
fn faults_name_their_place_and_what_was_meant() {
    const OK: &str = "base: base.yaml, models: [a], benchmarks: [searchqa]";
    for (sweep, wants) in [
        ("train: {seed: 1}\n".to_owned(), vec!["`sweep` is missing"]),
        (format!("sweep: {{{OK}, repeat: 2}}"), vec!["did you mean `repeats`"]),
        (format!("sweeps: {{}}\nsweep: {{{OK}}}"), vec!["did you mean `sweep`"]),
        (format!("_base_: b.yaml\nsweep: {{{OK}}}"), vec!["`sweep.base`"]),
        (
            "sweep: {models: [], benchmarks: [x]}".to_owned(),
            vec!["`sweep.models`", "list at least one", "has nothing to start from"],
        ),
        ("sweep: {base: base.yaml}".to_owned(), vec!["`sweep.models` is missing", "`sweep.benchmarks` is missing"]),
        (
            "sweep: {base: base.yaml, models: [a, a, 'lab/x', {nam: b}], benchmarks: [x]}".to_owned(),
            vec!["is there twice", "cannot be part of a cell's name", "has no `name`"],
        ),
        (
            "sweep: {base: base.yaml, models: [{name: a, modell: {}}], benchmarks: [{name: x, env: 5}]}".to_owned(),
            vec!["did you mean `model`", "`sweep.benchmarks.env`"],
        ),
        (format!("sweep: {{{OK}, harnesses: [chatt]}}"), vec!["is no harness", "did you mean `chat`"]),
        (format!("sweep: {{{OK}, harnesses: [codex_exek]}}"), vec!["did you mean `codex_exec`"]),
        (format!("sweep: {{{OK}, include: ['a/searchqa']}}"), vec!["three parts"]),
        (format!("sweep: {{{OK}, exclude: ['b/searchqa/chat']}}"), vec!["matches no cell", "did you mean `a/searchqa/chat`"]),
        (format!("sweep: {{{OK}, exclude: ['*/*/*']}}"), vec!["leaves no cell"]),
        (format!("sweep: {{{OK}, cells: [{{train: {{}}}}, {{match: '*/*/*', trein: {{}}}}]}}"), vec!["no `match`", "did you mean `train`"]),
        (format!("sweep: {{{OK}, seeds: [1, 1, x, -2]}}"), vec!["is there twice", "a whole number from 0 on"]),
        (format!("sweep: {{{OK}, repeats: 0}}"), vec!["from 1 to 100"]),
        (format!("sweep: {{{OK}, arms: [no_skil, {{name: x}}]}}"), vec!["did you mean `no_skill`", "needs a `name` and a `skill`"]),
        (format!("sweep: {{{OK}, arms: []}}"), vec!["at least one arm"]),
        (format!("sweep: {{{OK}, caps: {{dolars: 3, requests: 0}}}}"), vec!["did you mean `dollars`", "from 1 on"]),
        (format!("sweep: {{{OK}, transfer: 3, correct: famly}}"), vec!["neither `true` nor `false`", "did you mean `family`"]),
        ("sweep: {base: no.yaml, models: [a], benchmarks: [x]}".to_owned(), vec!["s.yaml:1:15: cannot read the configuration"]),
        (
            format!("sweep: {{base: base.yaml, benchmarks: [x], models: [{}]}}", (0..1_001).map(|i| format!("m{i}")).collect::<Vec<_>>().join(", ")),
            vec!["more than 1000 cells"],
        ),
    ] {
        let text = faults(&sweep).join("\n");
        for want in wants {
            assert!(text.contains(want), "{want:?} is not in:\n{text}\nof\n{sweep}");
        }
        assert!(text.contains("s.yaml:"), "{text}");
    }
}
