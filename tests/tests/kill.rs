//! `kill -9` at random instants, then the same command: the folder is that of a run that was never
//! killed, and no answered call is asked again.
//!
//! `SKILLOPT_KILLS` is the number of kills (40; a nightly recipe takes 1,000).

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use skillopt_runtime::clock::Stopwatch;
use skillopt_tests::support::{Draw, Process, Sim, World, store};

const SLOTS: u64 = 16;
/// Kills of one run: enough to meet its phases, few enough that not most of them meet its end.
const KILLS_PER_RUN: u64 = 6;

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
        "env.split_ratio=1:1:1",
    ],
];

fn kills() -> u64 {
    let text = std::env::var("SKILLOPT_KILLS").unwrap_or_else(|_| "40".to_owned());
    text.parse().expect("SKILLOPT_KILLS is a whole number")
}

/// A run that nobody disturbs, to compare with.
struct Whole {
    world: World,
    args: Vec<String>,
    time: Duration,
    results: u64,
}

impl Whole {
    fn new(sim: &Sim, mode: &[&str]) -> Self {
        let (world, slots) = (World::new(), SLOTS.to_string());
        let args = [mode, &["--slots", &slots]].concat();
        sim.reset();
        let time = Stopwatch::start();
        world.trained("whole", &sim.url(), &args);
        let time = time.elapsed();
        let results = store::results(&world.store("whole"));
        assert_eq!(sim.stats().ok(), results, "every answer is kept");
        let args = args.into_iter().map(str::to_owned).collect();
        Self {
            world,
            args,
            time,
            results,
        }
    }

    fn start(&self, sim: &Sim, out: &str) -> Process {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        Process::start(&mut self.world.train(out, &sim.url(), &args))
    }

    /// Trains once more, killed until it is through, at most `kills` times; returns how many times
    /// that was.
    fn again(&self, sim: &Sim, draw: &mut Draw, out: &str, kills: u64) -> u64 {
        sim.reset();
        let store = self.world.store(out);
        // Answers that the server gave, but that died with the process on their way into its store.
        let (mut lost, mut done) = (0, 0);
        while done < kills {
            let us = draw.below(u64::try_from(self.time.as_micros()).expect("a short time"));
            // Two thirds of a run, so that most starts are killed before they are through.
            let at = Duration::from_micros(us * 2 / 3);
            let mut process = self.start(sim, out);
            std::thread::sleep(at);
            process.signal(Signal::SIGKILL);
            let ended = process.wait();
            if ended.status.signal().is_none() {
                ended.code(0);
                break;
            }
            done += 1;
            let (given, kept) = (sim.settled().ok(), store::results(&store));
            println!("killed after {at:?}: {given} answers given, {kept} kept");
            let now_lost = given
                .checked_sub(kept)
                .expect("no result without an answer");
            assert!(
                (lost..=lost + SLOTS).contains(&now_lost),
                "{lost} answers were lost before, now {now_lost} are: more than were in flight"
            );
            lost = now_lost;
        }
        self.start(sim, out).wait().code(0);
        // The last start was left alone: had it asked again for anything that was kept, the server
        // would have given more answers than the store has gained.
        let asked_again = sim.stats().ok().checked_sub(self.results);
        assert_eq!(asked_again, Some(lost), "an answered call was asked again");
        assert_eq!(store::results(&store), self.results);
        self.world.same("whole", out);
        done
    }
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_if_it_never_was() {
    let mut draw = Draw::new();
    let sim = Sim::start(&["--latency", "uniform:0,25"]);
    let wholes: Vec<Whole> = MODES.iter().map(|mode| Whole::new(&sim, mode)).collect();
    let (kills, mut done) = (kills(), 0);
    for (n, whole) in wholes.iter().cycle().enumerate() {
        if done >= kills {
            break;
        }
        println!("run {n}: {}", whole.args.join(" "));
        let out = format!("killed-{n}");
        done += whole.again(&sim, &mut draw, &out, KILLS_PER_RUN.min(kills - done));
        // A thousand kills leave a hundred folders otherwise.
        std::fs::remove_dir_all(whole.world.path(&out)).expect("the folder is ours");
    }
}
