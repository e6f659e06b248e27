//! Calls that hang, and second copies of them.

use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::wait::until;

use crate::scene::{OUT, Scene, shape};

/// Calls of the target that hang. Without a copy each of them would be waited for until its limit of
/// time, which is longer than this test waits for the run.
const HUNG: u64 = 3;
/// The model of the target, as its calls name it.
const TARGET: &str = "\"sim-target\"";

#[test]
fn a_hedged_run_whose_calls_hang_is_that_of_one_without_copies() {
    let (scene, models) = Scene::with_models_behind_a_proxy("uniform:20,60");
    // One worker: each knows its own calls alone, and how many of them may be copied.
    let cluster = Cluster::start_with(Shape {
        slots: "chat=12".to_owned(),
        ..shape(1, 1)
    });
    let mut submission = scene.submission(&cluster, OUT);
    submission.args(["--set", "env.hedge=0.1"]);
    let mut run = scene.begin(&cluster, &mut submission);
    for n in 0..HUNG {
        // At first nobody knows how long calls take; and a tenth of them may be copied, so that one
        // that hangs early would wait for others.
        scene.until_part(&mut run, 4 + n, 8);
        models.swallow(1, TARGET);
        until("a call hangs", || {
            models.to_swallow() == 0 || Scene::is_over(&mut run)
        });
    }
    assert_eq!(
        models.to_swallow(),
        0,
        "the run was over before its calls hung"
    );
    let ended = run.wait();
    let calls = scene.sim.settled().number("calls");
    let copies = calls - scene.results;
    println!("{calls} calls, {copies} of them copies");
    assert!(
        copies >= HUNG,
        "{HUNG} calls hung, and {copies} were copied"
    );
    assert!(
        copies <= scene.results / 10,
        "{copies} of {} calls were copied, more than a tenth",
        scene.results
    );
    // What was answered twice was asked twice, nothing else.
    scene.is_well_but_for("hedge", &ended, &cluster, copies);
}
