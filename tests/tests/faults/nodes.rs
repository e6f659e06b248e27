//! Nodes of a Redis Cluster that die, and whose replicas take their place.

use std::time::Duration;

use skillopt_queue::conformance::server;
use skillopt_tests::support::cluster::{Cluster, Shape};

use crate::scene::{Scene, after, shape};

/// Answers that a node may take with it: what it has acknowledged and not handed on to its replica
/// yet.
const LOST_MAX: u64 = 12;

#[test]
fn nodes_of_a_redis_cluster_may_die_one_after_the_other() {
    let scene = Scene::new("uniform:20,120");
    let redis = server::Cluster::with_replicas();
    let mut cluster = Cluster::start_with(Shape {
        // Leases as they are by default: longer than it takes to replace a node.
        worker_args: Vec::new(),
        ..shape(0, 0)
    });
    let url = redis.url();
    cluster.add_coordinator_at(&url, 0);
    for _ in 0..2 {
        cluster.add_worker_at(&url);
    }
    let mut run = scene.submit(&cluster);
    let mut kills = 0;
    // The node of the queue first, then those that have blobs and logs.
    for key in ["skillopt:{q}:c", "{a}", "{b}", "skillopt:{q}:c"] {
        after(Duration::from_millis(300));
        if Scene::is_over(&mut run) {
            break;
        }
        let node = redis.master_of(key);
        node.kill();
        kills += 1;
        let _ = redis.master_of(key);
        node.restart();
        redis.until_whole();
    }
    let lost = scene.ends_well(run, &cluster, LOST_MAX);
    println!("{kills} nodes killed, {lost} answers lost with them");
    assert!(kills >= 2, "the run was over before it was disturbed");
}
