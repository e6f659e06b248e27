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
    let key = "model.optimizer_openai_compatible_base_url";
    let sweep = format!(
        "model:\n  optimizer_openai_compatible_base_url: {url}\n\
         train: {{ num_epochs: 1, batch_size: {N} }}\n\
         env: {{ limit: {N}, skill_init: skill.md }}\n\
         sweep:\n  name: both\n  base: config.yaml\n  models: [{{ name: one }}]\n  \
         benchmarks: [searchqa]\n  harnesses:\n    - codex_exec\n    \
         - name: chat\n      model:\n        target_backend: openai_compatible\n        \
         target_openai_compatible_base_url: {url}\n"
    );
    scene.world.write("sweep.yaml", sweep);
    let n = N.to_string();
    let sized = ["--limit", &n, "--batch_size", &n];
    let set = format!("{key}={url}");
    run(&mut scene.train("codex", &[&sized[..], &["--set", &set]].concat())).code(0);
    let alone = scene.answered();

    let cluster = scene.cluster(2, 1);
    run(&mut scene.sweep(&cluster, "sweep.yaml", "out")).code(0);
    let cells = scene.world.path("out/cells/one/searchqa");
    folder::same(&scene.world.path("codex"), &cells.join("codex_exec"));
    let both = scene.answered();
    assert_eq!(both.requests, 2 * alone.requests, "nobody else asked it");
    for cell in ["codex_exec", "chat"] {
        let folder = format!("out/cells/one/searchqa/{cell}");
        let best = scene.world.text(&format!("{folder}/best_skill.md"));
        assert!(
            best.contains(SKILL) && best.contains("[[RULE:"),
            "{cell}: {best}"
        );
    }
    let table = scene.world.text("out/sweep.csv");
    assert_eq!(table.lines().count(), 3, "a head and two cells: {table}");
}
