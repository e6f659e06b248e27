//! Many real CLIs at once on one worker.

use serde_json::{Value, json};
use skillopt_sim::{Sizes, generate};
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::until;
use skillopt_tests::support::world::SIZES;

use crate::real::by_item;
use crate::scene::Scene;
use crate::scripts::{Question, knows, questions};

/// How long the model thinks about an answer: long enough for many to wait at the same time.
const LATENCY_MS: u64 = 5_000;

/// Puts `N` agents to work at once, and looks at what they came to. The model follows what `change`
/// makes of its script.
#[track_caller]
fn at_once<const N: usize>(backend: &str, change: impl Fn(&mut Value)) -> Scene {
    let scene = Scene::real(backend);
    let sizes = Sizes { test: N, ..SIZES };
    generate(&scene.world.path("data"), 42, sizes).unwrap();
    let asked: [Question; N] = questions(&scene);
    let mut script = knows(&asked, LATENCY_MS);
    change(&mut script);
    scene.script(script);
    // A machine that is busy with all of them may be late to say that it still works on each.
    let cluster = scene.cluster_with(1, N, &[]);
    run(&mut scene.submit(&cluster, "out", &[])).code(0);
    // The worker lives on; its agents do not.
    until("no agent is left", || scene.shut_in().is_empty());
    let rows = by_item(&scene.world.path("out"));
    assert_eq!(rows.len(), N, "{rows:?}");
    let wrong = rows.iter().filter(|(_, row)| row["hard"] != 1);
    let wrong: Vec<&String> = wrong.map(|(id, _)| id).collect();
    assert_eq!(wrong, [&asked[N - 1].id], "{rows:?}");
    // Everybody asks once before the answer, and nothing is done over.
    let answered = scene.answered().requests;
    assert_eq!(answered, 2 * N as u64, "{}", cluster.said());
    scene
}

#[test]
fn fifty_codex_tasks_at_once_are_all_answered() {
    let scene = at_once::<50>("codex_exec", |_| {});
    let most = scene.stat("max_in_flight");
    assert!(most > 25, "{most} were asking at the same time");
}

#[test]
fn fifty_codex_tasks_are_answered_though_some_are_refused_for_a_while() {
    // Few enough that their pauses, which double where they come one by one, stay short.
    let refused = 5;
    let scene = at_once::<50>("codex_exec", |script| {
        for rule in script["rules"].as_array_mut().unwrap() {
            if rule["when"]["tool"] == "exec_command" {
                rule["reply"]["fault"] = json!({"kind": "status", "status": 429, "times": refused});
            } else if rule["reply"]["latency_ms"].is_u64() {
                // Those who are slowed down are done in time if the model does not think for long.
                rule["reply"]["latency_ms"] = json!(500);
            }
        }
    });
    let asked = scene.stat("requests");
    assert_eq!(asked, scene.answered().requests + refused);
}

#[test]
fn eight_claude_code_tasks_at_once_are_all_answered() {
    let scene = at_once::<8>("claude_code_exec", |_| {});
    assert!(scene.stat("max_in_flight") > 1);
}
