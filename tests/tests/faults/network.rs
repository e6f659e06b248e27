//! Redis that is slow, away, or behind a bad network.

use std::time::Duration;

use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::proxy::Proxy;

use crate::scene::{Scene, after, shape};

/// A cluster whose every part reaches Redis through the proxy.
fn behind(shape: Shape) -> (Cluster, Proxy) {
    let workers = shape.workers;
    let mut cluster = Cluster::start_with(Shape {
        coordinators: 0,
        workers: 0,
        ..shape
    });
    let proxy = Proxy::start(cluster.redis.port());
    cluster.add_coordinator_behind(&proxy);
    for _ in 0..workers {
        cluster.add_worker_behind(&proxy);
    }
    (cluster, proxy)
}

#[test]
fn twenty_seconds_without_redis_are_waited_out() {
    let scene = Scene::new("uniform:20,120");
    // Leases as they are by default: longer than the outage.
    let (cluster, proxy) = behind(Shape {
        worker_args: Vec::new(),
        ..shape(1, 2)
    });
    let run = scene.submit(&cluster);
    proxy.cut();
    after(Duration::from_secs(20));
    proxy.heal();
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}

#[test]
fn a_slow_redis_makes_it_slow_and_nothing_else() {
    let scene = Scene::new("uniform:5,20");
    let (cluster, proxy) = behind(Shape {
        worker_args: Vec::new(),
        ..shape(1, 2)
    });
    let run = scene.submit(&cluster);
    proxy.delay(Duration::from_millis(250));
    // Half a second for each round trip.
    after(Duration::from_secs(5));
    proxy.heal();
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}

#[test]
fn connections_that_are_reset_are_made_again() {
    let scene = Scene::new("uniform:20,120");
    let (cluster, proxy) = behind(Shape {
        worker_args: Vec::new(),
        ..shape(1, 2)
    });
    let mut run = scene.submit(&cluster);
    let mut resets = 0;
    while !Scene::is_over(&mut run) && resets < 30 {
        proxy.reset();
        resets += 1;
        after(Duration::from_millis(100));
    }
    assert!(resets >= 10, "the run was over before it was disturbed");
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}
