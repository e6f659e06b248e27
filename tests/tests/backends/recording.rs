//! What a run recorded is all that another one needs in place of models.

use skillopt_tests::support::program::{Ended, run};
use skillopt_tests::support::{Sim, World};

/// Evaluates a skill with models at `url`.
fn eval(world: &World, out: &str, url: &str, more: &[&str]) -> Ended {
    let url = format!("model.openai_compatible_base_url={url}");
    run(&mut world.eval(out, &[&[&*url], more].concat()))
}

#[test]
fn an_evaluation_comes_to_the_same_without_its_server() {
    let (world, sim) = (World::new(), Sim::start(&[]));
    let url = sim.url();
    world.write("skill.md", "Answer with one word.\n");
    eval(&world, "live", &url, &["--record", "tape.jsonl"]).code(0);
    drop(sim);
    let replay = ["--replay-from", "tape.jsonl"];
    eval(&world, "replayed", &url, &replay).code(0);
    world.same("live", "replayed");

    let lines = world.text("tape.jsonl").lines().count();
    assert_eq!(lines, 12, "one for each item");
    world.write("skill.md", "Answer with two words.\n");
    eval(&world, "other", &url, &replay).code(4).says(&[
        "tape.jsonl",
        "no answer to this request",
        "`rollout`",
    ]);
}

#[test]
fn a_training_that_was_killed_goes_on_with_its_recording() {
    let (world, sim) = (World::new(), Sim::start(&[]));
    let url = sim.url();
    world.trained("live", &url, &["--record", "tape.jsonl"]);
    drop(sim);
    // Where the disk has half a line of a run that was killed.
    let text = world.text("tape.jsonl");
    world.write("torn.jsonl", format!("{text}{{\"key\":\"0"));
    world.trained("replayed", &url, &["--replay-from", "torn.jsonl"]);
    world.same("live", "replayed");

    let sim = Sim::start(&[]);
    world.trained("again", &sim.url(), &["--record", "torn.jsonl"]);
    let both = world.text("torn.jsonl");
    assert!(both.starts_with(&text), "what was there is kept");
    let whole = |text: &str| text.lines().count();
    assert_eq!(whole(&both), 2 * whole(&text));
}

#[test]
fn a_recording_of_a_run_with_an_agent_is_refused_before_anything_is_spent() {
    let world = World::new();
    let url = "http://127.0.0.1:9/v1";
    for flag in ["--record", "--replay-from"] {
        let more = ["model.target_backend=codex_exec", flag, "tape.jsonl"];
        let ended = world.ended("out", url, &more);
        ended
            .code(2)
            .says(&[flag, "`codex_exec` is an agent", "--store"]);
    }
    assert!(!world.path("out").exists());
    assert!(!world.path("tape.jsonl").exists(), "no half of a recording");
}

#[test]
fn what_is_no_recording_is_refused_before_anything_is_spent() {
    let world = World::new();
    world.write("tape.jsonl", "{\"score\": 1}\n");
    let url = "http://127.0.0.1:9/v1";
    for (file, words) in [
        ("tape.jsonl", &["no recording", "line 1", "--record"][..]),
        ("missing.jsonl", &["missing.jsonl", "cannot be read"]),
    ] {
        let ended = world.ended("out", url, &["--replay-from", file]);
        ended.code(2).says(words);
    }
    assert!(!world.path("out").exists());
}
