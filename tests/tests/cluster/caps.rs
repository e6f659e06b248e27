//! What a tenant may use, set by an admin.

use serde_json::Value;
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Cluster, Sim, World};

/// Calls the program and reads its only JSON line.
fn line(world: &World, cluster: &Cluster, args: &str) -> Value {
    let args: Vec<&str> = args.split_whitespace().chain(["--json"]).collect();
    let said = run(&mut world.ask(cluster, &args)).code(0).stdout;
    serde_json::from_str(said.trim()).expect("one JSON line")
}

#[test]
fn a_cap_of_a_tenant_holds_and_is_raised() {
    let (world, sim, cluster) = (
        World::new(),
        Sim::start(&["--latency", "uniform:0,15"]),
        Cluster::start(2),
    );
    let set = line(&world, &cluster, "caps default --requests 60 --usd 5");
    assert_eq!(
        (&set["cap_requests"], &set["cap_usd"]),
        (&60.into(), &5.0.into())
    );
    // What is not named is taken away alone when that is asked for.
    let set = line(&world, &cluster, "caps default --requests 60 --lift");
    assert_eq!(
        (&set["cap_requests"], &set["cap_usd"]),
        (&60.into(), &Value::Null)
    );
    assert_eq!(line(&world, &cluster, "caps default")["cap_requests"], 60);

    let submit = || world.submit(&cluster, "out", &sim.url(), &[]);
    let ended = run(&mut submit()).code(4);
    ended.says(&[
        "budget",
        "tenant/default",
        "skillopt caps default --requests N",
    ]);
    assert_eq!(sim.settled().number("calls"), 60, "not one more");
    let id = world.run_id("out");
    let set = line(&world, &cluster, "caps default --requests 100000");
    assert_eq!(set["requests"], 60, "what was used before counts: {set}");
    run(&mut world.ask(&cluster, &["resume", &id])).code(0);
    run(&mut submit()).code(0);
    world.trained("local", &sim.url(), &[]);
    world.same("local", "out");
    let set = line(&world, &cluster, "caps default --lift");
    assert_eq!(set["cap_requests"], Value::Null);
}

#[test]
fn the_first_cap_of_a_tenant_holds_for_runs_that_are_at_work() {
    let world = World::new();
    let sim = Sim::start(&["--latency", "fixed:200"]);
    let cluster = Cluster::start(1);
    let waiting = Process::start(&mut world.submit(&cluster, "out", &sim.url(), &[]));
    until("it is at work", || sim.stats().ok() > 10);
    // Less than the run needs, more than may be under way.
    let cap = sim.stats().number("calls") + 16;
    line(&world, &cluster, &format!("caps default --requests {cap}"));
    waiting.wait().code(4).says(&["tenant/default"]);
    let calls = sim.settled().number("calls");
    // Sixteen slots were under way when it was set, and as many had not been counted.
    assert!(calls <= cap + 32, "{calls} calls, {cap} were allowed");
    let mut row = Value::Null;
    until("all that was used is counted", || {
        row = line(&world, &cluster, "usage default --by tenant");
        row["requests"] == calls && row["reserved_requests"] == 0
    });
    line(&world, &cluster, "caps default --lift");
    let id = world.run_id("out");
    run(&mut world.ask(&cluster, &["cancel", &id])).code(0);
}

#[test]
fn a_tenant_does_not_set_its_own_caps() {
    let (world, cluster) = (World::new(), Cluster::start(0));
    let made = line(
        &world,
        &cluster,
        "token create --name of-lab --role admin --tenant lab",
    );
    let token = made["token"].as_str().expect("a token").to_owned();
    let refused = ["caps", "lab", "--usd", "5", "--token", &token];
    run(&mut world.ask(&cluster, &refused))
        .code(2)
        .says(&["all tenants"]);
    let looks = ["caps", "lab", "--token", &token];
    run(&mut world.ask(&cluster, &looks)).code(0);
    let others = ["caps", "other", "--token", &token];
    run(&mut world.ask(&cluster, &others)).code(2);
}
