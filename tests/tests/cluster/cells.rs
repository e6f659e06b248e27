//! Sweeps of which cells are lost and run again, and sweeps with caps in tokens and dollars.

use std::time::Duration;

use serde_json::{Value, json};
use skillopt_benchmarks::registry;
use skillopt_core::capability;
use skillopt_core::job::{self, FailureClass};
use skillopt_queue::queue::Failure;
use skillopt_queue::redis::{Link, Options, RedisQueue, RedisStore};
use skillopt_queue::{Lane, Queue as _, Want};
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Cluster, Sim, World};
use tokio_util::sync::CancellationToken;

/// Writes a sweep of two models; `more` are further keys of it, `beside` sections beside it.
fn world(sim: &Sim, beside: &str, more: &str) -> World {
    let (world, url) = (World::new(), sim.url());
    world.write(
        "sweep.yaml",
        format!(
            "model:\n  openai_compatible_base_url: {url}\n{beside}sweep:\n  name: two\n  base: config.yaml\n{more}"
        ),
    );
    world
}

/// Both models on SearchQA.
const PLAIN: &str = "  models:\n    - { name: large, model: { target: sim-large } }\n    \
                     - { name: small, model: { target: sim-small } }\n  benchmarks: [searchqa]\n";

fn submit(world: &World, cluster: &Cluster) -> Process {
    let args = ["submit", "sweep.yaml", "--wait", "--cells", "--out", "out"];
    Process::start(&mut world.ask(cluster, &args))
}

/// Asks the cluster for JSON lines.
#[track_caller]
fn lines(world: &World, cluster: &Cluster, args: &[&str]) -> Vec<Value> {
    let args = [args, &["--json"]].concat();
    let said = run(&mut world.ask(cluster, &args)).code(0).stdout;
    let lines = said.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("a JSON line")).collect()
}

/// Returns the runs of a cell, the newest first.
fn runs_of(world: &World, cluster: &Cluster, sweep: &str, cell: &str) -> Vec<Value> {
    let mut runs = lines(world, cluster, &["runs", "--sweep", sweep]);
    runs.retain(|run| run["cell"] == cell);
    runs
}

#[test]
fn a_cell_that_was_cancelled_is_run_again_and_the_others_are_left_alone() {
    let sim = Sim::start(&["--latency", "fixed:200"]);
    let world = world(&sim, "", PLAIN);
    let cluster = Cluster::start(1);
    let waiting = submit(&world, &cluster);
    let sweep = world.run_id("out");
    let (lost, kept) = ("small/searchqa/chat", "large/searchqa/chat");
    until("the cells are at work", || sim.stats().ok() > 10);
    let id = |cell: &str| {
        let runs = runs_of(&world, &cluster, &sweep, cell);
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0]["id"].as_str().expect("an id").to_owned()
    };
    let (first, other) = (id(lost), id(kept));
    run(&mut world.ask(&cluster, &["cancel", &first])).code(0);
    sim.configure(json!({ "latency": "uniform:0,15" }));
    let ended = waiting.wait();
    assert!(ended.stdout.contains("cancelled"), "{}", ended.stdout);
    for (cell, words) in [(kept, "only failed and cancelled"), ("small", "no cell")] {
        let args = ["retry", &sweep, cell];
        run(&mut world.ask(&cluster, &args)).code(2).says(&[words]);
    }
    // By its name.
    run(&mut world.ask(&cluster, &["retry", "two", lost])).code(0);
    let watched = run(&mut world.ask(&cluster, &["watch", &sweep])).code(0);
    assert!(
        watched.stdout.contains("of 2 finished cells"),
        "{}",
        watched.stdout
    );
    let runs = runs_of(&world, &cluster, &sweep, lost);
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(id(kept), other);
    let out = ["export", "two", "--cells", "--out", "exported"];
    run(&mut world.ask(&cluster, &out)).code(0);
    let calls = sim.settled().ok();
    world.trained("local", &sim.url(), &["--set", "model.target=sim-small"]);
    world.same("local", &format!("exported/cells/{lost}"));
    let alone = sim.settled().ok() - calls;
    assert!(alone > 50, "{alone} calls for one cell");
    // Two cells that share the optimizer's work at most; and what was called off is asked again.
    assert!(calls <= 2 * alone + 16, "{calls} calls, {alone} for one");
}

/// Takes one rollout as a worker does, and says that it can never be judged.
fn give_up_one(cluster: &Cluster, cause: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let link = Link::open(&cluster.redis.url(), Options::default()).await;
        let store = RedisStore::new(link.expect("a link")).expect("a store");
        let queue = RedisQueue::open(store).await.expect("a queue");
        let benchmark = registry::find("searchqa").expect("it is registered");
        let (name, version) = (benchmark.name(), benchmark.version());
        let lane = capability::rollouts("openai_compatible", name, version);
        let want = Want {
            worker: "rogue".into(),
            lanes: vec![Lane::new(&lane)],
            max: 1,
            ttl: Duration::from_secs(60),
        };
        let leased = queue.lease(want, &CancellationToken::new()).await;
        let ticket = leased.expect("a lease").first().expect("a job").ticket;
        let detail = serde_json::to_vec(&job::Failure {
            class: FailureClass::Data,
            cause: cause.to_owned(),
        });
        let failure = Failure {
            cause: cause.into(),
            detail: detail.expect("JSON").into(),
        };
        queue.give_up(ticket, failure).await.expect("it is ours");
    });
}

#[test]
fn a_cell_that_failed_says_why_and_is_run_again_to_its_end() {
    let sim = Sim::start(&["--latency", "uniform:0,15"]);
    let world = world(&sim, "", PLAIN);
    let mut cluster = Cluster::start(0);
    let waiting = submit(&world, &cluster);
    let sweep = world.run_id("out");
    let cause = "item `x` cannot be judged";
    give_up_one(&cluster, cause);
    cluster.add_worker();
    let ended = waiting.wait();
    assert!(ended.stdout.contains(cause), "{}", ended.stdout);
    let state = |run: &Value| run["state"].as_str().unwrap_or_default().to_owned();
    let all = || lines(&world, &cluster, &["runs", "--sweep", &sweep]);
    let (failed, kept): (Vec<Value>, Vec<Value>) =
        all().into_iter().partition(|run| state(run) == "failed");
    assert_eq!((failed.len(), kept.len()), (1, 1), "{failed:?} {kept:?}");
    let cell = failed[0]["cell"].as_str().expect("a cell");
    run(&mut world.ask(&cluster, &["retry", &sweep])).code(0);
    let watched = run(&mut world.ask(&cluster, &["watch", &sweep])).code(0);
    assert!(
        watched.stdout.contains("of 2 finished cells"),
        "{}",
        watched.stdout
    );
    let runs = all();
    assert_eq!(runs.len(), 3, "{runs:?}");
    assert!(runs.contains(&kept[0]), "the other one is left alone");
    let out = ["export", &sweep, "--cells", "--out", "exported"];
    run(&mut world.ask(&cluster, &out)).code(0);
    let target = if cell.starts_with("small") {
        "model.target=sim-small"
    } else {
        "model.target=sim-large"
    };
    world.trained("local", &sim.url(), &["--set", target]);
    world.same("local", &format!("exported/cells/{cell}"));
}

/// Returns what the sweep has used, once nothing is held any more.
fn settled(world: &World, cluster: &Cluster, sim: &Sim, sweep: &str) -> Value {
    let calls = sim.settled().ok();
    let mut row = Value::Null;
    until("all that was used is counted", || {
        row = lines(world, cluster, &["usage", sweep]).swap_remove(0);
        row["requests"] == calls && row["reserved_requests"] == 0
    });
    row
}

#[test]
fn caps_in_tokens_and_dollars_hold_for_all_cells_together() {
    let prices = "budget:\n  prices: prices.yaml\n";
    for (caps, flag, cap, enough) in [
        ("tokens: 200000", "--tokens", 200_000.0, "100000000"),
        ("dollars: 0.30", "--usd", 0.30, "1000"),
    ] {
        let sim = Sim::start(&["--latency", "uniform:0,15"]);
        let world = world(&sim, prices, &format!("{PLAIN}  caps: {{ {caps} }}\n"));
        let list = "prices: [{model: '*', input: 1, output: 2}]\n";
        world.write("prices.yaml", list);
        let cluster = Cluster::start(2);
        let ended = submit(&world, &cluster).wait().code(4);
        let sweep = world.run_id("out");
        let goes_on = format!("`skillopt resume {sweep} {flag} N`");
        assert!(ended.stdout.contains(&goes_on), "{}", ended.stdout);
        let used = |row: &Value| -> f64 {
            let number = |name: &str| row[name].as_f64().unwrap_or_default();
            match flag {
                "--usd" => number("cost_usd"),
                _ => number("prompt_tokens") + number("completion_tokens"),
            }
        };
        let row = settled(&world, &cluster, &sim, &sweep);
        // The last calls are refused because they could exceed it.
        assert!(used(&row) <= cap && used(&row) > cap / 4.0, "{cap}: {row}");
        run(&mut world.ask(&cluster, &["resume", &sweep, flag, enough])).code(0);
        run(&mut world.ask(&cluster, &["watch", &sweep])).code(0);
        let row = settled(&world, &cluster, &sim, &sweep);
        assert!(used(&row) > cap, "it was less than the sweep needs: {row}");
    }
}
