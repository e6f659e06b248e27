//! What models answer.

use serde_json::Value;
use skillopt_tests::support::World;
use skillopt_tests::support::fake::{Fake, completion};
use skillopt_tests::support::folder::rows;

/// One step of two items: enough to meet every stage that reads answers.
const SMALL: &[&str] = &[
    "--slots",
    "4",
    "--set",
    "env.limit=2",
    "train.batch_size=2",
    "gradient.minibatch_size=1",
    "optimizer.slow_update_samples=2",
    "model.retry_attempts=2",
];

fn server(target: Vec<u8>, optimizer: Vec<u8>) -> Fake {
    Fake::start(move |request| {
        if request["model"] == "sim-target" {
            target.clone()
        } else {
            optimizer.clone()
        }
    })
}

/// Trains with models that answer these texts; the run ends well and nothing is better.
#[track_caller]
fn check(target: &str, optimizer: &str, more: &[&str]) {
    let (world, server) = (
        World::new(),
        server(completion(target), completion(optimizer)),
    );
    let args = [SMALL, more].concat();
    world.ended("out", &server.url(), &args).code(0).says(&[]);
    assert_eq!(world.status("out"), "no improvement: ");
    for line in rows(&world.path("out")).into_values().flatten() {
        let row: Value = serde_json::from_str(&line).expect("rows are JSON");
        assert_eq!(row["hard"], 0, "{line}");
        assert_ne!(row["fail_reason"], "", "{line}");
    }
    assert_eq!(world.text("out/best_skill.md"), "", "the blank skill stays");
}

/// Trains with models that answer these bodies; the run pauses, and nothing is scored.
#[track_caller]
fn check_body(body: Vec<u8>, words: &[&str]) {
    let (world, server) = (World::new(), server(body.clone(), body));
    let ended = world.ended("out", &server.url(), SMALL);
    ended
        .code(4)
        .says(&["not a chat completion", "go on with"])
        .says(words);
    assert!(world.status("out").starts_with("paused"));
    assert!(
        rows(&world.path("out")).values().all(Vec::is_empty),
        "nothing is scored"
    );
}

/// Ways in which the optimizer is asked.
const WAYS: [&[&str]; 4] = [
    &[],
    &["optimizer.use_skill_aware_reflection=true"],
    &[
        "optimizer.skill_update_mode=rewrite_from_suggestions",
        "optimizer.lr_control_mode=autonomous",
    ],
    &["optimizer.skill_update_mode=full_rewrite_minibatch"],
];

/// Checks an answer of the optimizer in every way of asking.
#[track_caller]
fn check_optimizer(text: &str) {
    for way in WAYS {
        check("no idea", text, way);
    }
}

#[test]
fn an_optimizer_that_talks_nonsense_changes_nothing() {
    check_optimizer("I like trains. {\"edits\": [}");
    check_optimizer(
        "{\"patch\": {\"edits\": {\"op\": 7}}, \"new_skill\": 3, \"batch_size\": \"x\"}",
    );
    check_optimizer("[null, true, \"edits\"]");
}

#[test]
fn an_optimizer_that_says_nothing_changes_nothing() {
    check_optimizer("");
    check_optimizer(" \n\t ");
}

#[test]
fn an_optimizer_whose_json_never_ends_changes_nothing() {
    let deep = 100_000;
    check_optimizer(&"[".repeat(deep));
    let nested = format!(
        "{{\"patch\": {}1{}}}",
        "{\"patch\": ".repeat(deep),
        "}".repeat(deep)
    );
    check("no idea", &nested, &[]);
}

#[test]
fn an_optimizer_that_talks_too_much_changes_nothing() {
    check("no idea", &"blah ".repeat(2 << 20), &[]);
}

#[test]
fn a_target_that_says_nothing_has_failed_by_itself() {
    check("", "{}", &[]);
}

#[test]
fn a_target_that_talks_too_much_has_failed_by_itself() {
    // Few rollouts, since each answer goes to the store and to a file.
    let few = [
        "env.limit=1",
        "train.num_epochs=1",
        "evaluation.eval_test=false",
    ];
    check(&"blah ".repeat(2 << 20), "{}", &few);
}

#[test]
fn a_target_with_strange_signs_has_failed_by_itself() {
    check("<answer>\u{0}\u{202e}\u{fffd}\u{1f980}</answer>", "{}", &[]);
}

#[test]
fn a_body_that_is_no_completion_pauses_the_run() {
    check_body(b"".to_vec(), &[]);
    check_body(b"{\"choices\": []}".to_vec(), &["no choices"]);
    check_body(
        b"{\"choices\": [{\"message\": {\"content\": \"\xff\xfe\"}}]}".to_vec(),
        &[],
    );
    check_body(b"[".repeat(100_000), &[]);
    check_body(completion("half")[..40].to_vec(), &[]);
}

#[test]
fn a_body_without_end_pauses_the_run() {
    check_body(completion(&"blah ".repeat(8 << 20)), &["more than"]);
}
