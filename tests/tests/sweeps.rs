//! Sweeps over real processes: Redis, coordinators, workers, and models behind HTTP that count their
//! calls.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Cluster, Ended, Shape, Sim, World, folder};

/// Replies that do not come in the order of the calls.
const SPREAD: &[&str] = &["--latency", "uniform:0,15"];
/// The cells of the sweep, in the order of its file.
const CELLS: [(&str, &str, &str); 4] = [
    ("large/searchqa/chat#1", "sim-large", "1"),
    ("large/searchqa/chat#2", "sim-large", "2"),
    ("small/searchqa/chat#1", "sim-small", "1"),
    ("small/searchqa/chat#2", "sim-small", "2"),
];
/// Calls for one skill that is tried in another cell.
const TRIAL: u64 = 12;

/// A world with a sweep of four cells beside its configuration.
fn world(sim: &Sim, more: &str) -> World {
    let world = World::new();
    let url = sim.url();
    let text = format!(
        "model:\n  openai_compatible_base_url: {url}\nsweep:\n  name: four\n  base: config.yaml\n  \
         models:\n    - {{ name: large, model: {{ target: sim-large }} }}\n    \
         - {{ name: small, model: {{ target: sim-small }} }}\n  benchmarks: [searchqa]\n  \
         seeds: [1, 2]\n{more}"
    );
    world.write("sweep.yaml", text);
    world
}

fn submission(world: &World, cluster: &Cluster, out: &str) -> Command {
    let args = ["submit", "sweep.yaml", "--wait", "--cells", "--out", out];
    world.ask(cluster, &args)
}

#[track_caller]
fn swept(world: &World, cluster: &Cluster, out: &str) -> Ended {
    is_well(run(&mut submission(world, cluster, out)), cluster)
}

#[track_caller]
fn is_well(ended: Ended, cluster: &Cluster) -> Ended {
    assert!(
        ended.status.success(),
        "{}\n{}\n{}",
        ended.status,
        ended.stderr,
        cluster.said()
    );
    ended
}

/// Trains each cell by itself in this process's own store, which all of them share.
fn local(world: &World, sim: &Sim) -> u64 {
    for (cell, target, seed) in CELLS {
        let set = [
            "--store",
            "shared",
            "--set",
            &format!("model.target={target}"),
            &format!("train.seed={seed}"),
        ];
        world.trained(&format!("local/{cell}"), &sim.url(), &set);
    }
    let calls = sim.settled().ok();
    sim.reset();
    calls
}

fn id(world: &World, out: &str) -> String {
    world.run_id(out)
}

/// Asks the cluster for JSON lines.
#[track_caller]
fn lines(world: &World, cluster: &Cluster, args: &[&str]) -> Vec<Value> {
    let args = [args, &["--json"]].concat();
    let said = run(&mut world.ask(cluster, &args)).code(0).stdout;
    let lines = said.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("a JSON line")).collect()
}

/// Waits until a sweep has used exactly this many requests, and nothing is held any more: workers
/// settle in batches.
#[track_caller]
fn used(world: &World, cluster: &Cluster, sweep: &str, requests: u64) {
    let mut row = Value::Null;
    until("what was used is settled", || {
        row = lines(world, cluster, &["usage", sweep, "--by", "sweep"]).swap_remove(0);
        row["reserved_requests"] == 0 && row["requests"].as_u64() >= Some(requests)
    });
    assert_eq!(row["requests"], requests, "{row}");
}

fn same(left: &Path, right: &Path) {
    folder::same(left, right);
}

#[test]
fn a_sweep_is_its_cells_on_one_or_three_workers_and_pays_once() {
    let sim = Sim::start(SPREAD);
    let world = world(&sim, "  transfer: true\n");
    let alone = local(&world, &sim);
    let mut paid = Vec::new();
    for workers in [1, 3] {
        let cluster = Cluster::start(workers);
        let out = format!("on-{workers}");
        swept(&world, &cluster, &out);
        for (cell, ..) in CELLS {
            let cells = world.path(&format!("{out}/cells/{cell}"));
            same(&world.path(&format!("local/{cell}")), &cells);
        }
        let calls = sim.settled().ok();
        sim.reset();
        paid.push(calls);
        // Each cell asks for what the others did not, and each of four skills is tried once elsewhere,
        // unless it is one that was tried there before.
        let trials = calls.checked_sub(alone).expect("no cell lacks an answer");
        assert!(
            trials <= 4 * TRIAL && trials.is_multiple_of(TRIAL),
            "{alone} calls for the cells, {calls} for the sweep"
        );
        used(&world, &cluster, &id(&world, &out), calls);
        let shown = lines(&world, &cluster, &["runs", "--sweep", &id(&world, &out)]);
        let trained = shown.iter().filter(|line| line["type"] == "run");
        assert_eq!(trained.count(), CELLS.len());
        let summed = lines(&world, &cluster, &["usage", &id(&world, &out)]);
        assert_eq!(summed.len(), 1, "a sweep by itself: {summed:?}");
        assert_eq!(summed[0]["purse"], format!("sweep/{}", id(&world, &out)));
        let listed = lines(&world, &cluster, &["runs"]);
        let block = listed.iter().find(|line| line["type"] == "sweep");
        let block = block.expect("the sweep is listed");
        let counts = (&block["cells"], &block["cells_ended"], &block["cells_lost"]);
        assert_eq!(counts, (&4.into(), &4.into(), &0.into()));
        let named = lines(&world, &cluster, &["runs", "--sweep", "four"]);
        assert_eq!(
            named, shown,
            "a name that only one has is as good as its id"
        );
        // A later sweep asks for nothing.
        let again = format!("again-on-{workers}");
        swept(&world, &cluster, &again);
        assert_ne!(id(&world, &out), id(&world, &again));
        assert_eq!(sim.settled().ok(), 0, "all was answered before");
        same(&world.path(&out), &world.path(&again));
        // Somebody else fetches it.
        let got = format!("exported-{workers}");
        let args = ["export", &id(&world, &out), "--cells", "--out", &got];
        run(&mut world.ask(&cluster, &args)).code(0);
        same(&world.path(&out), &world.path(&got));
    }
    assert_eq!(paid[0], paid[1]);
    same(&world.path("on-1"), &world.path("on-3"));
}

/// Returns which coordinator works on a cell of a sweep.
#[track_caller]
fn at_work(world: &World, cluster: &Cluster, sweep: &str) -> Option<usize> {
    let rows = lines(world, cluster, &["runs", "--sweep", sweep]);
    let running = rows.iter().filter(|row| row["state"] == "running");
    let names = running.filter_map(|row| row["coordinator"].as_str()?.split('.').next());
    let of = |name: &str| {
        cluster
            .coordinators
            .iter()
            .position(|node| node.name() == name)
    };
    names.map(of).find(Option::is_some)?
}

#[test]
fn a_sweep_survives_the_death_of_its_parts() {
    let sim = Sim::start(SPREAD);
    let world = world(&sim, "  transfer: true\n");
    swept(&world, &Cluster::start(2), "whole");
    let calls = sim.settled().ok();
    sim.reset();
    sim.configure(serde_json::json!({ "latency": "uniform:20,80" }));
    let slots = 6;
    let mut cluster = Cluster::start_with(Shape {
        coordinators: 2,
        workers: 2,
        slots: format!("chat={slots}"),
        worker_args: ["--lease-seconds", "3"].map(str::to_owned).to_vec(),
        ..Shape::default()
    });
    let mut waiting = Process::start(&mut submission(&world, &cluster, "out"));
    let sweep = id(&world, "out");
    for part in [1, 2] {
        until("the sweep has come on", || {
            assert!(waiting.status().is_none(), "{}", waiting.stderr());
            sim.stats().ok() > calls * part / 3
        });
        let mut at = None;
        until("a coordinator works on one of its cells", || {
            at = at_work(&world, &cluster, &sweep);
            at.is_some()
        });
        let answered = sim.stats().ok();
        assert!(
            answered < calls,
            "it has {answered} of {calls} answers already"
        );
        cluster.workers.remove(0).kill();
        let node = cluster.coordinators.remove(at.expect("found"));
        let (port, url) = (node.port(), cluster.redis.url());
        node.kill();
        cluster.add_coordinator_at(&url, port);
        cluster.add_worker();
    }
    is_well(waiting.wait(), &cluster);
    same(&world.path("whole"), &world.path("out"));
    let again = sim.settled().ok() - calls;
    assert!(again <= 2 * slots, "{again} answers were given twice");
}

#[test]
fn a_small_run_in_the_middle_of_a_sweep_ends_long_before_it() {
    // So slow that it does not matter how long the small run takes to be submitted.
    let sim = Sim::start(&["--latency", "fixed:200"]);
    let world = world(&sim, "");
    world.write("skill.md", "# Skill\n\nAnswer in few words.\n");
    let cluster = Cluster::start_with(Shape {
        slots: "chat=4".to_owned(),
        ..Shape::default()
    });
    let waiting = Process::start(&mut submission(&world, &cluster, "out"));
    until("the sweep is at work", || sim.stats().ok() > 20);
    let before = sim.stats().ok();
    let url = format!("model.openai_compatible_base_url={}", sim.url());
    let args = [
        "submit",
        "eval",
        "config.yaml",
        "--skill",
        "skill.md",
        "--split",
        "test",
        "--out",
        "small",
        "--wait",
        "--set",
        &url,
    ];
    run(&mut world.ask(&cluster, &args)).code(0);
    let meanwhile = sim.stats().ok() - before;
    sim.configure(serde_json::json!({ "latency": "fixed:0" }));
    is_well(waiting.wait(), &cluster);
    let all = sim.settled().ok();
    // Twelve calls of its own among five runs that share the worker fairly.
    assert!(
        meanwhile <= 5 * 12 + 40,
        "the small run ended after {meanwhile} of {all} calls"
    );
    assert!(
        before + meanwhile < all / 2,
        "{before} + {meanwhile} of {all}"
    );
}

#[test]
fn a_cap_of_a_sweep_holds_and_is_raised() {
    let sim = Sim::start(SPREAD);
    let world = world(&sim, "  caps: { requests: 300 }\n");
    let cluster = Cluster::start_with(Shape {
        workers: 3,
        ..Shape::default()
    });
    let ended = run(&mut submission(&world, &cluster, "out")).code(4);
    let sweep = id(&world, "out");
    assert!(
        ended
            .stdout
            .contains(&format!("`skillopt resume {sweep} --requests N`")),
        "{}",
        ended.stdout
    );
    assert_eq!(
        sim.settled().number("calls"),
        300,
        "not one more, not one less"
    );
    used(&world, &cluster, &sweep, 300);
    let dollars = run(&mut world.ask(&cluster, &["resume", &sweep, "--usd", "5"])).code(2);
    dollars.says(&["the price of the target's model", "budget.prices"]);
    let more = run(&mut world.ask(&cluster, &["resume", &sweep, "--requests", "100000"])).code(0);
    assert!(more.stdout.contains("running"), "{}", more.stdout);
    let watched = run(&mut world.ask(&cluster, &["watch", &sweep])).code(0);
    assert!(
        watched.stdout.contains("of 4 finished cells"),
        "{}",
        watched.stdout
    );
}

#[test]
fn the_first_cap_of_a_sweep_holds_for_cells_that_are_at_work() {
    let sim = Sim::start(&["--latency", "fixed:300"]);
    let world = world(&sim, "");
    let cluster = Cluster::start(1);
    let mut waiting = Process::start(&mut submission(&world, &cluster, "out"));
    until("the sweep is at work", || sim.stats().ok() > 10);
    let sweep = id(&world, "out");
    let cap = sim.stats().number("calls") + 40;
    let more = cap.to_string();
    run(&mut world.ask(&cluster, &["resume", &sweep, "--requests", &more])).code(0);
    let watched = run(&mut world.ask(&cluster, &["watch", &sweep])).code(4);
    assert!(
        watched.stdout.contains("the cap of requests"),
        "{}",
        watched.stdout
    );
    let calls = sim.settled().number("calls");
    // Sixteen slots were under way when it was set, and what they had done in the half second before,
    // twice as many, had not been counted.
    assert!(
        calls >= cap && calls <= cap + 48,
        "{calls} calls, {cap} were allowed"
    );
    used(&world, &cluster, &sweep, calls);
    waiting.signal(Signal::SIGKILL);
    run(&mut world.ask(&cluster, &["cancel", &sweep])).code(0);
}

#[test]
fn the_word_sweep_may_be_said() {
    let (sim, cluster) = (Sim::start(&[]), Cluster::start(0));
    let world = world(&sim, "");
    let plan = |args: &[&str]| run(&mut world.ask(&cluster, args)).code(0).stdout;
    let short = plan(&["submit", "sweep.yaml", "--dry-run"]);
    assert!(short.contains("4 cells"), "{short}");
    assert_eq!(plan(&["submit", "sweep", "sweep.yaml", "--dry-run"]), short);
}
