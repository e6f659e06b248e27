//! A run of a cluster is the run of one process: same words, same folder, no call more.

use nix::sys::signal::Signal;
use serde_json::Value;
use skillopt_tests::support::fake::{Fake, completion, refusal};
use skillopt_tests::support::program::{Process, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Cluster, Ended, Shape, Sim, World};

/// Replies that do not come in the order of the calls.
const SPREAD: &[&str] = &["--latency", "uniform:0,15"];

/// What was written to standard output, with the folder's name taken out.
fn said(ended: &Ended, out: &str) -> String {
    ended.stdout.replace(out, "OUT")
}

#[test]
fn a_training_on_one_or_three_workers_is_that_of_one_process() {
    let (world, sim) = (World::new(), Sim::start(SPREAD));
    let local = world.ended("local", &sim.url(), &[]).code(0);
    let calls = sim.stats().ok();
    for workers in [1, 3] {
        sim.reset();
        let cluster = Cluster::start(workers);
        let out = format!("on-{workers}");
        let ended = world.trained_on(&cluster, &out, &sim.url(), &[]);
        assert_eq!(said(&ended, &out), said(&local, "local"));
        assert_eq!(sim.settled().ok(), calls, "no call more, no call less");
        world.same("local", &out);
    }
}

#[test]
fn every_way_to_train_comes_to_the_same_on_a_cluster() {
    let (world, sim, cluster) = (World::new(), Sim::start(SPREAD), Cluster::start(2));
    for (name, more) in [
        (
            "gated",
            &["--set", "optimizer.slow_update_gate_with_selection=true"][..],
        ),
        (
            "rewrites",
            &[
                "--set",
                "optimizer.skill_update_mode=rewrite_from_suggestions",
                "optimizer.lr_control_mode=autonomous",
            ],
        ),
        (
            "drawn",
            &[
                "--set",
                "env.split_mode=ratio",
                "env.data_path=data/train/items.json",
                "env.split_dir=",
                "env.split_ratio=1:1:1",
            ],
        ),
        ("fresh", &["--set", "env.scope=fresh"]),
    ] {
        let (here, there) = (format!("{name}-here"), format!("{name}-there"));
        world.trained(&here, &sim.url(), more);
        world.trained_on(&cluster, &there, &sim.url(), more);
        world.same(&here, &there);
    }
}

#[test]
fn an_evaluation_is_that_of_one_process() {
    let (world, sim, cluster) = (World::new(), Sim::start(SPREAD), Cluster::start(2));
    world.write("skill.md", "# Skill\n\nAnswer in few words.\n");
    let url = format!("model.openai_compatible_base_url={}", sim.url());
    let of = |out: &'static str| {
        [
            "eval",
            "config.yaml",
            "--skill",
            "skill.md",
            "--split",
            "test",
            "--out",
            out,
            "--set",
        ]
    };
    let mut command =
        skillopt_tests::support::program::command(of("here").iter().chain(&[url.as_str()]));
    let local = run(command.current_dir(world.path(""))).code(0);
    let mut args = vec!["submit"];
    args.extend(of("there"));
    args.extend([url.as_str(), "--wait"]);
    let ended = run(&mut world.ask(&cluster, &args)).code(0);
    assert_eq!(said(&ended, "there"), said(&local, "here"));
    world.same("here", "there");
}

#[test]
fn json_lines_are_those_of_one_process() {
    let (world, sim, cluster) = (World::new(), Sim::start(SPREAD), Cluster::start(2));
    let lines = |ended: &Ended, out: &str| -> Vec<Value> {
        let text = said(ended, out);
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a JSON line"));
        lines
            .filter(|line: &Value| line["type"] != "progress")
            .collect()
    };
    let local = world.ended("local", &sim.url(), &["--json"]).code(0);
    let ended = world.trained_on(&cluster, "there", &sim.url(), &["--json"]);
    assert_eq!(lines(&ended, "there"), lines(&local, "local"));
}

#[test]
fn items_without_an_answer_are_told_of_as_by_one_process() {
    let (world, cluster) = (World::new(), Cluster::start(2));
    // Which items are refused follows from what is asked alone.
    let fake = Fake::start(|request| match request["model"].as_str() {
        Some("sim-target") if request.to_string().len() % 5 == 0 => {
            refusal("maximum context length is 10 tokens")
        }
        Some("sim-target") => completion("<answer>nobody knows</answer>"),
        _ => completion("{\"edits\": []}"),
    });
    let warning = |ended: &Ended| {
        let mut lines = ended.stderr.lines();
        let line = lines.find(|line| line.contains("got no answer from the model"));
        line.map(ToOwned::to_owned)
            .unwrap_or_else(|| panic!("{}", ended.stderr))
    };
    let local = warning(&world.ended("local", &fake.url(), &[]).code(0));
    assert!(local.contains("maximum context length"), "{local}");
    let ended = world.trained_on(&cluster, "there", &fake.url(), &[]);
    assert_eq!(warning(&ended), local);
    world.same("local", "there");
}

#[test]
fn two_equal_runs_pay_once() {
    let (world, sim, cluster) = (World::new(), Sim::start(SPREAD), Cluster::start(2));
    world.trained("local", &sim.url(), &[]);
    let calls = sim.stats().ok();
    sim.reset();
    let mut both: Vec<Process> = ["first", "second"]
        .iter()
        .map(|out| Process::start(&mut world.submit(&cluster, out, &sim.url(), &[])))
        .collect();
    for process in both.drain(..) {
        process.wait().code(0);
    }
    assert_ne!(world.run_id("first"), world.run_id("second"));
    assert_eq!(sim.settled().ok(), calls, "each job was run once");
    world.same("local", "first");
    world.same("local", "second");
}

#[test]
fn the_same_command_waits_for_the_same_run_again() {
    let (world, sim, cluster) = (
        World::new(),
        Sim::start(&["--latency", "fixed:40"]),
        Cluster::start(1),
    );
    world.trained("local", &sim.url(), &[]);
    let calls = sim.stats().ok();
    sim.reset();
    let mut waiting = Process::start(&mut world.submit(&cluster, "there", &sim.url(), &[]));
    until("a step is told", || waiting.stderr().contains("step 1/"));
    waiting.signal(Signal::SIGINT);
    let left = waiting.wait().code(130);
    let id = world.run_id("there");
    let goes_on = format!("run {id} goes on in the cluster");
    let left = left.says(&[
        "leaving; the run goes on in the cluster",
        &goes_on,
        "skillopt cancel",
    ]);
    assert!(
        left.stderr.contains("skillopt submit train"),
        "{}",
        left.stderr
    );
    world.trained_on(&cluster, "there", &sim.url(), &[]);
    assert_eq!(world.run_id("there"), id);
    assert_eq!(sim.settled().ok(), calls);
    world.same("local", "there");
    // Once more: it has ended, and is told and written as before.
    world.trained_on(&cluster, "there", &sim.url(), &[]);
    assert_eq!(world.run_id("there"), id);
    assert_eq!(sim.settled().ok(), calls);
    world.same("local", "there");
}

#[test]
fn a_second_coordinator_answers_when_the_first_is_killed() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:40"]));
    world.trained("local", &sim.url(), &[]);
    let calls = sim.stats().ok();
    sim.reset();
    let mut cluster = Cluster::start_with(Shape {
        coordinators: 2,
        workers: 2,
        ..Shape::default()
    });
    let mut waiting = Process::start(&mut world.submit(&cluster, "there", &sim.url(), &[]));
    until("a step is told", || {
        waiting.stderr().contains("step 1/") || waiting.status().is_some()
    });
    // The client began with the first one of the list.
    cluster.coordinators.remove(0).kill();
    waiting.wait().code(0);
    assert_eq!(sim.settled().ok(), calls);
    world.same("local", "there");
}
