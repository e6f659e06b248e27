//! Caps and rates of a cluster hold for the requests of its agents.

use serde_json::{Value, json};
use skillopt_runtime::clock::Stopwatch;
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Cluster, Ended};

use crate::scene::{ASKS_FOUR_TIMES, Answered, ITEMS, Scene, answers};

/// Finds the run in the words that say how to go on.
fn resumable(ended: &Ended) -> String {
    let rest = ended.stderr.split("skillopt resume ").nth(1);
    let id = rest.and_then(|rest| rest.split(['`', ' ', '\n']).next());
    id.unwrap_or_else(|| panic!("it does not say what to type:\n{}", ended.stderr))
        .to_owned()
}

/// Returns what a run has used, once nothing is held any more.
#[track_caller]
pub(crate) fn used(cluster: &Cluster, id: &str) -> Value {
    let mut row = Value::Null;
    until("nothing is reserved", || {
        let usage = run(&mut cluster.command(&["usage", id, "--json"])).code(0);
        let mut lines = usage.stdout.lines();
        row = lines
            .find_map(|line| serde_json::from_str(line).ok())
            .expect("a row of JSON");
        row["reserved_requests"] == 0
    });
    row
}

#[test]
fn no_cap_is_exceeded_by_the_requests_of_many_agents() {
    for (args, cap, of, raised) in [
        (
            ["--requests", "20"],
            20,
            (|a| a.requests) as fn(Answered) -> u64,
            Some(["--requests", "1000"]),
        ),
        (
            ["--set", "budget.tokens=4000"],
            4_000,
            |a| a.input + a.output,
            None,
        ),
        (
            ["--usd", "0.08"],
            80_000,
            Answered::micro_usd,
            Some(["--usd", "100"]),
        ),
    ] {
        let scene = Scene::new(answers(20), ASKS_FOUR_TIMES);
        let cluster = scene.cluster(3, 4);
        let mut capped = scene.submit(&cluster, "out", &args);
        let ended = run(&mut capped)
            .code(4)
            .says(&["budget", "skillopt resume"]);
        let answered = scene.answered();
        let spent = of(answered);
        assert!(spent <= cap, "{spent} of {cap}: {answered:?}");
        assert!(spent > cap / 3, "{spent} of {cap}: {answered:?}");
        let id = resumable(&ended);
        let row = used(&cluster, &id);
        assert_eq!(row["requests"], answered.requests, "{row}");
        let out = scene.world.path("out");
        assert!(!out.join("summary.json").exists() && !out.join("results.json").exists());
        let Some(raised) = raised else { continue };
        // The rest is done once more is allowed.
        let resume = [&["resume", id.as_str()][..], &raised].concat();
        run(&mut cluster.command(&resume)).code(0);
        run(&mut capped).code(0);
        let all = scene.answered();
        assert!(all.requests >= 4 * ITEMS, "{all:?}");
    }
}

/// Model calls of each agent in the test below.
const ROUNDS: u64 = 20;

/// Returns how many requests the model has refused.
fn refused(scene: &Scene) -> usize {
    let requests = scene.requests().into_iter();
    requests.filter(|request| request["status"] == 429).count()
}

/// One agent of one worker is refused, once: those of the others, which nobody has refused anything,
/// wait as long as the provider asked for.
#[test]
fn a_throttled_account_slows_the_agents_of_all_workers() {
    let rounds = format!("{{1..{ROUNDS}}}");
    let program = ASKS_FOUR_TIMES.replace("1 2 3 4", &rounds);
    let scene = Scene::new(answers(300), &program);
    let cluster = scene.cluster(3, 4);
    let process = Process::start(&mut scene.submit(&cluster, "out", &[]));
    until("the agents are at work", || {
        scene.answered().requests >= 2 * ITEMS
    });
    let since = Stopwatch::start();
    let mut throttled = answers(300);
    throttled["default"]["headers"] = json!({"retry-after": "5"});
    throttled["default"]["fault"] = json!({"kind": "status", "status": 429, "times": 1});
    scene.script(throttled);
    until("one of them is refused", || refused(&scene) == 1);
    let before = scene.answered().requests;
    until("nobody asks any more", || scene.stat("in_flight") == 0);
    let paused = scene.answered().requests;
    // What was on its way, and what left before the refusal got around.
    assert!(paused - before <= 3 * ITEMS, "{before}, then {paused}");
    until("they go on", || scene.answered().requests > paused);
    let seconds = since.seconds();
    assert!(seconds >= 5.0, "somebody went on after {seconds} s");
    process.wait().code(0);
    assert_eq!(scene.answered().requests, ROUNDS * ITEMS);
    assert_eq!(refused(&scene), 1);
}
