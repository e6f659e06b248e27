//! A provider that is away, or falls silent in the midst of an answer, while real CLIs work: the run
//! pauses, and nothing of that is a failure of the agents.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use skillopt_tests::support::folder::{rows, rows_are_real};
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::until;

use crate::real::by_item;
use crate::scene::Scene;
use crate::scripts::{Question, knows, questions};

/// Two tasks, each of which is tried once.
const ONCE: [&str; 4] = ["--test_env_num", "2", "--set", "model.retry_attempts=1"];

/// Checks that the run pauses for the provider's sake, in these `words`, and that no agent is left.
#[track_caller]
fn pauses(scene: &Scene, words: &[&str]) {
    let ended = run(&mut scene.eval("out", &ONCE)).code(4);
    ended
        .says(&["paused (provider)", "no connection to"])
        .says(words);
    until("no agent is left", || scene.shut_in().is_empty());
    assert_eq!(scene.sandboxes(), [""; 0]);
}

/// Checks that the same command comes to what it would have come to at once.
#[track_caller]
fn goes_on(scene: &Scene, asked: &[Question; 2]) {
    let before = rows(&scene.world.path("out"));
    run(&mut scene.eval("out", &ONCE)).code(0);
    rows_are_real(&before, &scene.world.path("out"));
    let rows = by_item(&scene.world.path("out"));
    are_right(&rows, asked);
    // The second is wrong, and that is all that is said against it.
    let why = rows[&asked[1].id]["fail_reason"].as_str().unwrap();
    assert!(why.starts_with("answer_mismatch"), "{why}");
}

/// Checks that all have their score: the first question is answered, the second wrongly.
#[track_caller]
fn are_right(rows: &BTreeMap<String, Value>, asked: &[Question; 2]) {
    let scores = rows.iter().map(|(id, row)| (id, row["hard"].as_u64()));
    let scores: Vec<_> = scores.collect();
    let wanted = [(&asked[0].id, Some(1)), (&asked[1].id, Some(0))];
    assert_eq!(scores, wanted, "{rows:?}");
}

#[track_caller]
fn refuses_connections(backend: &str) {
    let mut scene = Scene::real(backend);
    let asked: [Question; 2] = questions(&scene);
    scene.hang_up();
    pauses(&scene, &["Connection refused"]);
    assert!(rows(&scene.world.path("out")).is_empty());
    scene.pick_up();
    scene.script(knows(&asked, 0));
    goes_on(&scene, &asked);
}

#[test]
fn a_provider_that_is_away_pauses_codex() {
    refuses_connections("codex_exec");
}

#[test]
fn a_provider_that_is_away_pauses_claude_code() {
    refuses_connections("claude_code_exec");
}

/// Makes a model fall silent in the midst of the answer that would end a task.
fn silenced(mut script: Value) -> Value {
    for rule in script["rules"].as_array_mut().unwrap() {
        // Only answers to a question have one.
        if rule["reply"]["latency_ms"].is_u64() {
            rule["reply"]["chunk_chars"] = json!(1);
            rule["reply"]["fault"] = json!({"kind": "hang_mid"});
        }
    }
    script
}

#[track_caller]
fn falls_silent(backend: &str, words: &[&str]) {
    let mut scene = Scene::real(backend);
    scene.set("SKILLOPT_BETWEEN_CHUNKS_SECONDS", "2");
    let asked: [Question; 2] = questions(&scene);
    scene.script(silenced(knows(&asked, 0)));
    pauses(&scene, words);
    assert!(rows(&scene.world.path("out")).is_empty());
    // Somebody read its task, and was left alone with the beginning of an answer.
    assert!(scene.answered().requests >= 2, "{:?}", scene.answered());
    scene.script(knows(&asked, 0));
    goes_on(&scene, &asked);
}

#[test]
fn a_provider_that_falls_silent_pauses_codex() {
    falls_silent("codex_exec", &["the provider was silent for 2s"]);
}

/// Claude Code asks once more for the whole answer, which does not come either.
#[test]
fn a_provider_that_falls_silent_pauses_claude_code() {
    falls_silent("claude_code_exec", &[]);
}

/// Nothing is told of a provider that soon has its voice back.
#[test]
fn a_task_whose_answer_stalls_is_done_again() {
    let mut scene = Scene::real("codex_exec");
    scene.set("SKILLOPT_BETWEEN_CHUNKS_SECONDS", "2");
    let asked: [Question; 2] = questions(&scene);
    let mut script = silenced(knows(&asked, 0));
    for rule in script["rules"].as_array_mut().unwrap() {
        if rule["reply"]["fault"].is_object() {
            rule["reply"]["fault"]["times"] = json!(1);
        }
    }
    scene.script(script);
    let again = ["--test_env_num", "2", "--set", "model.retry_attempts=6"];
    run(&mut scene.eval("out", &again)).code(0);
    are_right(&by_item(&scene.world.path("out")), &asked);
    // Both were begun twice: two requests each that led to silence, and two that led to an answer.
    assert_eq!(scene.answered().requests, 8);
}
