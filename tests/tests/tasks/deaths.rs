//! A worker that dies in the midst of tasks leaves nothing behind, and nothing is scored for it.

use serde_json::json;
use skillopt_tests::support::folder::rows;
use skillopt_tests::support::program::Process;
use skillopt_tests::support::wait::until;

use crate::caps::used;
use crate::scene::{ASKS_FOUR_TIMES, ITEMS, Scene, answers};

/// Leaves a process with a name of its own that does not go with its parent, and asks on.
fn daemon(name: &str) -> String {
    format!("setsid bash -c 'exec -a {name} sleep 600' >/dev/null 2>&1 &\n{ASKS_FOUR_TIMES}")
}

/// Counts processes of this machine whose arguments begin with a name.
pub(crate) fn alive(name: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let named = processes.filter(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.starts_with(name.as_bytes())
    });
    named.count()
}

#[test]
fn a_killed_worker_leaves_no_process_no_reservation_and_no_score() {
    let name = format!("of-a-task-{}", std::process::id());
    let scene = Scene::new(answers(700), &daemon(&name));
    let mut cluster = scene.cluster(2, 4);
    let capped = ["--requests", "1000", "--set", "env.exec_timeout=20"];
    let mut run = Process::start(&mut scene.submit(&cluster, "out", &capped));
    until("tasks are under way on both", || {
        assert!(
            run.status().is_none(),
            "{}\n{}",
            run.stderr(),
            cluster.said()
        );
        alive(&name) >= 8
    });
    let before = alive(&name);
    for _ in 0..2 {
        cluster.workers.remove(0).kill();
    }
    until("nothing of their tasks is alive", || alive(&name) == 0);
    cluster.add_worker();
    scene.script(answers(1));
    let ended = run.wait().code(0);
    let rows = rows(&scene.world.path("out"));
    let all: Vec<&String> = rows.values().flatten().collect();
    assert_eq!(all.len() as u64, ITEMS, "{before} were alive: {ended:?}");
    for row in all {
        assert!(row.contains("well"), "every agent had its say: {row}");
    }
    assert_eq!(alive(&name), 0);
    let id = scene.world.run_id("out");
    let row = used(&cluster, &id);
    assert!(row["requests"].as_u64() >= Some(4 * ITEMS), "{row}");
}

/// What the provider does wrong in the midst of a task is settled, and is no score.
#[test]
fn a_provider_that_fails_agents_pauses_the_run_without_a_score() {
    for (fault, words) in [
        (json!({"kind": "status", "status": 401}), "401"),
        (json!({"kind": "status", "status": 500}), "500"),
        (json!({"kind": "drop"}), "no connection"),
    ] {
        let scene = Scene::new(
            json!({"default": {"text": "well", "chunk_chars": 1, "fault": fault}}),
            ASKS_FOUR_TIMES,
        );
        let quick = ["--set", "model.retry_attempts=1"];
        let ended = skillopt_tests::support::program::run(&mut scene.eval("out", &quick));
        ended.code(4).says(&["paused", words]);
        assert!(rows(&scene.world.path("out")).is_empty());
        // The same command goes on.
        scene.script(answers(1));
        skillopt_tests::support::program::run(&mut scene.eval("out", &quick)).code(0);
    }
}
