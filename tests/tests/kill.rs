//! `kill -9` at random instants, then the same command: the folder is that of a run that was never
//! killed, and no answered call is asked again.
//!
//! `SKILLOPT_KILLS` is the number of kills (40; a nightly recipe takes 1,000).

use std::time::Duration;

use skillopt_runtime::clock::Stopwatch;
use skillopt_tests::support::{Draw, Process, Sim, World, store};

const SLOTS: u64 = 16;
/// Kills of one run: enough to meet every phase of it, few enough that it ends.
const KILLS_PER_RUN: u64 = 10;

/// Runs of which each goes through other stages.
const MODES: &[&[&str]] = &[
    &["--set", "optimizer.slow_update_gate_with_selection=true"],
    &[
        "--set",
        "optimizer.skill_update_mode=rewrite_from_suggestions",
        "optimizer.lr_control_mode=autonomous",
    ],
    &[
        "--set",
        "train.accumulation=2",
        "train.batch_size=4",
        "optimizer.use_skill_aware_reflection=true",
    ],
    &[
        "--set",
        "env.split_mode=ratio",
        "env.data_path=data/train/items.json",
        "env.split_dir=",
        "env.split_ratio='1:1:1'",
    ],
];

fn kills() -> u64 {
    let text = std::env::var("SKILLOPT_KILLS").unwrap_or_else(|_| "40".to_owned());
    text.parse().expect("SKILLOPT_KILLS is a whole number")
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_if_it_never_was() {
    let mut draw = Draw::new();
    let sim = Sim::start(&["--latency", "uniform:0,12"]);
    let (mut left, mut run) = (kills(), 0);
    while left > 0 {
        let mode = MODES[run % MODES.len()];
        left -= kill_again_and_again(&mut draw, &sim, mode, left.min(KILLS_PER_RUN));
        run += 1;
    }
}

/// Trains once undisturbed and once with up to `kills` kills; returns how many there were.
fn kill_again_and_again(draw: &mut Draw, sim: &Sim, mode: &[&str], kills: u64) -> u64 {
    let world = World::new();
    let slots = SLOTS.to_string();
    let args = [mode, &["--slots", &slots]].concat();
    sim.reset();
    let time = Stopwatch::start();
    world.trained("whole", &sim.url(), &args);
    let whole_us = (time.seconds() * 1e6) as u64;
    let (calls, results) = (sim.stats().ok(), store::results(&world.store("whole")));
    assert_eq!(calls, results, "every answer is kept");

    sim.reset();
    // Answers that the server gave, but that died with the process on their way into its store.
    let mut lost = 0;
    for n in 1..=kills {
        // The further the run is, the longer it may go on: the next kill meets a later phase.
        let at_us = draw.below(whole_us * (n + 1) / kills);
        let mut process = Process::start(&mut world.train("killed", &sim.url(), &args));
        std::thread::sleep(Duration::from_micros(at_us));
        process.signal(nix::sys::signal::Signal::SIGKILL);
        process.wait();
        let (given, kept) = (sim.settled().ok(), store::results(&world.store("killed")));
        println!("kill {n} after {at_us} us: {given} answers given, {kept} kept");
        let now_lost = given
            .checked_sub(kept)
            .expect("no result without an answer");
        assert!(
            (lost..=lost + SLOTS).contains(&now_lost),
            "{lost} answers were lost before, now {now_lost} are: more than were in flight"
        );
        lost = now_lost;
    }
    world.trained("killed", &sim.url(), &args);
    // The last start was left alone: had it asked again for anything that was kept, the server
    // would have given more answers than the store has gained.
    assert_eq!(
        sim.stats().ok(),
        results + lost,
        "an answered call was asked again"
    );
    assert_eq!(store::results(&world.store("killed")), results);
    world.same("whole", "killed");
    kills
}
