//! Workers that die, freeze, come and go.

use std::time::Duration;

use skillopt_tests::support::Draw;
use skillopt_tests::support::cluster::{Cluster, Node, Shape};
use skillopt_tests::support::http::get;
use skillopt_tests::support::wait::until;

use crate::scene::{SLOTS, Scene, after, deadly_shape, shape};

/// Returns how many leases have run out.
#[track_caller]
fn lost_leases(cluster: &Cluster) -> u64 {
    cluster.coordinators[0].metric("skillopt_queue_lost_leases", &[])
}

#[test]
fn workers_that_are_killed_every_second_cost_only_what_they_had_in_hand() {
    let (scene, mut draw) = (Scene::new("uniform:50,250"), Draw::new());
    let mut cluster = Cluster::start_with(deadly_shape(1, 3));
    let run = scene.submit(&cluster);
    // How many answers were in at each kill.
    let mut seen = Vec::new();
    while seen.len() < 8 {
        after(Duration::from_millis(300 + draw.below(900)));
        let answered = scene.answered();
        if answered >= scene.results {
            break;
        }
        let victim = match seen.len() % 2 {
            0 => usize::try_from(draw.below(3)).expect("small"),
            // Chance may hit only those that wait.
            _ => busy(&cluster, || scene.answered() >= scene.results),
        };
        cluster.workers.remove(victim).kill();
        cluster.add_worker();
        seen.push(answered);
    }
    let kills = seen.len() as u64;
    let lost = scene.ends_well(run, &cluster, kills * SLOTS);
    let leases = lost_leases(&cluster);
    println!("{kills} workers killed with {leases} jobs, {lost} answers lost with them");
    assert!(kills >= 3, "the run was over before it was disturbed");
    assert!(leases > 0, "none of the killed had a job");
    seen.dedup();
    assert!(
        seen.len() > 1,
        "no work was done between the kills: {seen:?}"
    );
}

#[test]
fn a_frozen_worker_that_comes_back_has_no_say() {
    let scene = Scene::new("uniform:20,120");
    let mut cluster = Cluster::start_with(shape(1, 2));
    let mut run = scene.submit(&cluster);
    until("the worker has jobs", || in_hand(&cluster.workers[0]) > 0);
    cluster.workers[0].freeze();
    until("its leases have run out", || lost_leases(&cluster) > 0);
    scene.is_under_way(&mut run);
    cluster.workers[0].thaw();
    let frozen = &cluster.workers[0];
    until("it lets go of what is not its own any more", || {
        frozen.ended(&["lost", "refused"]) > 0
    });
    scene.ends_well(run, &cluster, SLOTS);
}

/// Waits for a worker that has a job in hand; any will do once `is_over`.
#[track_caller]
fn busy(cluster: &Cluster, is_over: impl Fn() -> bool) -> usize {
    let mut found = None;
    until("a worker has a job", || {
        found = cluster.workers.iter().position(|w| in_hand(w) > 0);
        found.is_some() || is_over()
    });
    found.unwrap_or_default()
}

/// Returns how many jobs a worker has in hand.
#[track_caller]
fn in_hand(worker: &Node) -> u64 {
    worker.metric("skillopt_worker_jobs_in_flight", &[])
}

#[test]
fn the_clock_of_a_worker_does_not_matter() {
    let scene = Scene::new("uniform:10,60");
    // So few slots that each worker gets something to do.
    let mut cluster = Cluster::start_with(Shape {
        slots: "chat=2".to_owned(),
        ..shape(1, 1)
    });
    for skew in ["+1h", "-1h"] {
        cluster.add_worker_with(&[
            ("LD_PRELOAD", &faketime()),
            ("FAKETIME", skew),
            ("DONT_FAKE_MONOTONIC", "1"),
        ]);
    }
    let run = scene.submit(&cluster);
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
    for worker in &cluster.workers {
        assert!(worker.ended(&["done"]) > 0, "{} did nothing", worker.name());
    }
    assert_eq!(lost_leases(&cluster), 0);
    let seen = cluster
        .command(&["workers", "--json"])
        .output()
        .expect("a list");
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert_eq!(seen.matches("\"well\"").count(), 3, "{seen}");
}

/// The library that shows a program another time.
fn faketime() -> String {
    let places = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib64/faketime/libfaketimeMT.so.1",
    ];
    let found = places
        .into_iter()
        .find(|path| std::path::Path::new(path).exists());
    found
        .expect("libfaketime is installed by `cargo xtask test`")
        .to_owned()
}

#[test]
fn workers_may_come_and_go_while_it_runs() {
    // Long enough for nineteen processes to start, and so few slots that there is work for several.
    let scene = Scene::new("uniform:400,1200");
    let mut cluster = Cluster::start_with(Shape {
        slots: "chat=2".to_owned(),
        ..shape(1, 1)
    });
    let mut run = scene.submit(&cluster);
    for _ in 0..19 {
        cluster.add_worker();
    }
    until("several of the new ones are at work", || {
        let new = &cluster.workers[1..];
        new.iter().filter(|worker| in_hand(worker) > 0).count() >= 3 || Scene::is_over(&mut run)
    });
    scene.is_under_way(&mut run);
    // Told to go, they finish what they have: nothing is lost.
    let mut leaving: Vec<_> = cluster.workers.drain(1..).collect();
    for worker in &mut leaving {
        worker.terminate();
    }
    for worker in leaving {
        worker.wait().code(0);
    }
    // The rest is for the one that stays.
    scene.is_under_way(&mut run);
    let before = cluster.workers[0].ended(&["done"]);
    scene
        .sim
        .configure(serde_json::json!({"latency": "uniform:5,20"}));
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
    let rest = cluster.workers[0].ended(&["done"]) - before;
    assert!(rest > 0, "nothing was left to do");
    assert_eq!(lost_leases(&cluster), 0, "a worker left with a job");
}

#[test]
fn a_worker_that_is_told_twice_hands_its_jobs_back() {
    let scene = Scene::new("uniform:5,20");
    let mut cluster = Cluster::start_with(shape(1, 1));
    let run = scene.submit(&cluster);
    // Longer than anybody here waits.
    scene
        .sim
        .configure(serde_json::json!({"latency": "fixed:600000"}));
    let (mut before, mut same) = (0, 0);
    until("all calls under way are long ones", || {
        let stats = scene.sim.stats();
        let now = stats.number("calls");
        same = if now == before { same + 1 } else { 0 };
        before = now;
        // The short ones take no longer than so many looks.
        stats.number("in_flight") > 0 && same > 100
    });
    cluster.workers[0].terminate();
    let health = cluster.workers[0].http();
    // Two signals at once are one.
    until("it has understood the first", || {
        !get(health, "/readyz").is_ok_and(|(status, _)| status == 200)
    });
    cluster.workers[0].terminate();
    let first = cluster.workers.remove(0);
    first.wait();
    scene
        .sim
        .configure(serde_json::json!({"latency": "uniform:5,20"}));
    cluster.add_worker();
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}
