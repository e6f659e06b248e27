//! What those see who look after the machines: health, metrics, costs, and workers that leave.

use nix::sys::signal::Signal;
use serde_json::Value;
use skillopt_sim::{Sizes, generate};
use skillopt_tests::support::http::get;
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Cluster, Shape, Sim, World};

/// Returns the value of a line of metrics.
fn metric(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

#[test]
fn health_and_metrics_are_served() {
    let (world, sim, cluster) = (World::new(), Sim::start(&[]), Cluster::start(1));
    let (coordinator, worker) = (cluster.coordinators[0].http(), cluster.workers[0].http());
    for port in [coordinator, worker] {
        assert_eq!(get(port, "/healthz").unwrap().0, 200);
        until("it is ready", || get(port, "/readyz").unwrap().0 == 200);
    }
    world.trained_on(&cluster, "out", &sim.url(), &[]);
    let spent = "skillopt_spent_requests{tenant=\"default\"}";
    until(
        "what was used is settled, and nobody works on the run",
        || {
            let (status, page) = get(coordinator, "/metrics").unwrap();
            assert_eq!(status, 200, "{page}");
            #[expect(clippy::cast_precision_loss, reason = "some hundred calls")]
            let calls = sim.stats().ok() as f64;
            metric(&page, spent) == Some(calls) && metric(&page, "skillopt_runs_held") == Some(0.0)
        },
    );
    let page = get(coordinator, "/metrics").unwrap().1;
    for (name, value) in [
        ("skillopt_queue_queued", 0.0),
        ("skillopt_queue_leased", 0.0),
        ("skillopt_queue_dead", 0.0),
    ] {
        assert_eq!(metric(&page, name), Some(value), "{name}\n{page}");
    }
    assert!(page.ends_with("# EOF\n"), "{page}");
    let page = get(worker, "/metrics").unwrap().1;
    assert_eq!(metric(&page, "skillopt_worker_ready"), Some(1.0), "{page}");
}

#[test]
fn the_cluster_tells_what_an_hour_costs() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:1000"]));
    let cluster = Cluster::start_with(Shape {
        slots: "chat=2".to_owned(),
        ..Shape::default()
    });
    world.write(
        "prices.yaml",
        "prices: [{model: '*', input: 1, output: 2}]\n",
    );
    let url = format!("model.openai_compatible_base_url={}", sim.url());
    let args = [
        "submit",
        "train",
        "config.yaml",
        "--set",
        &url,
        "--set",
        "budget.prices=prices.yaml",
    ];
    let id = run(&mut world.ask(&cluster, &args)).code(0).stdout;
    until("the dollars of an hour are known", || {
        let top = run(&mut cluster.command(&["top", "--once", "--json"])).code(0);
        let mut rows = top
            .stdout
            .lines()
            .filter_map(|l| serde_json::from_str::<Value>(l).ok());
        rows.any(|row| {
            row["cost_usd_an_hour"]
                .as_f64()
                .is_some_and(|usd| usd > 0.0)
        })
    });
    run(&mut cluster.command(&["cancel", id.trim()])).code(0);
}

/// Writes data whose items take so many bytes, all of them other ones.
fn write_large_items(world: &World, sizes: Sizes, bytes: usize) {
    let data = world.path("large");
    generate(&data, 42, sizes).expect("data are written");
    for (split, _) in sizes.splits() {
        let name = format!("large/{split}/items.json");
        let mut items = world.json(&name);
        for item in items.as_array_mut().expect("a list") {
            let context = item["context"].as_str().expect("a text");
            let filler = " The rest of the page is blank.".repeat(bytes / 31);
            item["context"] = format!("{context}{filler}").into();
        }
        world.write(&name, items.to_string());
    }
}

#[test]
fn a_worker_keeps_its_items_within_the_memory_that_it_was_given() {
    const ITEMS: usize = 24;
    const EACH: usize = 50 << 10;
    const CACHE: u64 = 1 << 20;
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:100"]));
    let sizes = Sizes {
        train: 1,
        val: ITEMS,
        test: 1,
    };
    write_large_items(&world, sizes, EACH);
    world.write("skill.md", "# Skill\n\nAnswer in few words.\n");
    let url = format!("model.openai_compatible_base_url={}", sim.url());
    let settings = [url.as_str(), "env.split_dir=large"];
    run(&mut world.eval("here", &settings)).code(0);

    let cluster = Cluster::start_with(Shape {
        slots: "chat=2".to_owned(),
        worker_args: ["--cache-mib", "1"].map(str::to_owned).to_vec(),
        ..Shape::default()
    });
    let mut submission = world.submit_eval(&cluster, "there", &settings);
    let mut process = Process::start(&mut submission);
    let mut most = 0;
    until("it is evaluated", || {
        most = most.max(cluster.workers[0].metric("skillopt_worker_cache_bytes", &[]));
        process.status().is_some()
    });
    process.wait().code(0);
    world.same("here", "there");
    // All of them, as they are kept, would take more than twice of it.
    assert!(
        most > 2 * EACH as u64,
        "it keeps {most} bytes at most: less than one item"
    );
    assert!(most <= CACHE, "it keeps {most} bytes, {CACHE} were allowed");
}

#[test]
fn a_worker_is_told_to_leave_by_its_name() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:50"]));
    let mut cluster = Cluster::start(2);
    let process = Process::start(&mut world.submit(&cluster, "out", &sim.url(), &[]));
    until("the run has begun", || sim.stats().ok() > 0);
    let leaver = cluster.workers.remove(0);
    run(&mut cluster.command(&["workers", "drain", leaver.name()])).code(0);
    let left = leaver.wait();
    assert_eq!(left.status.code(), Some(0), "{}", left.stderr);
    process.wait().code(0);
    run(&mut cluster.command(&["workers", "drain", "nobody"]))
        .code(2)
        .says(&["nobody"]);
}

#[test]
fn whoever_cannot_work_says_that_it_is_not_ready() {
    let mut cluster = Cluster::start(1);
    let (coordinator, worker) = (cluster.coordinators[0].http(), cluster.workers[0].http());
    let answers = |port: u16, wanted: u16| {
        until(&format!("/readyz answers {wanted}"), || {
            get(port, "/readyz").unwrap().0 == wanted
        });
        assert_eq!(get(port, "/healthz").unwrap().0, 200, "it is not stuck");
    };
    answers(coordinator, 200);
    answers(worker, 200);
    cluster.redis.stop(Signal::SIGKILL);
    answers(coordinator, 503);
    answers(worker, 503);
    cluster.redis.again();
    answers(coordinator, 200);
    answers(worker, 200);
}
