//! Folders to write to.

use std::path::Path;
use std::process::Command;

use skillopt_tests::support::program::{clean, run};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Ended, Process, Sim, World, folder, store};

use crate::ended_unpaid;

const SLOTS: u64 = 8;
const ARGS: &[&str] = &["--slots", "8"];

#[test]
fn a_folder_with_other_things_is_left_alone() {
    for more in [
        &[][..],
        &[
            "env.split_mode=ratio",
            "env.data_path=data/train/items.json",
            "env.split_dir=",
        ],
    ] {
        let world = World::new();
        world.write("out/mine.txt", "mine");
        let args = [&["--set", "train.batch_size=8"], more].concat();
        ended_unpaid(&world, "out", &args)
            .code(2)
            .says(&["`out` is not empty and not a run folder", "--out"]);
        let left: Vec<String> = folder::files(&world.path("out")).into_keys().collect();
        assert_eq!(left, ["mine.txt"]);
        assert!(!world.path("out/.skillopt").exists());
    }
}

#[test]
fn a_file_in_place_of_a_folder_is_left_alone() {
    let world = World::new();
    world.write("out", "mine");
    ended_unpaid(&world, "out", &[]).code(2).says(&["out"]);
    ended_unpaid(&world, "out/below", &[])
        .code(2)
        .says(&["out"]);
    assert_eq!(std::fs::read(world.path("out")).unwrap(), b"mine");
}

#[test]
fn the_folder_of_another_run_is_left_alone() {
    let ratio = [
        "--set",
        "env.split_mode=ratio",
        "env.data_path=data/train/items.json",
        "env.split_dir=",
        "env.split_ratio=1:1:1",
    ];
    for (args, other, key) in [
        (
            &["--set", "train.seed=1"][..],
            "train.seed=2",
            "`train.seed` is 1 there, 2 here",
        ),
        (
            &["--set", "train.seed=1"],
            "optimizer.learning_rate=3",
            "`optimizer.learning_rate` is 4 there, 3 here",
        ),
        (&ratio, "env.split_ratio=2:1:2", "`env.split_ratio` is"),
        (
            &ratio,
            "env.split_seed=7",
            "`env.split_seed` is 42 there, 7 here",
        ),
    ] {
        let (world, sim) = (World::new(), Sim::start(&[]));
        world.trained("out", &sim.url(), args);
        world.trained("copy", &sim.url(), args);
        sim.reset();
        let ended = world.ended("out", &sim.url(), &[args, &[other]].concat());
        ended
            .code(2)
            .says(&["`out` holds another run", key, "--out"]);
        assert_eq!(sim.stats().number("calls"), 0);
        world.same("out", "copy");
        world.trained("out", &sim.url(), args);
        world.same("out", "copy");
    }
}

#[test]
fn other_data_make_another_run() {
    let (world, sim) = (World::new(), Sim::start(&[]));
    let args = [
        "--set",
        "env.split_mode=ratio",
        "env.data_path=raw.json",
        "env.split_dir=",
        "env.split_ratio=1:1:1",
    ];
    std::fs::copy(world.path("data/train/items.json"), world.path("raw.json")).unwrap();
    world.trained("out", &sim.url(), &args);
    world.trained("copy", &sim.url(), &args);
    let raw = std::fs::read_to_string(world.path("raw.json")).unwrap();
    world.write("raw.json", raw.replacen("[DOC]", "[DOC] Also:", 1));
    sim.reset();
    world
        .ended("out", &sim.url(), &args)
        .code(2)
        .says(&["`out` holds another run", "data"]);
    assert_eq!(sim.stats().number("calls"), 0);
    world.same("out", "copy");
}

#[test]
fn a_second_process_on_one_folder_is_refused_and_the_first_unharmed() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:10"]));
    world.trained("whole", &sim.url(), ARGS);
    sim.reset();
    let first = Process::start(&mut world.train("out", &sim.url(), ARGS));
    until("the first is under way", || sim.stats().ok() >= 20);
    ended_second(
        &world,
        &["--out", "out"],
        "another skillopt process is working in `out`",
    );
    // Another folder, but the same store.
    ended_second(
        &world,
        &["--out", "second", "--store", "out/.skillopt/store.sqlite"],
        "store.sqlite",
    );
    first.wait().code(0);
    world.same("whole", "out");
}

/// Starts a run beside another one, which it must not disturb.
#[track_caller]
fn ended_second(world: &World, args: &[&str], words: &str) {
    // The endpoint is part of a run, so the first one's is named in the folder; any will do here.
    ended_unpaid(world, "unused", args).code(2).says(&[words]);
}

#[test]
fn a_damaged_store_is_refused_and_left_as_it_is() {
    let (world, sim) = (World::new(), Sim::start(&[]));
    world.trained("out", &sim.url(), ARGS);
    sim.reset();
    let name = "out/.skillopt/store.sqlite";
    for side in ["-wal", "-shm"] {
        // A clean end has removed them already.
        drop(std::fs::remove_file(world.path(&format!("{name}{side}"))));
    }
    let garbage = "these are not the results that you are looking for\n".repeat(1_000);
    world.write(name, &garbage);
    let ended = world.ended("out", &sim.url(), ARGS);
    ended
        .code(2)
        .says(&["store.sqlite", "not a skillopt store"]);
    assert_eq!(world.text(name), garbage);
    assert_eq!(sim.stats().number("calls"), 0);
}

/// How to get mounts of our own, if the kernel lets us.
fn namespace() -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-Urm"]];
    let works = |way: &&&[&str]| {
        let mut try_it = clean(way[0], &way[1..]);
        try_it.args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        try_it.output().is_ok_and(|o| o.status.success())
    };
    WAYS.iter().find(works).copied()
}

/// Makes the call `sh -c script <train command>` with mounts of its own.
fn with_mounts(way: &[&str], script: &str, train: &Command) -> Ended {
    let mut command = clean(way[0], &way[1..]);
    command
        .args(["sh", "-c", script, "sh"])
        .arg(train.get_program())
        .args(train.get_args());
    if let Some(folder) = train.get_current_dir() {
        command.current_dir(folder);
    }
    run(&mut command)
}

/// Trains on a disk that gets full, then again when there is room.
const FULL: &str = "mount -t tmpfs -o size=1200k none disk || exit 99
    \"$@\"; echo code $?
    mount -o remount,size=400m none disk || exit 98
    \"$@\"; code=$?; cp -a disk/out out; exit $code";

/// The same without a disk of our own: no file may grow above some blocks of 512 bytes.
const LIMITED: &str = "trap '' XFSZ; (ulimit -f 400; \"$@\"); echo code $?
    \"$@\"; code=$?; cp -a disk/out out; exit $code";

#[test]
fn a_full_disk_pauses_the_run_and_room_lets_it_go_on() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:2"]));
    world.trained("whole", &sim.url(), ARGS);
    let results = store::results(&world.store("whole"));
    sim.reset();
    std::fs::create_dir(world.path("disk")).unwrap();
    let train = world.train("disk/out", &sim.url(), ARGS);
    let ended = match namespace() {
        Some(way) => with_mounts(way, FULL, &train),
        None => {
            println!("no mounts of our own here; the size of files is limited instead");
            with_mounts(&["env"], LIMITED, &train)
        }
    };
    let ended = ended.code(0).says(&["paused", "go on with"]);
    assert!(
        ended.stdout.contains("code 4"),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
    let words = ["no space left", "No space left", "too large"];
    assert!(
        words.iter().any(|w| ended.stderr.contains(w)),
        "{}",
        ended.stderr
    );
    world.same("whole", "out");
    let asked = sim.stats().ok();
    assert!(
        (results..=results + SLOTS).contains(&asked),
        "{asked} answers for {results} results: only those in flight may be lost"
    );
}

#[test]
fn a_read_only_folder_is_refused_before_anything_is_spent() {
    let world = World::new();
    let server = skillopt_tests::support::fake::Fake::start(|_| Vec::new());
    std::fs::create_dir(world.path("disk")).unwrap();
    let Some(way) = namespace() else {
        println!("no mounts of our own here; a file stands in the way instead");
        world.write("disk/out", "");
        ended_unpaid(&world, "disk/out", &[])
            .code(2)
            .says(&["disk/out"]);
        return;
    };
    for prepare in ["", "mkdir disk/out &&"] {
        let script = format!(
            "mount -t tmpfs none disk && {prepare} mount -o remount,ro none disk || exit 99; exec \"$@\""
        );
        let train = world.train("disk/out", &server.url(), &[]);
        with_mounts(way, &script, &train).code(2).says(&[
            "disk/out",
            "Read-only",
            "choose a folder",
        ]);
    }
    // A folder that has become read-only between two calls of the same command.
    let script = "mount -t tmpfs none disk && cp -a whole disk/out && mount -o remount,ro none disk || exit 99; exec \"$@\"";
    let sim = Sim::start(&[]);
    world.trained("whole", &sim.url(), &[]);
    assert!(Path::new(&world.path("whole/.skillopt")).exists());
    sim.reset();
    let train = world.train("disk/out", &sim.url(), &[]);
    with_mounts(way, script, &train).code(2).says(&["disk/out"]);
    assert_eq!(sim.stats().number("calls") + server.calls(), 0);
}
