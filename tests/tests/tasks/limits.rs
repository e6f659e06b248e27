//! A task that takes more than it may has failed by itself, and says of what.

use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::until;

use crate::deaths::alive;
use crate::real::by_item;
use crate::scene::{ASKS_FOUR_TIMES, Scene, answers};
use crate::scripts::{Question, questions};

#[test]
fn a_task_over_a_limit_that_is_set_has_failed_by_itself() {
    let name = format!("takes-too-much-{}", std::process::id());
    let many = format!("for n in {{1..200}}; do bash -c 'exec -a {name} sleep 600' & done; wait");
    for (takes, limit, what) in [
        (
            "exec perl -e '$much = 1 x 400_000_000; sleep 600'",
            "model.agent_max_memory_mib=200",
            "memory",
        ),
        (
            "for n in 1 2 3; do head -c 20000000 /dev/zero >large$n; done; sleep 600",
            "model.agent_max_disk_mib=32",
            "disk",
        ),
        (many.as_str(), "model.agent_max_processes=64", "processes"),
    ] {
        let scene = Scene::new(answers(1), "");
        let [modest, greedy]: [Question; 2] = questions(&scene);
        let words = greedy.words();
        scene.program(&format!(
            "grep -q '{words}' task.md && {{ ask >/dev/null; {takes}; }}\n{ASKS_FOUR_TIMES}"
        ));
        let set = ["--test_env_num", "2", "--set", limit];
        run(&mut scene.eval("out", &set)).code(0);
        let rows = by_item(&scene.world.path("out"));
        let (modest, greedy) = (&rows[&modest.id], &rows[&greedy.id]);
        let why = format!("it used more {what} than it may");
        assert_eq!(greedy["fail_reason"], why.as_str(), "{limit}: {greedy}");
        assert_eq!(greedy["hard"].as_u64(), Some(0), "{limit}: {greedy}");
        // Whoever keeps to it had its say.
        let said = modest["response"].as_str().unwrap();
        assert!(said.contains("well"), "{limit}: {modest}");
        until("nothing of it is alive", || alive(&name) == 0);
    }
}

#[test]
fn a_limit_that_no_task_could_keep_is_refused_before_anything_is_spent() {
    let scene = Scene::new(answers(1), ASKS_FOUR_TIMES);
    for (set, words) in [
        (
            "model.agent_max_memory_mib=100",
            "less than the program takes for itself",
        ),
        ("model.agent_max_processes=8", "from 64 to 32768"),
    ] {
        let ended = run(&mut scene.eval("out", &["--set", set]));
        ended.code(2).says(&["agent_max_", words]);
    }
    assert!(!scene.world.path("out").exists());
    assert_eq!(scene.stat("requests"), 0);
}
