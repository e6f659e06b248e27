//! Coordinators that die, and two that cannot both be right.

use std::time::Duration;

use skillopt_tests::support::Draw;
use skillopt_tests::support::cluster::{Cluster, Node};
use skillopt_tests::support::program::run;
use skillopt_tests::support::proxy::Proxy;
use skillopt_tests::support::wait::until;

use crate::scene::{Scene, after, shape};

/// Returns who has the only run, as a coordinator says.
#[track_caller]
fn holder(cluster: &Cluster, asked: &Node) -> String {
    let words = ["runs", "--json", "--coordinator", &asked.url()];
    let said = run(&mut cluster.command(&words)).code(0).stdout;
    let row: serde_json::Value = serde_json::from_str(said.trim()).expect("one run");
    let name = row["coordinator"].as_str().unwrap_or_default();
    // What follows is another one after each start.
    name.split('.').next().unwrap_or_default().to_owned()
}

fn kills() -> u64 {
    let text = std::env::var("SKILLOPT_KILLS").unwrap_or_else(|_| "20".to_owned());
    text.parse().expect("SKILLOPT_KILLS is a whole number")
}

#[test]
fn coordinators_that_are_killed_again_and_again_lose_nothing() {
    let mut draw = Draw::new();
    let (kills, mut done, mut runs) = (kills(), 0, 0);
    while done < kills {
        let scene = Scene::new("uniform:20,120");
        let mut cluster = Cluster::start_with(shape(2, 2));
        let mut run = scene.submit(&cluster);
        runs += 1;
        while !Scene::is_over(&mut run) && done < kills {
            // The other takes over, and the killed one comes back in its old place.
            let victim = usize::try_from(draw.below(2)).expect("small");
            let node = cluster.coordinators.remove(victim);
            let port = node.port();
            node.kill();
            let url = cluster.redis.url();
            cluster.add_coordinator_at(&url, port);
            done += 1;
            after(Duration::from_millis(draw.below(1_500)));
        }
        // Workers lived on, and so did their answers.
        assert_eq!(scene.ends_well(run, &cluster, 0), 0);
    }
    println!("{done} coordinators killed in {runs} runs");
}

#[test]
fn coordinators_and_workers_may_die_together() {
    let (scene, mut draw) = (Scene::new("uniform:20,120"), Draw::new());
    let mut cluster = Cluster::start_with(shape(2, 2));
    let mut run = scene.submit(&cluster);
    let mut kills = 0;
    while !Scene::is_over(&mut run) && kills < 5 {
        after(Duration::from_millis(300 + draw.below(1_200)));
        cluster.workers.remove(0).kill();
        let node = cluster.coordinators.remove(0);
        let port = node.port();
        node.kill();
        let url = cluster.redis.url();
        cluster.add_coordinator_at(&url, port);
        cluster.add_worker();
        kills += 1;
    }
    scene.ends_well(run, &cluster, kills * 6);
    assert!(kills >= 2, "the run was over before it was disturbed");
}

#[test]
fn a_coordinator_that_is_cut_off_cannot_commit_beside_its_successor() {
    let scene = Scene::new("uniform:200,600");
    let mut cluster = Cluster::start_with(shape(0, 2));
    let proxy = Proxy::start(cluster.redis.port());
    let first = cluster.add_coordinator_behind(&proxy);
    let first = cluster.coordinators[first].name().to_owned();
    let mut run = scene.submit(&cluster);
    // The first one has the run. It is cut off, a second one takes over, and the first comes back in
    // the middle of that.
    let second = cluster.add_coordinator();
    let second = &cluster.coordinators[second];
    assert_eq!(holder(&cluster, second), first);
    proxy.stall();
    until("the second one has the run", || {
        holder(&cluster, second) == second.name()
    });
    assert!(!Scene::is_over(&mut run), "over before the first is back");
    proxy.heal();
    after(Duration::from_millis(500));
    proxy.cut();
    after(Duration::from_secs(1));
    assert!(!Scene::is_over(&mut run), "over before the first is back");
    proxy.heal();
    assert_eq!(scene.ends_well(run, &cluster, 0), 0);
}
