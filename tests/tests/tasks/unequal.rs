//! Workers that lack an agent's program, or a sandbox for it, beside one that has both: each says what it
//! does not take, and nobody's run pauses for that.

use serde_json::Value;
use skillopt_tests::support::Cluster;
use skillopt_tests::support::cluster::Node;
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;

use crate::scene::{ASKS_FOUR_TIMES, Scene, answers};

/// Where programs of the system lie, and no agent's.
const BARE: &str = "/usr/bin:/bin";

fn tasks_of(node: &Node) -> u64 {
    node.metric("skillopt_worker_jobs_total", &["kind=\"exec\""])
}

/// Adds a worker without the program, and one that has it and no sandbox.
#[track_caller]
fn add_unable(scene: &Scene, cluster: &mut Cluster) -> [usize; 2] {
    // One that does not work stands before the machine's own.
    let broken = scene
        .world
        .program("broken/bwrap", "echo bwrap cannot start >&2; exit 1");
    let [broken, bin] = [broken.parent().unwrap(), &scene.world.path("bin")];
    let bin = format!("{}:{}", broken.display(), bin.display());
    let no_program = cluster.add_worker_with(&[("PATH", BARE)]);
    let strict = ("SKILLOPT_SANDBOX", "bubblewrap");
    let no_sandbox = cluster.add_worker_with(&[("PATH", &bin), strict]);
    for (at, words) in [
        (no_program, ["not installed", "codex_exec"]),
        (no_sandbox, ["no agent is offered", "bwrap"]),
    ] {
        let said = cluster.workers[at].said();
        for part in words {
            assert!(said.contains(part), "`{part}`: {said}");
        }
    }
    [no_program, no_sandbox]
}

#[test]
fn workers_without_the_program_or_a_sandbox_leave_tasks_to_others() {
    let scene = Scene::new(answers(1), ASKS_FOUR_TIMES);
    let mut cluster = scene.cluster(1, 2);
    let able = cluster.workers[0].said();
    assert!(able.contains("agents: offers"), "{able}");
    assert!(able.contains("codex_exec"), "{able}");
    let unable = add_unable(&scene, &mut cluster);
    run(&mut scene.submit(&cluster, "out", &[])).code(0);
    for at in unable {
        let node = &cluster.workers[at];
        assert_eq!(tasks_of(node), 0, "{}", node.said());
    }
    let listed = run(&mut cluster.command(&["workers"])).code(0).stdout;
    assert!(!listed.contains("sick"), "{listed}");
}

#[test]
fn tasks_that_no_worker_offers_wait_and_it_is_said_why() {
    let scene = Scene::new(answers(1), ASKS_FOUR_TIMES);
    let mut cluster = scene.cluster(0, 2);
    add_unable(&scene, &mut cluster);
    let submission = Process::start(&mut scene.submit(&cluster, "out", &[]));
    until("it is said that nobody takes the tasks", || {
        let said = run(&mut cluster.command(&["why", "--json"])).code(0).stdout;
        let said: Value = serde_json::from_str(said.trim()).unwrap();
        let mut waits = said["waits"].as_array().unwrap().iter();
        waits.any(|wait| {
            let words = wait["words"].as_str().unwrap();
            wait["code"] == "no_capability"
                && words.contains("no live worker offers")
                && words.contains("codex_exec")
        })
    });
    cluster.add_worker();
    submission.wait().code(0);
}
