//! One training that is disturbed, beside the same one that is not.

use std::process::Command;
use std::time::Duration;

use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Ended, Process, Sim, World, store};

/// Seconds after which a job of a dead worker is given to another.
pub(crate) const LEASE_S: &str = "3";
/// Folder of the undisturbed run.
const WHOLE: &str = "whole";
/// Folder of the disturbed run.
pub(crate) const OUT: &str = "out";

/// Models, data, and the run that nobody disturbed.
pub(crate) struct Scene {
    pub(crate) sim: Sim,
    pub(crate) world: World,
    /// Results that a whole run has.
    pub(crate) results: u64,
    args: Vec<String>,
}

impl Scene {
    /// Trains undisturbed, in this process's own store, against models of this latency.
    #[track_caller]
    pub(crate) fn new(latency: &str) -> Self {
        Self::with(latency, &[])
    }

    /// The same with further arguments of both trainings.
    #[track_caller]
    pub(crate) fn with(latency: &str, args: &[&str]) -> Self {
        Self::in_world(World::new(), latency, args)
    }

    /// The same with data of one's own.
    #[track_caller]
    pub(crate) fn in_world(world: World, latency: &str, args: &[&str]) -> Self {
        let sim = Sim::start(&[]);
        world.trained(WHOLE, &sim.url(), &[args, &["--slots", "32"]].concat());
        let results = store::results(&world.store(WHOLE));
        assert_eq!(sim.stats().ok(), results, "every answer is kept");
        sim.configure(serde_json::json!({ "latency": latency }));
        sim.reset();
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        Self {
            sim,
            world,
            results,
            args,
        }
    }

    /// Makes the call that submits the training, to the folder `out`.
    pub(crate) fn submission(&self, cluster: &Cluster, out: &str) -> Command {
        let url = format!("model.openai_compatible_base_url={}", self.sim.url());
        let words = [
            "submit",
            "train",
            "config.yaml",
            "--wait",
            "--out",
            out,
            "--set",
            &url,
        ];
        let more = self.args.iter().map(String::as_str);
        let mut command = cluster.command(&words.into_iter().chain(more).collect::<Vec<_>>());
        command.current_dir(self.world.path(""));
        command
    }

    /// Submits the training and waits until its first answers are in.
    #[track_caller]
    pub(crate) fn submit(&self, cluster: &Cluster) -> Process {
        let mut process = Process::start(&mut self.submission(cluster, OUT));
        until("the run has begun", || {
            assert!(
                process.status().is_none(),
                "the submission ended:\n{}\n{}",
                process.stderr(),
                cluster.said()
            );
            self.sim.stats().ok() > 0
        });
        process
    }

    /// Returns whether the run is over.
    pub(crate) fn is_over(process: &mut Process) -> bool {
        process.status().is_some()
    }

    /// Waits for the end of the run and checks what came of it. At most `lost` answers died with
    /// whoever had them in hand; returns how many it were.
    #[track_caller]
    pub(crate) fn ends_well(&self, process: Process, cluster: &Cluster, lost: u64) -> u64 {
        self.is_well(&process.wait(), cluster, lost)
    }

    /// Checks what came of a run that has ended.
    #[track_caller]
    pub(crate) fn is_well(&self, ended: &Ended, cluster: &Cluster, lost: u64) -> u64 {
        assert!(
            ended.status.success(),
            "the run ended with {}:\n{}\n{}",
            ended.status,
            ended.stderr,
            cluster.said()
        );
        self.world.same(WHOLE, OUT);
        assert_eq!(
            store::results(&self.world.store(OUT)),
            self.results,
            "the folder's store has every answer"
        );
        let given = self.sim.settled().ok();
        let again = given
            .checked_sub(self.results)
            .expect("no result without an answer");
        assert!(
            again <= lost,
            "{again} answers were given twice; only {lost} can have been in the hands of the dead"
        );
        nothing_is_left(cluster);
        again
    }
}

/// A cluster whose leases run out quickly.
pub(crate) fn shape(coordinators: usize, workers: usize) -> Shape {
    Shape {
        coordinators,
        workers,
        slots: "chat=6".to_owned(),
        worker_args: ["--lease-seconds", LEASE_S].map(str::to_owned).to_vec(),
        ..Shape::default()
    }
}

/// No job is left in Redis once all runs are over, neither queued nor held by anybody.
#[track_caller]
pub(crate) fn nothing_is_left(cluster: &Cluster) {
    until("the queue is empty", || {
        let asked = cluster.command(&["top", "--once", "--json"]).output();
        let asked = asked.expect("the program starts");
        let text = String::from_utf8_lossy(&asked.stdout);
        let row = text
            .lines()
            .find_map(|line| serde_json::from_str(line).ok());
        row.is_some_and(|row: serde_json::Value| row["waiting"] == 0 && row["running"] == 0)
    });
}

/// Lets time pass: the fault lasts, or comes, this long into the run.
pub(crate) fn after(time: Duration) {
    std::thread::sleep(time);
}
