//! Caps and rates of a cluster hold for the requests of its agents.

use serde_json::{Value, json};
use skillopt_tests::support::program::run;
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

#[test]
fn a_throttled_account_slows_the_agents_of_all_workers() {
    let throttled = json!({"default": {"text": "well", "headers": {"retry-after": "1"},
        "usage": {"input": 100, "output": 20},
        "fault": {"kind": "status", "status": 429, "times": 3}}});
    let scene = Scene::new(throttled, ASKS_FOUR_TIMES);
    let cluster = scene.cluster(3, 4);
    run(&mut scene.submit(&cluster, "out", &[])).code(0);
    let asked = scene.stat("requests");
    // Twelve agents ask at once; those after the first refusals wait instead of being refused.
    assert_eq!(scene.answered().requests, 4 * ITEMS, "{asked} were asked");
    assert!(asked <= 4 * ITEMS + 12, "{asked}");
}
