//! What people ask of a cluster.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;
use skillopt_tests::support::program::{Process, command, run};
use skillopt_tests::support::sim::closed_port;
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Cluster, Ended, Shape, Sim, World};

fn ask(world: &World, cluster: &Cluster, args: &str) -> Ended {
    let args: Vec<&str> = args.split_whitespace().collect();
    run(&mut world.ask(cluster, &args))
}

/// Reads the JSON lines of a command.
fn rows(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

#[test]
fn a_run_is_shown_from_the_cluster_as_from_its_folder() {
    let (world, sim, cluster) = (World::new(), Sim::start(&[]), Cluster::start(1));
    world.trained_on(&cluster, "there", &sim.url(), &[]);
    let id = world.run_id("there");
    for more in ["", " --step 1", " --step 2"] {
        let from_folder = ask(&world, &cluster, &format!("show there{more}")).code(0);
        let from_cluster = ask(&world, &cluster, &format!("show {id}{more}")).code(0);
        assert_eq!(from_cluster.stdout, from_folder.stdout, "show{more}");
    }
    // A beginning of the id is enough.
    ask(&world, &cluster, &format!("show {}", &id[..6])).code(0);
    let listed = ask(&world, &cluster, "runs").code(0);
    assert!(
        listed.stdout.contains(&id) && listed.stdout.contains("there"),
        "{}",
        listed.stdout
    );
    let listed = rows(&ask(&world, &cluster, "runs --json").code(0));
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["id"], id.as_str());
    // Workers settle in batches.
    until(
        "the use of the run is settled, and nothing is held any more",
        || {
            let used = rows(&ask(&world, &cluster, &format!("usage {id} --json")).code(0));
            let row = used.first().unwrap_or_else(|| panic!("no use of {id}"));
            row["requests"].as_u64() == Some(sim.stats().ok())
                && row["reserved_requests"].as_u64() == Some(0)
        },
    );
    for by in ["role", "stage", "model"] {
        let used = rows(&ask(&world, &cluster, &format!("usage {id} --by {by} --json")).code(0));
        let requests = used.iter().map(|row| row["requests"].as_u64().unwrap());
        assert_eq!(requests.sum::<u64>(), sim.stats().ok(), "{by}: {used:?}");
    }
    ask(&world, &cluster, &format!("why {id}")).code(0);
    ask(&world, &cluster, "show 00nothing")
        .code(2)
        .says(&["skillopt runs"]);
}

#[test]
fn an_exported_run_is_replayed() {
    let (world, sim, cluster) = (World::new(), Sim::start(&[]), Cluster::start(1));
    world.trained_on(&cluster, "there", &sim.url(), &[]);
    let id = world.run_id("there");
    ask(&world, &cluster, &format!("export {id} --out copy")).code(0);
    world.same("there", "copy");
    for out in ["there", "copy"] {
        let replayed = ask(&world, &cluster, &format!("replay {out}")).code(0);
        assert!(replayed.stdout.contains("agrees"), "{}", replayed.stdout);
        ask(&world, &cluster, &format!("show {out}")).code(0);
    }
    ask(&world, &cluster, &format!("export {id} --out copy"))
        .code(2)
        .says(&["holds a run already"]);
}

#[test]
fn a_run_is_submitted_paused_resumed_and_cancelled() {
    let world = World::new();
    // So slow that the run does not end before a command has come.
    let sim = Sim::start(&["--latency", "fixed:300"]);
    let cluster = Cluster::start(1);
    let url = sim.url();
    let submit = format!(
        "submit train config.yaml --name mine --set model.openai_compatible_base_url={url}"
    );
    let submitted = ask(&world, &cluster, &submit)
        .code(0)
        .says(&["skillopt watch", "skillopt export"]);
    let id = submitted.stdout.trim().to_owned();
    let row = || rows(&ask(&world, &cluster, "runs --json").code(0)).remove(0);
    until("it runs", || {
        row()["state"] == "running" && sim.stats().number("calls") > 5
    });
    // By its name.
    ask(&world, &cluster, "pause mine").code(0);
    ask(&world, &cluster, "pause mein")
        .code(2)
        .says(&["no run or sweep"]);
    until("it is paused", || row()["state"] == "paused (by hand)");
    let shown = ask(&world, &cluster, &format!("show {id}")).code(0);
    let goes_on = format!("skillopt resume {id}");
    assert!(shown.stdout.contains(&goes_on), "{}", shown.stdout);
    let named = ask(&world, &cluster, "show mine").code(0);
    assert_eq!(named.stdout, shown.stdout);
    // What was on its way to a worker is still answered.
    let mut calls = 0;
    until("a paused run comes to rest", || {
        let before = sim.settled().number("calls");
        ask(&world, &cluster, &format!("why {id}")).code(0);
        calls = sim.stats().number("calls");
        calls == before
    });
    // Nothing ends before it is cancelled.
    sim.configure(serde_json::json!({ "latency": "fixed:600000" }));
    ask(&world, &cluster, &format!("resume {id}")).code(0);
    until("it goes on", || sim.stats().number("calls") > calls);
    ask(&world, &cluster, &format!("cancel {id}")).code(0);
    until("it is cancelled", || row()["state"] == "cancelled");
    // Once more is no error.
    ask(&world, &cluster, &format!("cancel {id}")).code(0);
    ask(&world, &cluster, &format!("resume {id}")).code(2);
    assert_eq!(row()["name"], "mine");
}

#[test]
fn whoever_waits_is_told_of_a_cancel_and_a_pause() {
    let world = World::new();
    let sim = Sim::start(&["--latency", "fixed:300"]);
    let cluster = Cluster::start(1);
    for (what, code, words) in [
        ("pause", 4, "was paused by hand"),
        ("cancel", 6, "was cancelled"),
    ] {
        // A run each: one that was paused would only go on.
        let out = format!("told-to-{what}");
        let waiting = Process::start(&mut world.submit(&cluster, &out, &sim.url(), &[]));
        let calls = sim.stats().number("calls");
        until("it runs", || sim.stats().number("calls") > calls + 5);
        let id = world.run_id(&out);
        ask(&world, &cluster, &format!("{what} {id}")).code(0);
        waiting.wait().code(code).says(&[words]);
    }
}

#[test]
fn a_key_is_submitted_once() {
    let (world, sim, cluster) = (World::new(), Sim::start(&[]), Cluster::start(1));
    let submit = format!(
        "submit train config.yaml --key nightly --set model.openai_compatible_base_url={}",
        sim.url()
    );
    let ids: Vec<String> = (0..2)
        .map(|_| ask(&world, &cluster, &submit).code(0).stdout)
        .collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(rows(&ask(&world, &cluster, "runs --json").code(0)).len(), 1);
}

#[test]
fn workers_are_listed_and_sent_away() {
    let world = World::new();
    let mut cluster = Cluster::start(2);
    let list = || rows(&ask(&world, &cluster, "workers --json").code(0));
    until("both are listed", || list().len() == 2);
    for row in list() {
        assert_eq!(row["state"], "well");
        assert_eq!(row["slots"]["chat"], 16);
    }
    let table = ask(&world, &cluster, "workers").code(0).stdout;
    assert!(table.contains("chat 0/16"), "{table}");
    let name = cluster.workers[0].name().to_owned();
    ask(&world, &cluster, &format!("workers drain {name}")).code(0);
    let gone = cluster.workers.remove(0).wait();
    assert!(gone.status.success(), "{}", gone.stderr);
    ask(&world, &cluster, "workers drain nobody").code(2);
}

#[test]
fn bad_input_is_refused_before_anything_is_sent() {
    let (world, cluster) = (World::new(), Cluster::start(0));
    world.write("bad.yaml", "_base_: config.yaml\ntrain:\n  num_epoch: 3\n");
    world.write(
        "none.yaml",
        "_base_: config.yaml\nenv:\n  split_dir: nowhere\n",
    );
    for (args, words) in [
        ("submit train bad.yaml", "num_epochs"),
        ("submit train none.yaml", "nowhere"),
        (
            "submit train config.yaml --backend curser_exec",
            "cursor_exec",
        ),
        ("submit eval config.yaml --skill nowhere.md", "nowhere.md"),
        ("submit data", "is a folder"),
        ("submit train config.yaml --usd 5", "price"),
    ] {
        ask(&world, &cluster, args).code(2).says(&[words]);
    }
    assert_eq!(rows(&ask(&world, &cluster, "runs --json").code(0)).len(), 0);
}

#[test]
fn nobody_there_has_a_code_of_its_own() {
    let url = format!("http://127.0.0.1:{}", closed_port());
    let ended = run(&mut command(["workers", "--coordinator", &url])).code(7);
    ended.says(&["does not answer", "skillopt up"]);
}

#[test]
fn an_address_with_the_wrong_scheme_is_told_so() {
    let cluster = Cluster::start(0);
    let url = cluster.url().replace("http://", "https://");
    let ended = run(&mut command(["workers", "--coordinator", &url])).code(7);
    ended.says(&["does not speak TLS", "write `http://`"]);
}

/// As `head` does once it has its line: whatever is written then meets nobody.
#[test]
fn whoever_reads_no_further_is_shown_no_error() {
    let (world, sim, cluster) = (World::new(), Sim::start(&[]), Cluster::start(1));
    let set = format!("model.openai_compatible_base_url={}", sim.url());
    let submit = format!("submit train config.yaml --wait --out there --set {set}");
    ask(&world, &cluster, &submit).code(0);
    let row = &rows(&ask(&world, &cluster, "runs --json").code(0))[0];
    let id = row["id"].as_str().expect("a run has an id");
    for args in [
        // This one goes on until somebody stops it, or nobody reads it.
        "top",
        "top --once --json",
        "runs",
        "runs --json",
        "workers",
        "usage --by tenant",
        &format!("show {id}"),
        &format!("why {id}"),
        &format!("watch {id}"),
        &format!("watch {id} --json"),
    ] {
        let args: Vec<&str> = args.split_whitespace().collect();
        if args != ["top"] {
            let whole = run(&mut world.ask(&cluster, &args)).code(0);
            assert!(!whole.stdout.is_empty(), "{args:?} writes something");
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = world.ask(&cluster, &args);
        let piped = command
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped());
        let child = piped.spawn().expect("the program starts");
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{args:?}: {}", ended.status);
        assert!(!said.contains("error"), "{args:?}: {said}");
    }
}

#[test]
fn tokens_say_who_may_do_what() {
    let world = World::new();
    world.write("admin", "an-admins-token-of-this-test\n");
    let cluster = Cluster::start_with(Shape {
        workers: 0,
        coordinator_args: vec![
            "--admin-token-file".to_owned(),
            world.path("admin").display().to_string(),
        ],
        ..Shape::default()
    });
    ask(&world, &cluster, "runs")
        .code(2)
        .says(&["SKILLOPT_TOKEN"]);
    ask(&world, &cluster, "runs --token wrong").code(2);
    ask(&world, &cluster, "runs --token-file admin").code(0);
    let made = rows(
        &ask(
            &world,
            &cluster,
            "token create --name eve --role viewer --token-file admin --json",
        )
        .code(0),
    );
    let token = made[0]["token"].as_str().expect("a token");
    ask(&world, &cluster, &format!("runs --token {token}")).code(0);
    let refused = ask(
        &world,
        &cluster,
        &format!("token create --name x --token {token}"),
    )
    .code(2);
    assert!(!refused.stderr.contains(token), "{}", refused.stderr);
    let id = made[0]["id"].as_str().expect("an id");
    let list = || rows(&ask(&world, &cluster, "token list --token-file admin --json").code(0));
    let listed = list();
    assert_eq!(listed.len(), 1);
    let seen = (&listed[0]["id"], &listed[0]["name"], &listed[0]["role"]);
    assert_eq!(seen, (&id.into(), &"eve".into(), &"viewer".into()));
    assert_eq!(listed[0]["ends_unix_ms"], Value::Null);
    ask(&world, &cluster, &format!("token list --token {token}")).code(2);
    ask(
        &world,
        &cluster,
        &format!("token revoke {id} --token-file admin"),
    )
    .code(0);
    assert!(list().is_empty());
    until("the token is void", || {
        ask(&world, &cluster, &format!("runs --token {token}"))
            .status
            .code()
            == Some(2)
    });
}

#[test]
fn tls_both_ways() {
    let world = World::new();
    let ca_key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).expect("a certificate");
    let issuer = rcgen::Issuer::from_params(&params, &ca_key);
    world.write("ca.pem", ca.pem());
    for (name, host) in [("server", "127.0.0.1"), ("client", "me")] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        let cert = params.signed_by(&key, &issuer).expect("a certificate");
        world.write(&format!("{name}.pem"), cert.pem());
        world.write(&format!("{name}.key"), key.serialize_pem());
    }
    let path = |name: &str| world.path(name).display().to_string();
    let args = [
        "--tls-cert",
        &path("server.pem"),
        "--tls-key",
        &path("server.key"),
        "--client-ca",
        &path("ca.pem"),
    ];
    let cluster = Cluster::start_with(Shape {
        workers: 0,
        coordinator_args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        ..Shape::default()
    });
    let url = format!("https://127.0.0.1:{}", cluster.coordinators[0].port());
    let with = |more: &str| {
        ask(
            &world,
            &cluster,
            &format!("runs --coordinator {url} {more}"),
        )
    };
    let me = "--client-cert client.pem --client-key client.key";
    with(&format!("--ca ca.pem {me}")).code(0);
    with("--ca ca.pem").code(7);
    with(me).code(7).says(&["certificate"]);
}

#[test]
fn a_coordinator_and_a_worker_go_when_they_are_told_to() {
    let mut cluster = Cluster::start(1);
    let mut coordinator = cluster.coordinators.remove(0);
    let mut worker = cluster.workers.remove(0);
    coordinator.terminate();
    worker.process().signal(Signal::SIGINT);
    for node in [coordinator, worker] {
        let name = node.name().to_owned();
        let gone = node.wait().code(0);
        assert!(
            gone.stderr.contains(&format!("{name}: leaving")),
            "{}",
            gone.stderr
        );
        assert!(
            gone.stderr.ends_with(&format!("{name}: gone\n")),
            "{}",
            gone.stderr
        );
    }
}

#[test]
fn a_redis_that_cannot_be_used_is_told_with_what_helps() {
    let evicting =
        skillopt_tests::support::Redis::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let with_password = skillopt_tests::support::Redis::start_with(&["--protected-mode", "no"]);
    let nowhere = format!("redis://127.0.0.1:{}/x", closed_port());
    for (url, words) in [
        (evicting.url(), "noeviction"),
        (nowhere, "database"),
        (
            format!("redis://:wrong-secret@127.0.0.1:{}", with_password.port()),
            "",
        ),
    ] {
        for service in ["coordinator", "worker"] {
            let mut command = command([service, "--name", "x"]);
            if service == "coordinator" {
                command.args(["--listen", "127.0.0.1:0"]);
            }
            let ended = run(command.env("SKILLOPT_REDIS_URL", &url));
            assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
            assert!(ended.stderr.contains(words), "{}", ended.stderr);
            assert!(!ended.stderr.contains("wrong-secret"), "{}", ended.stderr);
        }
    }
}
