//! The same configuration gives the same run folder, byte for byte, however many slots there are
//! and however badly the provider behaves.

use serde_json::json;
use skillopt_tests::support::folder::files;
use skillopt_tests::support::{Sim, World};

/// Answers come back in another order each time: latencies are spread, and differ by attempt.
const SPREAD: &[&str] = &["--latency", "uniform:0,6"];

/// Trains with 1, 8 and 128 slots and checks that the folders are equal.
#[track_caller]
fn check(more: &[&str]) {
    check_in(&World::new(), more);
}

#[track_caller]
fn check_in(world: &World, more: &[&str]) {
    let sim = Sim::start(SPREAD);
    for slots in ["1", "8", "128"] {
        let args = [&["--slots", slots], more].concat();
        let out = world.trained(slots, &sim.url(), &args);
        assert!(files(&out).len() > 100, "a run leaves many files");
    }
    world.same("1", "8");
    world.same("1", "128");
}

#[test]
fn slots_do_not_change_a_run() {
    check(&[]);
}

#[test]
fn slots_do_not_change_a_run_with_accumulation() {
    check(&["--set", "train.accumulation=2", "train.batch_size=4"]);
}

#[test]
fn slots_do_not_change_a_run_with_skill_aware_reflection() {
    let aware = "optimizer.use_skill_aware_reflection=true";
    let threshold = "optimizer.skill_aware_consolidate_threshold=2";
    check(&["--set", aware, threshold]);
}

#[test]
fn slots_do_not_change_a_run_with_rewrites() {
    check(&[
        "--set",
        "optimizer.skill_update_mode=rewrite_from_suggestions",
    ]);
}

#[test]
fn slots_do_not_change_a_run_with_full_rewrites() {
    check(&[
        "--set",
        "optimizer.skill_update_mode=full_rewrite_minibatch",
    ]);
}

#[test]
fn slots_do_not_change_a_run_with_the_optimizers_own_rate() {
    check(&["--set", "optimizer.lr_control_mode=autonomous"]);
}

#[test]
fn slots_do_not_change_a_run_with_a_gated_slow_update_and_a_ratio_split() {
    check(&[
        "--set",
        "optimizer.slow_update_gate_with_selection=true",
        "evaluation.gate_metric=mixed",
        "env.split_mode=ratio",
        "env.data_path=data/train/items.json",
        "env.split_dir=",
    ]);
}

#[test]
fn slots_do_not_change_a_run_with_turns_and_pairs_that_changed() {
    check(&[
        "--set",
        "env.max_turns=3",
        "optimizer.longitudinal_pair_policy=changed",
        "evaluation.gate_metric=soft",
        "evaluation.use_semantic_density=true",
    ]);
}

#[test]
fn slots_do_not_change_a_run_with_a_skill_folder_and_bound_answers() {
    let world = World::new();
    let head = "---\nname: answers\ndescription: How to answer.\n---\n";
    world.write(
        "skill/SKILL.md",
        format!("{head}\n# Answers\n\nBe short.\n"),
    );
    world.write("skill/scripts/look.py", "print(1)\n");
    check_in(
        &world,
        &[
            "--set",
            "env.skill_init=skill",
            "model.optimizer_answer_mode=schema",
            "evaluation.use_gate=false",
        ],
    );
    assert_eq!(world.text("8/best_skill/scripts/look.py"), "print(1)\n");
    assert!(
        world.text("8/best_skill/SKILL.md").starts_with(head),
        "front matter survives"
    );
    assert!(
        world.text("8/best_skill.md").len() > head.len() + 30,
        "the text was trained"
    );
}

#[test]
fn a_provider_that_fails_now_and_then_changes_only_the_time() {
    let (world, sim) = (World::new(), Sim::start(SPREAD));
    let patience = [
        "model.retry_attempts=12",
        "env.exec_timeout=2",
        "model.optimizer_timeout=2",
    ];
    let args = [&["--slots", "16", "--set"], &patience[..]].concat();
    world.trained("well", &sim.url(), &args);
    let (calls, ok) = (sim.stats().number("calls"), sim.stats().ok());
    sim.reset();
    sim.configure(
        json!({"p429": 0.05, "p500": 0.02, "preset": 0.02, "phang": 0.02, "pmalformed": 0.01}),
    );
    world.trained("badly", &sim.url(), &args);
    let stats = sim.stats();
    assert!(stats.number("calls") > calls, "some calls failed");
    assert_eq!(stats.ok(), ok, "every answer was asked for once");
    world.same("well", "badly");
}

#[test]
fn a_second_run_with_the_same_store_asks_nothing() {
    let (world, sim) = (World::new(), Sim::start(SPREAD));
    let store = ["--slots", "16", "--store", "shared.sqlite"];
    world.trained("first", &sim.url(), &store);
    sim.reset();
    world.trained("second", &sim.url(), &store);
    assert_eq!(sim.stats().number("calls"), 0);
    world.same("first", "second");
    // The same command once more: everything is there.
    world.trained("second", &sim.url(), &store);
    assert_eq!(sim.stats().number("calls"), 0);
    world.same("first", "second");
}

#[test]
fn a_fresh_run_shares_answers_with_nobody_but_itself() {
    let (world, sim) = (World::new(), Sim::start(SPREAD));
    let fresh = [
        "--slots",
        "16",
        "--store",
        "shared.sqlite",
        "--set",
        "env.scope=fresh",
    ];
    world.trained("first", &sim.url(), &fresh);
    let calls = sim.stats().number("calls");
    sim.reset();
    world.trained("second", &sim.url(), &fresh);
    assert_eq!(
        sim.stats().number("calls"),
        calls,
        "everything is asked anew"
    );
    world.same("first", "second");
    // The same command once more finds its own answers.
    world.trained("second", &sim.url(), &fresh);
    assert_eq!(sim.stats().number("calls"), calls);
    world.same("first", "second");
}
