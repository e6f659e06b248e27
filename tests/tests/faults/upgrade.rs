//! A release whose jobs are others takes the place of one that runs.
//!
//! What a release changes of a job stands in the name of its lane, and there is one release to test
//! with. So the new one is the same program behind a proxy that counts releases up on the way to Redis
//! and down on the way back: to Redis and to all others it is of the next release, and to it they are
//! of the one before.

use std::time::Duration;

use serde_json::Value;
use skillopt_core::{capability, job};
use skillopt_runtime::clock::Stopwatch;
use skillopt_tests::support::cluster::Cluster;
use skillopt_tests::support::program::run;
use skillopt_tests::support::proxy::{Proxy, Word};
use skillopt_tests::support::wait::until;

use crate::scene::{Scene, shape};

const THERE: &[Word] = &[("v1 chat ", "v2 chat ")];
const BACK: &[Word] = &[("v2 chat ", "v1 chat "), ("v1 chat ", "v0 chat ")];

/// For so long nothing happens before it is believed that nothing will: coordinators tell every two
/// seconds how they see it.
const STILL: Duration = Duration::from_millis(2_500);

/// Returns how many jobs wait for a worker that can run them.
#[track_caller]
fn waiting_for_a_worker(cluster: &Cluster) -> u64 {
    let said = run(&mut cluster.command(&["why", "--json"])).code(0).stdout;
    let why: Value = serde_json::from_str(said.trim()).expect("a JSON line");
    let waits = why["waits"].as_array().expect("a list of reasons");
    let meant = waits.iter().filter(|wait| wait["code"] == "no_capability");
    meant.filter_map(|wait| wait["count"].as_u64()).sum()
}

#[test]
fn a_rolling_upgrade_leaves_jobs_of_the_new_release_to_its_workers() {
    assert_eq!(
        job::VERSION,
        1,
        "the words of the proxy name another release"
    );
    let lane = capability::calls("openai_compatible");
    assert!(lane.starts_with(THERE[0].0), "{lane}");

    let scene = Scene::new("uniform:20,120");
    let mut cluster = Cluster::start_with(shape(1, 1));
    let next = Proxy::start_translating(cluster.redis.port(), THERE, BACK);
    let mut run = scene.submit(&cluster);
    scene.until_part(&mut run, 1, 4);
    // The coordinator is the first to go; its successor takes its runs over.
    let mut old = cluster.coordinators.remove(0);
    let port = old.port();
    old.terminate();
    old.wait().code(0);
    cluster.add_coordinator_at(&format!("redis://127.0.0.1:{}", next.port()), port);
    let mut still: Option<Stopwatch> = None;
    until("nothing is left that the old worker may do", || {
        assert!(!Scene::is_over(&mut run), "{}", run.stderr());
        let rests =
            scene.sim.stats().number("in_flight") == 0 && waiting_for_a_worker(&cluster) > 0;
        still = still
            .take()
            .filter(|_| rests)
            .or_else(|| rests.then(Stopwatch::start));
        still.as_ref().is_some_and(|still| still.elapsed() > STILL)
    });
    let answered = scene.is_under_way(&mut run);
    let old = &cluster.workers[0];
    let done = old.ended(&["done"]);
    assert!(done > 0, "the old worker did what was of its release");
    assert_eq!(
        old.metric("skillopt_worker_ready", &[]),
        1,
        "{}",
        old.said()
    );
    let (queue, of) = (&cluster.coordinators[0], |name: &str| {
        format!("skillopt_queue_{name}")
    });
    assert!(
        queue.metric(&of("queued"), &[]) > 0,
        "jobs of the new release"
    );
    for name in ["leased", "dead", "lost_leases"] {
        assert_eq!(queue.metric(&of(name), &[]), 0, "{name}");
    }

    // Its worker comes, and the old one goes.
    let new = cluster.add_worker_behind(&next);
    until("the new worker does them", || {
        cluster.workers[new].ended(&["done"]) > 0
    });
    let mut old = cluster.workers.remove(0);
    assert_eq!(old.ended(&["done"]), done, "the old one takes none of them");
    assert_eq!(old.ended(&["given_up", "retried", "fault"]), 0);
    old.terminate();
    old.wait().code(0);
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
    // A worker counts a job after it has told the queue, and the run may be over before.
    until(
        "the new worker has done all that was not done before",
        || cluster.workers[0].ended(&["done"]) >= scene.results - answered,
    );
}
