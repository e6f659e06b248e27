//! Redis that is restarted, or full.

use std::time::Duration;

use nix::sys::signal::Signal;
use skillopt_tests::support::cluster::Cluster;
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::until;

use crate::budget::resumable;
use crate::scene::{OUT, SLOTS, Scene, after, patient_shape, shape};

#[test]
fn redis_may_be_killed_and_started_again() {
    let scene = Scene::new("uniform:20,120");
    let mut cluster = Cluster::start_with(patient_shape(1, 2));
    let mut run = scene.submit(&cluster);
    for part in 1..=3 {
        // In different parts of the run; what comes after the last one needs Redis as well.
        scene.until_part(&mut run, part, 5);
        cluster.redis.stop(Signal::SIGKILL);
        after(Duration::from_millis(400));
        cluster.redis.again();
        let before = scene.is_under_way(&mut run);
        until("work goes on", || {
            scene.answered() > before + 2 * SLOTS || Scene::is_over(&mut run)
        });
    }
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}

#[test]
fn a_redis_without_memory_pauses_the_run_and_a_person_resumes_it() {
    let scene = Scene::new("uniform:20,60");
    let cluster = Cluster::start_with(shape(1, 2));
    let mut process = scene.submit(&cluster);
    scene.until_part(&mut process, 1, 5);
    cluster
        .redis
        .ask("CONFIG SET maxmemory 1")
        .expect("Redis answers");
    let ended = process.wait().code(4).says(&["memory", "skillopt resume"]);
    let answered = scene.sim.settled().ok();
    assert!(answered < scene.results, "nothing is left to resume for");
    let id = resumable(&ended.stderr);
    cluster
        .redis
        .ask("CONFIG SET maxmemory 0")
        .expect("Redis answers");
    run(&mut cluster.command(&["resume", &id])).code(0);
    let again = run(&mut scene.submission(&cluster, OUT));
    // What was under way when memory ran out could not be kept.
    scene.is_well(&again, &cluster, 2 * SLOTS);
}
