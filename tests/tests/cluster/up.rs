//! `skillopt up`: all comes, all goes.

use nix::sys::signal::Signal;
use skillopt_tests::support::program::{Process, command, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Sim, World};

/// Returns the living processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("the list of processes");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| stat(*id).is_some_and(|(_, of)| of == parent))
        .collect()
}

/// Returns state and parent of a process; nothing if it is gone or only waits to be forgotten.
fn stat(id: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != 'Z' && state != 'X').then_some((state, parent))
}

/// Starts it with two workers and returns it with its address and its children.
fn up(world: &World) -> (Process, String, Vec<u32>) {
    let args = [
        "up",
        "--workers",
        "2",
        "--slots",
        "chat=8",
        "--listen",
        "127.0.0.1:0",
        "--dir",
        "cluster",
    ];
    let mut up = Process::start(command(args).current_dir(world.path("")));
    until("it is up", || {
        assert!(up.status().is_none(), "it ended: {}", up.stderr());
        up.stdout().contains("Ctrl-C takes it down")
    });
    let said = up.stdout();
    let (_, rest) = said
        .split_once("SKILLOPT_COORDINATOR=")
        .expect("the address");
    let url = rest.lines().next().unwrap_or_default().to_owned();
    let children = children(up.id());
    assert_eq!(
        children.len(),
        4,
        "Redis, a coordinator, two workers: {said}"
    );
    (up, url, children)
}

fn all_gone(children: &[u32]) {
    until("no child is left", || {
        children.iter().all(|id| stat(*id).is_none())
    });
}

#[test]
fn a_cluster_comes_up_trains_and_leaves_nothing_behind() {
    let (world, sim) = (World::new(), Sim::start(&[]));
    world.trained("local", &sim.url(), &[]);
    let (mut up, url, children) = up(&world);
    let set = format!("model.openai_compatible_base_url={}", sim.url());
    let args = [
        "submit",
        "train",
        "config.yaml",
        "--wait",
        "--out",
        "there",
        "--set",
        &set,
        "--coordinator",
        &url,
    ];
    run(command(args).current_dir(world.path(""))).code(0);
    world.same("local", "there");
    up.signal(Signal::SIGINT);
    up.wait().code(0);
    all_gone(&children);
}

#[test]
fn a_killed_one_leaves_nothing_behind() {
    let world = World::new();
    let (mut up, _, children) = up(&world);
    up.signal(Signal::SIGKILL);
    up.wait();
    all_gone(&children);
}

#[test]
fn a_part_that_dies_takes_all_down_and_is_named() {
    let world = World::new();
    let (up, _, children) = up(&world);
    let redis = children.iter().find(|id| {
        std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.contains("redis"))
    });
    let redis = i32::try_from(*redis.expect("Redis is a child")).expect("a process number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(redis), Signal::SIGKILL).expect("our own");
    up.wait().code(1).says(&["the Redis ended by itself"]);
    all_gone(&children);
}

#[test]
fn a_worker_may_leave_and_a_second_one_may_not_come() {
    let world = World::new();
    let (mut up, url, children) = up(&world);
    let args = ["up", "--dir", "cluster", "--listen", "127.0.0.1:0"];
    let second = run(command(args).current_dir(world.path(""))).code(2);
    second.says(&["another `skillopt up` (process", "--dir"]);
    let listen = url.strip_prefix("http://").expect("plain text");
    let args = ["up", "--dir", "another", "--listen", listen];
    let second = run(command(args).current_dir(world.path(""))).code(2);
    second.says(&["is in use already", "--listen 127.0.0.1:0"]);
    assert!(!world.path("another").exists(), "nothing was started");
    let leave = |n: u32| {
        let name = format!("worker-{n}");
        let worker = children.iter().find(|id| {
            std::fs::read_to_string(format!("/proc/{id}/cmdline"))
                .is_ok_and(|words| words.split('\0').any(|word| word == name))
        });
        let worker = i32::try_from(*worker.expect("it is a child")).expect("a process number");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(worker), Signal::SIGTERM)
            .expect("our own");
    };
    leave(1);
    until("it is told", || {
        up.stderr().contains("worker-1 left; 1 works on")
    });
    assert!(up.status().is_none(), "{}", up.stderr());
    leave(2);
    up.wait().code(1).says(&["no worker is left"]);
    all_gone(&children);
}

#[test]
fn a_redis_that_is_not_installed_is_told_with_what_helps() {
    let world = World::new();
    let args = [
        "up",
        "--redis-server",
        "no-such-redis",
        "--listen",
        "127.0.0.1:0",
    ];
    let ended = run(command(args).current_dir(world.path(""))).code(2);
    ended.says(&["is not installed", "apt-get install redis-server"]);
}
