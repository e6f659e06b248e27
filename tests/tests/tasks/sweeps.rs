//! A sweep with a real agent as one of its harnesses.

use skillopt_tests::support::program::run;
use skillopt_tests::support::{Sim, folder};

use crate::scene::{SKILL, Scene};
use crate::scripts::learns;

/// Items of each split: the fewest of which what is trained on and what is judged by have a kind in
/// common.
const N: usize = 6;

#[test]
fn cells_in_chat_and_in_codex_are_what_each_is_alone() {
    let scene = Scene::real("codex_exec");
    scene.script(learns(&scene, N));
    // It is the optimizer of both, and the target in chat.
    let sim = Sim::start(&["--p-harm", "0", "--rules-per-call", "4"]);
    let url = sim.url();
    let optimizer = format!("model.optimizer_openai_compatible_base_url={url}");
    let target = format!("model.target_openai_compatible_base_url={url}");
    let sweep = format!(
        "model: {{ optimizer_openai_compatible_base_url: \"{url}\" }}\n\
         train: {{ num_epochs: 1, batch_size: {N} }}\n\
         env: {{ limit: {N}, skill_init: skill.md }}\n\
         sweep:\n  name: both\n  base: config.yaml\n  \
         models: [{{ name: one, model: {{ target: mock-model }} }}]\n  \
         benchmarks: [searchqa]\n  harnesses:\n    - codex_exec\n    \
         - name: chat\n      model:\n        target_backend: openai_compatible\n        \
         target_openai_compatible_base_url: \"{url}\"\n"
    );
    scene.world.write("sweep.yaml", sweep);
    let n = N.to_string();
    let common = ["--limit", &n, "--batch_size", &n, "--set", &optimizer];
    run(&mut scene.train("codex", &common)).code(0);
    let chat = ["--target_backend", "openai_compatible", "--set", &target];
    run(&mut scene.train("chat", &[&common[..], &chat].concat())).code(0);

    let cluster = scene.cluster(2, 1);
    run(&mut scene.sweep(&cluster, "sweep.yaml", "out")).code(0);
    let cells = "out/cells/one/searchqa";
    folder::same(
        &scene.world.path("chat"),
        &scene.world.path(&format!("{cells}/chat")),
    );
    // Codex puts numbers of chance into what its commands print, which nobody but the optimizer reads.
    let [alone, cell] = ["codex", &format!("{cells}/codex_exec")].map(|folder| {
        let best = scene.world.text(&format!("{folder}/best_skill.md"));
        assert!(best.contains(SKILL) && best.contains("[[RULE:"), "{best}");
        let summary = scene.world.json(&format!("{folder}/summary.json"));
        let score = |name: &str| summary[name].as_f64().expect("a score");
        let (before, after) = (
            score("baseline_selection_hard"),
            score("best_selection_hard"),
        );
        assert!(after > before, "{summary}");
        before
    });
    assert!(
        (alone - cell).abs() < 1e-9,
        "{alone} alone, {cell} in the sweep"
    );
    let table = scene.world.text("out/sweep.csv");
    assert_eq!(table.lines().count(), 3, "a head and two cells: {table}");
}
