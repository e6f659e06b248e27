//! Redis that is slow, away, or behind a bad network.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use skillopt_runtime::clock::Stopwatch;
use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::proxy::Proxy;
use skillopt_tests::support::wait::{LONG, until};

use crate::scene::{SLOTS, Scene, after, patient_shape};

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

/// Returns how long Redis takes to answer through a proxy.
#[track_caller]
fn round_trip(proxy: &Proxy) -> Duration {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).expect("a connection");
    stream.set_read_timeout(Some(LONG)).expect("a limit");
    let start = Stopwatch::start();
    stream.write_all(b"PING\r\n").expect("it is sent");
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+PONG\r\n");
    start.elapsed()
}

#[test]
fn twenty_seconds_without_redis_are_waited_out() {
    let scene = Scene::new("uniform:20,120");
    let (cluster, proxy) = behind(patient_shape(1, 2));
    let mut run = scene.submit(&cluster);
    scene.until_part(&mut run, 1, 4);
    proxy.cut();
    let before = scene.answered();
    after(Duration::from_secs(20));
    assert!(proxy.refused() > 0, "nobody asked for Redis");
    let meanwhile = scene.is_under_way(&mut run) - before;
    assert!(
        meanwhile <= 2 * SLOTS,
        "{meanwhile} calls were answered without Redis, more than were under way"
    );
    proxy.heal();
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}

#[test]
fn a_slow_redis_makes_it_slow_and_nothing_else() {
    let scene = Scene::new("uniform:5,20");
    let (cluster, proxy) = behind(patient_shape(1, 2));
    let mut run = scene.submit(&cluster);
    let half = Duration::from_millis(250);
    proxy.delay(half);
    let took = round_trip(&proxy);
    assert!(took >= 2 * half, "an answer takes {took:?}");
    // Work goes on, for some seconds.
    let (before, slow) = (scene.is_under_way(&mut run), Stopwatch::start());
    until("some more calls are answered", || {
        let is_enough = scene.answered() >= before + 2 * SLOTS;
        (is_enough && slow.elapsed() > Duration::from_secs(5)) || Scene::is_over(&mut run)
    });
    scene.is_under_way(&mut run);
    proxy.heal();
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}

#[test]
fn connections_that_are_reset_are_made_again() {
    let scene = Scene::new("uniform:50,250");
    let (cluster, proxy) = behind(patient_shape(1, 2));
    let run = scene.submit(&cluster);
    // How many answers were in at each reset.
    let mut seen = Vec::new();
    for _ in 0..30 {
        proxy.reset();
        after(Duration::from_millis(100));
        seen.push(scene.answered());
    }
    seen.retain(|answered| *answered < scene.results);
    let resets = seen.len();
    assert!(resets >= 10, "only {resets} resets fell into the run");
    seen.dedup();
    assert!(
        seen.len() > 2,
        "no calls were answered between the resets: {seen:?}"
    );
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}
