//! A worker that dies in the midst of tasks leaves nothing behind, and nothing is scored for it.

use nix::sys::signal::Signal;
use serde_json::json;
use skillopt_tests::support::folder::{rows, rows_are_real};
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;

use crate::caps::used;
use crate::real::by_item;
use crate::scene::{ASKS_FOUR_TIMES, ITEMS, Scene, answers};
use crate::scripts::{Question, knows, questions};

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
    // What a dead worker holds is given back as soon as none of its tasks can be under way any more.
    let capped = ["--requests", "1000", "--set", "env.exec_timeout=10"];
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

/// What is under way when somebody is killed.
struct Midst {
    scene: Scene,
    asked: [Question; 4],
}

impl Midst {
    /// Puts real CLIs to work that will have no answer for long, but for the first.
    fn new() -> Self {
        let scene = Scene::real("codex_exec");
        let asked = questions(&scene);
        scene.script(knows(&asked, 600_000));
        Self { scene, asked }
    }

    /// Waits until all but the first wait for the answer.
    #[track_caller]
    fn wait(&self, run: &mut Process) {
        until("three agents wait for their answer", || {
            assert!(run.status().is_none(), "{}", run.stderr());
            self.scene.answered().requests == 5 && self.scene.stat("in_flight") == 3
        });
        let inside = self.scene.shut_in();
        let are_real = inside.iter().filter(|words| words.contains("codex exec"));
        assert!(are_real.count() >= 3, "{inside:?}");
    }

    /// Looks at what is left, and gives the model its voice again.
    #[track_caller]
    fn after(&self) {
        until("nothing of the agents is alive", || {
            self.scene.shut_in().is_empty()
        });
        self.scene.script(knows(&self.asked, 0));
    }

    /// Checks that all came to the same as where nobody was killed.
    #[track_caller]
    fn same(&self) {
        run(&mut self.scene.eval("calm", &FOUR)).code(0);
        let rows = |out: &str| rows(&self.scene.world.path(out));
        assert_eq!(rows("out"), rows("calm"));
        let items = by_item(&self.scene.world.path("out"));
        let scores = items.values().map(|row| row["hard"].as_u64());
        let scores: Vec<_> = scores.map(Option::unwrap).collect();
        assert_eq!(scores, [1, 1, 1, 0], "{items:?}");
        assert_eq!(self.scene.shut_in(), [""; 0]);
    }
}

const FOUR: [&str; 2] = ["--test_env_num", "4"];

#[test]
fn a_killed_evaluation_leaves_no_real_agent_and_ends_as_if_nothing_had_been() {
    let midst = Midst::new();
    let mut eval = Process::start(&mut midst.scene.eval("out", &FOUR));
    midst.wait(&mut eval);
    assert_eq!(midst.scene.sandboxes().len(), 1);
    eval.signal(Signal::SIGKILL);
    eval.wait();
    midst.after();
    // What an unfinished agent came to is no row, and so no score.
    let before = rows(&midst.scene.world.path("out"));
    run(&mut midst.scene.eval("out", &FOUR)).code(0);
    assert_eq!(
        midst.scene.sandboxes(),
        [""; 0],
        "the next clears what the killed one left"
    );
    rows_are_real(&before, &midst.scene.world.path("out"));
    midst.same();
}

#[test]
fn a_killed_worker_leaves_no_real_agent_and_another_does_its_tasks() {
    let midst = Midst::new();
    let mut cluster = midst.scene.cluster(1, 4);
    let mut submit = Process::start(&mut midst.scene.submit(&cluster, "out", &FOUR));
    midst.wait(&mut submit);
    cluster.workers.remove(0).kill();
    midst.after();
    cluster.add_worker();
    submit.wait().code(0);
    midst.same();
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
        let ended = run(&mut scene.eval("out", &quick));
        ended.code(4).says(&["paused", words]);
        assert!(rows(&scene.world.path("out")).is_empty());
        // The same command goes on.
        scene.script(answers(1));
        run(&mut scene.eval("out", &quick)).code(0);
    }
}
