//! Why jobs wait, asked of real clusters: each waiting job is counted for one reason.

use serde_json::Value;
use skillopt_runtime::clock::Stopwatch;
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::{LONG, for_some, until};
use skillopt_tests::support::{Cluster, Shape, Sim, World};

/// Submits a training without waiting for it, and returns its id.
fn submit(world: &World, cluster: &Cluster, sim: &Sim) -> String {
    let url = format!("model.openai_compatible_base_url={}", sim.url());
    let args = [
        "submit",
        "train",
        "config.yaml",
        "--out",
        "out",
        "--set",
        &url,
    ];
    let ended = run(&mut world.ask(cluster, &args)).code(0);
    ended.stdout.trim().to_owned()
}

/// Asks why something (empty: the cluster) is not moving.
fn why(cluster: &Cluster, id: &str) -> Value {
    let args: Vec<&str> = ["why", id, "--json"]
        .into_iter()
        .filter(|a| !a.is_empty())
        .collect();
    let ended = run(&mut cluster.command(&args)).code(0);
    serde_json::from_str(ended.stdout.trim()).expect("a JSON line")
}

/// Waits until the reasons add up to the jobs that the queue itself counts, of which there must be some.
#[track_caller]
fn adds_up(cluster: &Cluster) {
    let mut last = String::new();
    let told = for_some(LONG, || {
        let answer = why(cluster, "");
        let waits = answer["waits"].as_array().expect("a list of reasons");
        // These are for jobs that have not been let into the queue yet.
        let in_queue = waits
            .iter()
            .filter(|wait| wait["code"] != "barrier" && wait["code"] != "fair_share");
        let told: u64 = in_queue.filter_map(|wait| wait["count"].as_u64()).sum();
        let counted = |name: &str| {
            let name = format!("skillopt_queue_{name}");
            cluster.coordinators[0].metric(&name, &[])
        };
        let (waiting, leased) = (counted("queued") + counted("delayed"), counted("leased"));
        last = format!("{waiting} wait in the queue and {leased} are leased, told is {answer}");
        let is_same = waiting > 0 && told == waiting && answer["running"] == leased;
        is_same.then_some(())
    });
    assert!(told.is_some(), "{last}");
}

/// Returns the row of a reason; the counts of all of them must add up.
#[track_caller]
fn row(answer: &Value, code: &str) -> Option<Value> {
    let waits = answer["waits"].as_array().expect("a list of reasons");
    let sum: u64 = waits.iter().filter_map(|wait| wait["count"].as_u64()).sum();
    assert_eq!(answer["waiting"], sum, "each job is counted once: {answer}");
    waits.iter().find(|wait| wait["code"] == code).cloned()
}

#[track_caller]
fn waits_for(cluster: &Cluster, id: &str, code: &str) -> Value {
    let (mut last, mut found) = (Value::Null, Value::Null);
    until(&format!("jobs wait for {code}"), || {
        last = why(cluster, id);
        match row(&last, code) {
            Some(row) => found = row,
            None => return false,
        }
        true
    });
    let words = [&found["words"], &found["help"]];
    assert!(
        words
            .iter()
            .all(|w| w.as_str().is_some_and(|w| !w.is_empty())),
        "{last}"
    );
    found
}

/// Returns the key of some job that is in the queue.
fn a_job(cluster: &Cluster) -> String {
    let script = "EVAL \"local k = redis.call('HKEYS', 'skillopt:{q}:j')[1] or '' local h = '' \
                  for i = 1, #k do h = h .. string.format('%02x', string.byte(k, i)) end \
                  return h\" 0";
    cluster.redis.ask(script).expect("Redis answers")
}

#[test]
fn every_waiting_job_has_one_reason() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:1500"]));
    let mut cluster = Cluster::start_with(Shape {
        workers: 0,
        slots: "chat=1".to_owned(),
        ..Shape::default()
    });
    assert_eq!(why(&cluster, "")["waiting"], 0);
    let id = submit(&world, &cluster, &sim);
    waits_for(&cluster, &id, "no_capability");
    // The whole cluster, and one job by a beginning of its key.
    waits_for(&cluster, "", "no_capability");
    let key = a_job(&cluster);
    assert_eq!(key.len(), 64, "{key}");
    waits_for(&cluster, &key[..12], "no_capability");
    adds_up(&cluster);
    // A coordinator that did not ask for it says the same of it.
    let stranger = cluster.add_coordinator();
    let url = cluster.coordinators[stranger].url();
    let asked = ["why", &key, "--json", "--coordinator", &url];
    let answer = run(&mut cluster.command(&asked)).code(0).stdout;
    let answer: Value = serde_json::from_str(answer.trim()).expect("a JSON line");
    assert!(row(&answer, "no_capability").is_some(), "{answer}");
    cluster.coordinators.remove(stranger).kill();

    cluster.add_worker();
    waits_for(&cluster, &id, "slots_busy");
    waits_for(&cluster, "", "slots_busy");

    run(&mut cluster.command(&["pause", &id])).code(0);
    let row = waits_for(&cluster, &id, "paused");
    assert!(
        row["help"].as_str().unwrap().contains("skillopt resume"),
        "{row}"
    );
    until("nothing of it waits any more", || {
        why(&cluster, "")["waiting"] == 0
    });
    run(&mut cluster.command(&["cancel", &id])).code(0);
}

#[test]
fn jobs_of_a_run_without_a_coordinator_are_counted_as_such() {
    // Each run has models of its own, so that they have no job in common.
    let sims = [(); 2].map(|()| Sim::start(&["--latency", "fixed:600000"]));
    let worlds = [World::new(), World::new()];
    let mut cluster = Cluster::start_with(Shape {
        slots: "chat=1".to_owned(),
        coordinator_args: ["--runs-max", "1"].map(str::to_owned).to_vec(),
        ..Shape::default()
    });
    let orphan = submit(&worlds[0], &cluster, &sims[0]);
    waits_for(&cluster, &orphan, "slots_busy");
    // Each of the two has as many runs as it may have.
    cluster.add_coordinator();
    let other = submit(&worlds[1], &cluster, &sims[1]);
    waits_for(&cluster, &other, "slots_busy");
    adds_up(&cluster);

    cluster.coordinators.remove(0).kill();
    let lost = waits_for(&cluster, &orphan, "no_coordinator");
    assert!(lost["count"].as_u64() > Some(0), "{lost}");
    assert!(
        lost["help"].as_str().unwrap().contains("--runs-max"),
        "{lost}"
    );
    waits_for(&cluster, "", "no_coordinator");
    waits_for(&cluster, "", "slots_busy");
    adds_up(&cluster);
    let top = run(&mut cluster.command(&["top", "--once", "--json"])).code(0);
    let top = top
        .stdout
        .lines()
        .find_map(|l| serde_json::from_str(l).ok());
    let top: Value = top.expect("a row of JSON");
    assert_eq!(top["waiting"], why(&cluster, "")["waiting"], "{top}");

    // Nobody has it, so whoever pauses it takes its jobs back.
    run(&mut cluster.command(&["pause", &orphan])).code(0);
    until("none of its jobs waits for a coordinator", || {
        row(&why(&cluster, ""), "no_coordinator").is_none()
    });
    adds_up(&cluster);
    run(&mut cluster.command(&["resume", &orphan])).code(0);
    cluster.add_coordinator();
    waits_for(&cluster, &orphan, "slots_busy");
    until("no job waits for a coordinator", || {
        row(&why(&cluster, ""), "no_coordinator").is_none()
    });
    adds_up(&cluster);
    for id in [&orphan, &other] {
        run(&mut cluster.command(&["cancel", id])).code(0);
    }
}

#[test]
fn a_throttled_account_is_named() {
    let sim = Sim::start(&["--p429", "1", "--retry-after", "30"]);
    let (world, cluster) = (World::new(), Cluster::start(1));
    let id = submit(&world, &cluster, &sim);
    let row = waits_for(&cluster, &id, "rate_limited");
    assert!(row["words"].as_str().unwrap().contains(&sim.url()), "{row}");
    run(&mut cluster.command(&["cancel", &id])).code(0);
}

#[test]
fn limits_of_an_account_hold_for_all_workers_together() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:300"]));
    // People write the address as they please.
    let limits = format!(
        "accounts:\n  {}/:\n    requests_per_minute: 60\n    concurrency: 2\n",
        sim.url()
    );
    world.write("limits.yaml", limits);
    let path = world.path("limits.yaml").to_string_lossy().into_owned();
    let cluster = Cluster::start_with(Shape {
        workers: 2,
        coordinator_args: vec!["--limits".to_owned(), path],
        ..Shape::default()
    });
    let start = Stopwatch::start();
    let id = submit(&world, &cluster, &sim);
    until("some calls were answered", || sim.stats().ok() >= 10);
    let made = sim.stats().ok();
    // Three at once, then about one a second.
    let most = 4.0 + start.seconds();
    #[expect(clippy::cast_precision_loss, reason = "a few calls")]
    let made = made as f64;
    assert!(made <= most, "{made} calls in {most} s");
    let at_once = sim.stats().number("in_flight_max");
    assert!(at_once <= 2, "{at_once} calls at once");
    waits_for(&cluster, &id, "rate_limited");
    run(&mut cluster.command(&["cancel", &id])).code(0);
}

#[test]
fn a_provider_that_is_down_is_named() {
    let sim = Sim::start(&["--p500", "1"]);
    let (world, cluster) = (World::new(), Cluster::start(1));
    // Tries enough for the account's circuit to open before the run pauses.
    let url = format!("model.openai_compatible_base_url={}", sim.url());
    let tries = ["model.retry_attempts=1000", "model.retry_cap_ms=2000"];
    let args = ["submit", "train", "config.yaml", "--set", &url];
    let ended = run(&mut world.ask(&cluster, &[&args[..], &tries].concat())).code(0);
    let id = ended.stdout.trim();
    let row = waits_for(&cluster, id, "provider_down");
    assert!(row["words"].as_str().unwrap().contains(&sim.url()), "{row}");
    assert!(row["help"].as_str().unwrap().contains("failures"), "{row}");
    run(&mut cluster.command(&["cancel", id])).code(0);
}

#[test]
fn a_store_that_is_nearly_full_is_named() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:600000"]));
    let cluster = Cluster::start_with(Shape {
        slots: "chat=1".to_owned(),
        ..Shape::default()
    });
    // Something of others, so that a few percent are room enough for the run.
    let ask = |command: &str| cluster.redis.ask(command).expect("Redis answers");
    ask("SETRANGE others 67108864 x");
    let id = submit(&world, &cluster, &sim);
    waits_for(&cluster, &id, "slots_busy");
    adds_up(&cluster);
    let script =
        "EVAL \"return string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)')\" 0";
    let used: u64 = ask(script).parse().expect("a number");
    ask(&format!("CONFIG SET maxmemory {}", used * 103 / 100));
    let row = waits_for(&cluster, &id, "store_pressure");
    assert!(
        row["words"].as_str().unwrap().contains("% of its memory"),
        "{row}"
    );
    ask("CONFIG SET maxmemory 0");
    waits_for(&cluster, &id, "slots_busy");
    run(&mut cluster.command(&["cancel", &id])).code(0);
}
