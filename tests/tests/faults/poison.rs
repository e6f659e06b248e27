//! A job that brings down every worker that takes it.

use skillopt_tests::support::Process;
use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::until;

use crate::scene::{OUT, Scene, shape};

/// Kills that it may take: a first one may fall on a job that does not stay the first in line.
const KILLS_MAX: usize = 6;

#[track_caller]
fn counted(cluster: &Cluster, name: &str) -> u64 {
    cluster.coordinators[0].metric(name, &[])
}

/// Starts a worker, kills it when it has its one job, which is of this scene, and waits until the job is
/// taken from it; returns its name.
#[track_caller]
fn lost_with_its_job(cluster: &mut Cluster, scene: &Scene) -> String {
    let before = counted(cluster, "skillopt_queue_lost_leases");
    let at = cluster.add_worker();
    until("the worker has a job", || {
        scene.sim.stats().number("in_flight") == 1
    });
    let worker = cluster.workers.remove(at);
    let name = worker.name().to_owned();
    worker.kill();
    until("its lease has run out", || {
        counted(cluster, "skillopt_queue_lost_leases") > before
    });
    name
}

/// Finds the job in the words that say where more is told of it.
#[track_caller]
fn job_in(said: &str) -> String {
    let rest = said.split("`skillopt why ").nth(1);
    let key = rest.and_then(|rest| rest.split('`').next());
    key.unwrap_or_else(|| panic!("it does not say what to type:\n{said}"))
        .to_owned()
}

#[test]
fn a_job_that_kills_its_workers_pauses_its_run_alone_and_says_what_happened() {
    // Each has models of its own, so that they have no job in common.
    let (scene, other) = (Scene::new("fixed:600000"), Scene::new("uniform:5,40"));
    let mut cluster = Cluster::start_with(Shape {
        slots: "chat=1".to_owned(),
        ..shape(1, 0)
    });
    let poisoned = Process::start(&mut scene.submission(&cluster, OUT));
    let id = scene.world.run_id(OUT);
    let mut killed = vec![lost_with_its_job(&mut cluster, &scene)];
    let beside = Process::start(&mut other.submission(&cluster, OUT));
    assert_ne!(other.world.run_id(OUT), id);
    while counted(&cluster, "skillopt_queue_dead") == 0 {
        assert!(killed.len() < KILLS_MAX, "no job was set aside: {killed:?}");
        killed.push(lost_with_its_job(&mut cluster, &scene));
    }

    // What else was asked for is finished before a run pauses, by workers that live on.
    let quick = serde_json::json!({"latency": "uniform:5,20"});
    scene.sim.configure(quick);
    for _ in 0..2 {
        cluster.add_worker();
    }
    let ended = poisoned.wait().code(4).says(&[
        "infrastructure",
        "rollout of item `",
        "was set aside: 3 workers lost it",
        "skillopt resume",
    ]);
    let key = job_in(&ended.stderr);
    let of_run = run(&mut cluster.command(&["why", &id])).code(0).stdout;
    assert!(of_run.contains(&key), "{of_run}");
    let of_job = run(&mut cluster.command(&["why", &key])).code(0).stdout;
    let evidence = of_job.lines().filter(|line| {
        let is_of_killed = killed
            .iter()
            .any(|name| line.contains(&format!("`{name}`")));
        is_of_killed && line.contains(" ago, worker ") && line.contains("the lease ran out")
    });
    assert_eq!(evidence.count(), 3, "{of_job}");
    let resume = format!("skillopt resume {id}");
    assert!(of_job.contains(&resume), "{of_job}");

    // The other run goes on as soon as there are workers, as if nothing had been.
    assert_eq!(other.ends_well(beside, &cluster, 0), 0);

    run(&mut cluster.command(&["resume", &id])).code(0);
    let ended = run(&mut scene.submission(&cluster, OUT));
    scene.is_well(&ended, &cluster, killed.len() as u64);
    assert_eq!(counted(&cluster, "skillopt_queue_dead"), 0);
}
