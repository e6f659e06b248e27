//! Large values in an object store that goes away in the middle.

use std::fmt::Write as _;

use serde_json::json;
use skillopt_queue::conformance::server::{ObjectServer, Vendor};
use skillopt_tests::support::cluster::{Cluster, Node, Shape};
use skillopt_tests::support::folder;
use skillopt_tests::support::http::get;
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::proxy::Proxy;
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Draw, World};

use crate::scene::{OUT, Scene, shape};

/// Characters of an item: more than fits into a value that lies in Redis, also when it is packed.
const CHARS: usize = 120_000;
const ITEMS: usize = 16;

/// A world whose items, and so their conversations, are large.
fn large_world() -> World {
    let (world, mut draw) = (World::new(), Draw::new());
    let mut items = String::new();
    for i in 0..ITEMS {
        let text = draw.letters(CHARS);
        let question = format!("[[sim item=i{i} fam=K00 gold=\"a b {i}\"]] q");
        let item = json!({
            "id": format!("i{i}"), "question": question, "text": text, "answer": format!("a b {i}"),
        });
        // Writing to a string cannot fail.
        _ = writeln!(items, "{item}");
    }
    world.write("own/items.jsonl", items);
    world.write("own/prompt.md", "{{question}}\n\n{{text}}\n");
    world.write(
        "own/benchmark.yaml",
        "name: own\nitems: items.jsonl\nsplit_ratio: \"2:1:1\"\nscorer: {kind: exact}\n",
    );
    world
}

fn scene(latency: &str) -> Scene {
    let args = [
        "--set",
        "env.name=custom",
        "--set",
        "env.benchmark_dir=own",
        "--set",
        "env.split_dir=",
        "--set",
        "env.split_mode=ratio",
    ];
    Scene::in_world(large_world(), latency, &args)
}

/// A cluster that reaches its object store at a port.
fn cluster(server: &ObjectServer, port: u16) -> Cluster {
    let objects = ["--objects".to_owned(), server.url()];
    Cluster::start_with(Shape {
        coordinator_args: objects.to_vec(),
        worker_args: objects.to_vec(),
        env: server.settings_at(port),
        ..shape(1, 2)
    })
}

/// Nobody wrote a credential down: not to Redis, not to a run folder, and not for people.
#[track_caller]
fn no_secret(scene: &Scene, cluster: &Cluster) {
    let said = cluster.said();
    let mut texts = vec![said.into_bytes()];
    for root in [cluster.redis.dir(), &scene.world.path(OUT)] {
        texts.extend(folder::all_files(root).into_values());
    }
    assert!(texts.len() > 10, "the files were found");
    for secret in ObjectServer::secrets() {
        let shown = |text: &Vec<u8>| String::from_utf8_lossy(text).contains(secret);
        assert!(!texts.iter().any(shown), "a credential was written down");
    }
}

/// A run goes through a vendor's store, which is away for some seconds in the middle.
#[track_caller]
fn goes_through(vendor: Vendor) {
    let (scene, server) = (scene("uniform:20,120"), ObjectServer::start(vendor));
    let proxy = Proxy::start(server.port());
    let cluster = cluster(&server, proxy.port());
    let mut process = scene.submit(&cluster);
    proxy.cut();
    until("a transfer was refused", || proxy.refused() > 0);
    scene.is_under_way(&mut process);
    proxy.heal();
    assert_eq!(scene.ends_well(process, &cluster, 0), 0);
    // Packed, six bits of a character are left.
    let least = 2 * (ITEMS * CHARS * 3 / 4) as u64;
    assert!(server.bytes() > least, "items and conversations lie there");
    no_secret(&scene, &cluster);
}

#[test]
fn a_run_goes_through_s3_which_is_away_for_a_while() {
    goes_through(Vendor::S3);
}

#[test]
fn a_run_goes_through_azure_which_is_away_for_a_while() {
    goes_through(Vendor::Azure);
}

#[test]
fn a_run_goes_through_google_which_is_away_for_a_while() {
    goes_through(Vendor::Google);
}

#[test]
fn a_store_that_stays_away_is_named_by_all_until_it_is_back() {
    let (scene, server) = (scene("fixed:2000"), ObjectServer::start(Vendor::S3));
    let proxy = Proxy::start(server.port());
    let cluster = cluster(&server, proxy.port());
    let mut process = Process::start(&mut scene.submission(&cluster, OUT));
    let url = server.url();
    // A worker has read its inputs, and is going to have an answer that has no place.
    until("a call is under way", || {
        scene.sim.stats().number("in_flight") > 0
    });
    proxy.cut();
    scene.sim.configure(json!({"latency": "uniform:20,120"}));
    let ready = |port: u16| get(port, "/readyz").expect("a page");
    let is_told = |worker: &Node| {
        let (status, page) = ready(worker.http());
        status == 503 && page.contains(&url)
    };
    until("a worker names the store", || {
        cluster.workers.iter().any(is_told)
    });
    scene.is_under_way(&mut process);
    let told = cluster.workers.iter().find(|worker| is_told(worker));
    let said = told.expect("it is still away").said();
    for words in ["cannot be stored or read", &url, "is it up", "by itself"] {
        assert!(said.contains(words), "{words} is not in\n{said}");
    }
    assert!(!said.contains("the queue cannot be reached"), "{said}");
    until("whoever asks why hears of it", || {
        let why = run(&mut cluster.command(&["why"])).code(0).stdout;
        why.contains(&url) && why.contains("cannot be stored or read")
    });
    until("and whoever lists the workers", || {
        let listed = run(&mut cluster.command(&["workers"])).code(0).stdout;
        listed.contains(&url)
    });

    proxy.heal();
    until("all are ready again", || {
        let mut workers = cluster.workers.iter();
        workers.all(|worker| ready(worker.http()).0 == 200)
    });
    assert!(cluster.said().contains("stored and read again"));
    assert_eq!(scene.ends_well(process, &cluster, 0), 0);
    no_secret(&scene, &cluster);
}

#[test]
fn a_worker_that_alone_cannot_reach_the_store_leaves_its_jobs_to_others() {
    let (scene, server) = (scene("uniform:20,120"), ObjectServer::start(Vendor::S3));
    let proxy = Proxy::start(server.port());
    let mut shape = shape(1, 0);
    for args in [&mut shape.coordinator_args, &mut shape.worker_args] {
        args.extend(["--objects".to_owned(), server.url()]);
    }
    shape.env.extend(server.settings_at(server.port()));
    let mut cluster = Cluster::start_with(shape);
    let behind = format!("http://127.0.0.1:{}", proxy.port());
    let alone = cluster.add_worker_with(&[("AWS_ENDPOINT_URL", &behind)]);
    proxy.cut();
    let process = Process::start(&mut scene.submission(&cluster, OUT));
    let alone = |cluster: &Cluster| cluster.workers[alone].said();
    until("it holds jobs whose inputs it cannot read", || {
        alone(&cluster).contains("cannot be stored or read")
    });
    cluster.add_worker();
    assert_eq!(scene.ends_well(process, &cluster, 0), 0);
    assert!(!alone(&cluster).contains("read again"), "it never could");
    no_secret(&scene, &cluster);
}
