//! Nodes of a Redis Cluster that die, and whose replicas take their place.

use skillopt_queue::conformance::server;
use skillopt_tests::support::cluster::Cluster;

use crate::scene::{SLOTS, Scene, nothing_is_left_in, patient_shape};

/// Where the queue lies.
const QUEUE: &str = "skillopt:{q}:c";
/// Answers that a node may take with it: what it has acknowledged and not handed on to its replica
/// yet.
const LOST_MAX: u64 = 2 * SLOTS;

#[test]
fn nodes_of_a_redis_cluster_may_die_one_after_the_other() {
    let scene = Scene::new("uniform:20,120");
    let redis = server::Cluster::with_replicas();
    // Its own Redis serves nobody.
    let mut cluster = Cluster::start_with(patient_shape(0, 0));
    let url = redis.url();
    cluster.add_coordinator_at(&url, 0);
    for _ in 0..2 {
        cluster.add_worker_at(&url);
    }
    let mut run = scene.submit(&cluster);
    let (usual, slow) = ("uniform:20,120", "fixed:4000");
    let pace = |latency: &str| {
        let settings = serde_json::json!({ "latency": latency });
        scene.sim.configure(settings);
    };
    // The node of the queue first, then those that have blobs and logs.
    for (part, key) in (1..).zip([QUEUE, "{a}", "{b}", QUEUE]) {
        scene.until_part(&mut run, part, 7);
        // The run must not come to its end before its nodes are whole again.
        pace(slow);
        let node = redis.master_of(key);
        node.kill();
        let _ = redis.master_of(key);
        node.restart();
        redis.until_whole();
        scene.is_under_way(&mut run);
        pace(usual);
    }
    let lost = scene.ends_well(run, &cluster, LOST_MAX);
    println!("4 nodes killed, {lost} answers lost with them");
    nothing_is_left_in("the node of the queue", |script| {
        let answer = redis.master_of(QUEUE).ask(&["EVAL", script, "0"]);
        format!("{answer:?}")
    });
}
