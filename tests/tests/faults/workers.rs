//! Workers that die, freeze, come and go.

use std::time::Duration;

use skillopt_tests::support::Draw;
use skillopt_tests::support::cluster::Cluster;
use skillopt_tests::support::http::get;
use skillopt_tests::support::wait::until;

use crate::scene::{Scene, after, shape};

const SLOTS: u64 = 6;

#[test]
fn workers_that_are_killed_every_second_cost_only_what_they_had_in_hand() {
    let (scene, mut draw) = (Scene::new("uniform:20,120"), Draw::new());
    let mut cluster = Cluster::start_with(shape(1, 3));
    let mut run = scene.submit(&cluster);
    let mut kills = 0;
    while !Scene::is_over(&mut run) && kills < 8 {
        after(Duration::from_millis(300 + draw.below(900)));
        let victim = usize::try_from(draw.below(3)).expect("small");
        cluster.workers.remove(victim).kill();
        cluster.add_worker();
        kills += 1;
    }
    let lost = scene.ends_well(run, &cluster, kills * SLOTS);
    println!("{kills} workers killed, {lost} answers lost with them");
    assert!(kills >= 3, "the run was over before it was disturbed");
}

#[test]
fn a_frozen_worker_that_comes_back_has_no_say() {
    let scene = Scene::new("uniform:20,120");
    let mut cluster = Cluster::start_with(shape(1, 2));
    let mut run = scene.submit(&cluster);
    cluster.workers[0].freeze();
    let metrics = cluster.coordinators[0].http();
    until("its leases have run out", || {
        let (_, page) = get(metrics, "/metrics").expect("a page");
        let mut lines = page.lines();
        let lost = lines.find_map(|line| line.strip_prefix("skillopt_queue_lost_leases "));
        lost.is_some_and(|n| n != "0")
    });
    assert!(!Scene::is_over(&mut run), "the run ended before the thaw");
    cluster.workers[0].thaw();
    scene.ends_well(run, &cluster, SLOTS);
}

#[test]
fn the_clock_of_a_worker_does_not_matter() {
    let scene = Scene::new("uniform:10,60");
    let mut cluster = Cluster::start_with(shape(1, 1));
    for skew in ["+1h", "-1h"] {
        cluster.add_worker_with(&[
            ("LD_PRELOAD", &faketime()),
            ("FAKETIME", skew),
            ("DONT_FAKE_MONOTONIC", "1"),
        ]);
    }
    let run = scene.submit(&cluster);
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
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
    let scene = Scene::new("uniform:20,120");
    let mut cluster = Cluster::start_with(shape(1, 1));
    let run = scene.submit(&cluster);
    for _ in 0..19 {
        cluster.add_worker();
    }
    after(Duration::from_secs(1));
    // Told to go, they finish what they have: nothing is lost.
    let mut leaving: Vec<_> = cluster.workers.drain(1..).collect();
    for worker in &mut leaving {
        worker.terminate();
    }
    for worker in leaving {
        worker.wait().code(0);
    }
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
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
    let mut before = 0;
    until("all calls under way are long ones", || {
        let stats = scene.sim.stats();
        let calls = std::mem::replace(&mut before, stats.number("calls"));
        stats.number("in_flight") > 0 && calls == before
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
