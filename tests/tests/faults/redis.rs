//! Redis that is restarted, or full.

use std::time::Duration;

use nix::sys::signal::Signal;
use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::program::run;

use crate::budget::resumable;
use crate::scene::{Scene, after, shape};

#[test]
fn redis_may_be_killed_and_started_again() {
    let scene = Scene::new("uniform:20,120");
    let mut cluster = Cluster::start_with(Shape {
        worker_args: Vec::new(),
        ..shape(1, 2)
    });
    let mut run = scene.submit(&cluster);
    for _ in 0..3 {
        after(Duration::from_millis(400));
        cluster.redis.stop(Signal::SIGKILL);
        after(Duration::from_millis(400));
        cluster.redis.again();
    }
    let _ = Scene::is_over(&mut run);
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}

#[test]
fn a_redis_without_memory_pauses_the_run_and_a_person_resumes_it() {
    let scene = Scene::new("uniform:20,60");
    let cluster = Cluster::start_with(shape(1, 2));
    let process = scene.submit(&cluster);
    cluster
        .redis
        .ask("CONFIG SET maxmemory 1")
        .expect("Redis answers");
    let ended = process.wait().code(4).says(&["memory", "skillopt resume"]);
    let id = resumable(&ended.stderr);
    cluster
        .redis
        .ask("CONFIG SET maxmemory 0")
        .expect("Redis answers");
    run(&mut cluster.command(&["resume", &id])).code(0);
    let again = run(&mut scene.submission(&cluster, "out"));
    // What was under way when memory ran out could not be kept.
    scene.is_well(&again, &cluster, 12);
}
