//! Caps in a cluster of real workers.

use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::{LONG, for_some, until};

use crate::scene::{OUT, SLOTS, Scene, deadly_shape, number, shape};

#[test]
fn a_cap_holds_against_many_workers_and_can_be_raised() {
    let scene = Scene::new("uniform:5,40");
    // 64 slots in eight processes.
    let cluster = Cluster::start_with(Shape {
        slots: "chat=8".to_owned(),
        ..shape(1, 8)
    });
    let cap = scene.results / 2;
    let mut capped = scene.submission(&cluster, OUT);
    capped.args(["--requests", &cap.to_string()]);
    let ended = run(&mut capped)
        .code(4)
        .says(&["budget", "skillopt resume", "--requests"]);
    let given = scene.sim.settled().ok();
    assert!(
        given <= cap,
        "{given} calls were answered, {cap} were allowed"
    );
    assert!(
        given > cap / 2,
        "a cap stops a run when it is reached, not before: {given} of {cap}"
    );
    let id = resumable(&ended.stderr);
    let more = (10 * scene.results).to_string();
    run(&mut cluster.command(&["resume", &id, "--requests", &more])).code(0);
    // Waited for with the command that began it, which does not lower the cap again.
    run(&mut capped).code(0);
    // What calls used is told in batches.
    let mut row = serde_json::Value::Null;
    let settled = for_some(LONG, || {
        let usage = run(&mut cluster.command(&["usage", &id, "--json"])).code(0);
        let mut lines = usage.stdout.lines();
        row = lines
            .find_map(|line| serde_json::from_str(line).ok())
            .expect("a row of JSON");
        (row["requests"] == scene.results && row["reserved_requests"] == 0).then_some(())
    });
    assert!(settled.is_some(), "not all calls are settled: {row}");
    assert_eq!(row["cap_requests"], 10 * scene.results, "{row}");
    // All that was paid for is kept, also for the run without a limit.
    let again = run(&mut scene.submission(&cluster, OUT));
    assert_eq!(scene.is_well(&again, &cluster, 0), 0);
}

#[test]
fn what_killed_workers_had_reserved_is_given_back() {
    // A reservation lives for a lease longer than its call may take.
    let limits = ["--set", "env.exec_timeout=15", "model.optimizer_timeout=15"];
    let scene = Scene::with("uniform:200,600", &limits);
    let mut cluster = Cluster::start_with(deadly_shape(1, 3));
    let mut submission = scene.submission(&cluster, OUT);
    submission.args(["--requests", &(10 * scene.results).to_string()]);
    let mut run = scene.begin(&cluster, &mut submission);
    let kills = 3;
    for part in 1..=kills {
        scene.until_part(&mut run, part, kills + 2);
        until("a call has a reservation", || {
            number(&cluster, "HLEN skillopt:{q}:ledger") > 0
        });
        cluster.workers.remove(0).kill();
        cluster.add_worker();
    }
    let ended = run.wait();
    let lost = scene.is_well_but_for("budget_requests", &ended, &cluster, kills * SLOTS);
    let lapsed = number(&cluster, "ZCARD skillopt:{q}:ledger:lapsed");
    println!(
        "{kills} workers killed, {lapsed} reservations of theirs given back, {lost} answers lost"
    );
    assert!(lapsed > 0, "nobody died with a reservation");
    assert!(
        lapsed <= kills * SLOTS,
        "{lapsed} reservations lapsed, more than the dead can have had"
    );
}

/// Finds the run in the words that say how to go on.
pub(crate) fn resumable(said: &str) -> String {
    let rest = said.split("skillopt resume ").nth(1);
    let id = rest.and_then(|rest| rest.split(['`', ' ', '\n']).next());
    id.unwrap_or_else(|| panic!("it does not say what to type:\n{said}"))
        .to_owned()
}
