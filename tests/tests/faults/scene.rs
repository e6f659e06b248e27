//! One training that is disturbed, beside the same one that is not.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use skillopt_tests::support::cluster::{Cluster, Shape};
use skillopt_tests::support::wait::{LONG, for_some, until};
use skillopt_tests::support::{Ended, Process, Proxy, Sim, World, folder, sim, store};

/// Seconds after which a job of a dead worker is given to another.
pub(crate) const LEASE_S: &str = "3";
/// Jobs that a worker of [`shape`] has in hand at most: as many answers die with it.
pub(crate) const SLOTS: u64 = 6;
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
    /// Where the models are called.
    models: String,
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
        let models = sim.url();
        Self::set(world, sim, models, latency, args)
    }

    /// The same with models behind a proxy, for both trainings: where a model is called is part of
    /// what is asked.
    #[track_caller]
    pub(crate) fn with_models_behind_a_proxy(latency: &str) -> (Self, Proxy) {
        let sim = Sim::start(&[]);
        let proxy = Proxy::start(sim.port());
        let models = sim::url(proxy.port());
        (Self::set(World::new(), sim, models, latency, &[]), proxy)
    }

    #[track_caller]
    fn set(world: World, sim: Sim, models: String, latency: &str, args: &[&str]) -> Self {
        world.trained(WHOLE, &models, &[args, &["--slots", "32"]].concat());
        let results = store::results(&world.store(WHOLE));
        assert_eq!(sim.stats().ok(), results, "every answer is kept");
        sim.configure(json!({ "latency": latency }));
        sim.reset();
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        Self {
            sim,
            world,
            results,
            models,
            args,
        }
    }

    /// Makes the call that submits the training, to the folder `out`.
    pub(crate) fn submission(&self, cluster: &Cluster, out: &str) -> Command {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.world.submit(cluster, out, &self.models, &args)
    }

    /// Submits the training and waits until its first answers are in.
    #[track_caller]
    pub(crate) fn submit(&self, cluster: &Cluster) -> Process {
        self.begin(cluster, &mut self.submission(cluster, OUT))
    }

    /// Makes a submission and waits until the first answers are in.
    #[track_caller]
    pub(crate) fn begin(&self, cluster: &Cluster, submission: &mut Command) -> Process {
        let mut process = Process::start(submission);
        until("the run has begun", || {
            assert!(
                process.status().is_none(),
                "the submission ended:\n{}\n{}",
                process.stderr(),
                cluster.said()
            );
            self.answered() > 0
        });
        process
    }

    /// Returns how many answers the models have given.
    pub(crate) fn answered(&self) -> u64 {
        self.sim.stats().ok()
    }

    /// Waits until `part` of `of` parts of the answers are in; the others are still to come.
    #[track_caller]
    pub(crate) fn until_part(&self, run: &mut Process, part: u64, of: u64) {
        until(
            &format!("{part} of {of} parts of the answers are in"),
            || self.answered() * of >= self.results * part || Self::is_over(run),
        );
        self.is_under_way(run);
    }

    /// Makes sure that a fault falls between the first and the last answer of the run, and returns how
    /// many are in.
    #[track_caller]
    pub(crate) fn is_under_way(&self, run: &mut Process) -> u64 {
        let (answered, all) = (self.answered(), self.results);
        assert!(
            answered > 0 && answered < all && !Self::is_over(run),
            "the run is not under way: it has {answered} of {all} answers\n{}",
            run.stderr()
        );
        answered
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
        self.has_all(ended, cluster);
        self.world.same(WHOLE, OUT);
        self.asked_again(cluster, lost)
    }

    /// The same for a run whose configuration has another value under `key`, which changes nothing but
    /// what is written of it.
    #[track_caller]
    pub(crate) fn is_well_but_for(
        &self,
        key: &str,
        ended: &Ended,
        cluster: &Cluster,
        lost: u64,
    ) -> u64 {
        const WRITTEN: [&str; 2] = ["config.json", "summary.json"];
        self.has_all(ended, cluster);
        let [whole, out] = [WHOLE, OUT].map(|name| self.world.path(name));
        folder::same_but(&whole, &out, &WRITTEN);
        for file in WRITTEN {
            let [whole, out] = [WHOLE, OUT].map(|name| {
                let mut json = self.world.json(&format!("{name}/{file}"));
                let value = taken(&mut json, key);
                (
                    json,
                    value.unwrap_or_else(|| panic!("`{name}/{file}` has no `{key}`")),
                )
            });
            assert_eq!(whole.0, out.0, "{file}");
            assert_ne!(whole.1, out.1, "`{key}` of `{file}` is another");
        }
        self.asked_again(cluster, lost)
    }

    /// Checks that a run has ended, and that its folder's store has every answer.
    #[track_caller]
    fn has_all(&self, ended: &Ended, cluster: &Cluster) {
        assert!(
            ended.status.success(),
            "the run ended with {}:\n{}\n{}",
            ended.status,
            ended.stderr,
            cluster.said()
        );
        assert_eq!(
            store::results(&self.world.store(OUT)),
            self.results,
            "the folder's store has every answer"
        );
    }

    /// Returns how many answers were given twice, which must not be more than `lost`; and nothing is
    /// left behind.
    #[track_caller]
    fn asked_again(&self, cluster: &Cluster, lost: u64) -> u64 {
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
        slots: format!("chat={SLOTS}"),
        worker_args: ["--lease-seconds", LEASE_S].map(str::to_owned).to_vec(),
        ..Shape::default()
    }
}

/// The same where workers are killed again and again: on a busy machine one job may be in the hands
/// of several of them, which is not its fault.
pub(crate) fn deadly_shape(coordinators: usize, workers: usize) -> Shape {
    let mut shape = shape(coordinators, workers);
    for args in [&mut shape.coordinator_args, &mut shape.worker_args] {
        args.extend(["--losses-max", "50"].map(str::to_owned));
    }
    shape
}

/// The same with leases as they are by default: longer than any outage here.
pub(crate) fn patient_shape(coordinators: usize, workers: usize) -> Shape {
    Shape {
        worker_args: Vec::new(),
        ..shape(coordinators, workers)
    }
}

/// Asks the cluster's Redis for a number.
#[track_caller]
pub(crate) fn number(cluster: &Cluster, command: &str) -> u64 {
    let answer = cluster.redis.ask(command).expect("Redis answers");
    let number = answer.strip_prefix(':').and_then(|n| n.parse().ok());
    number.unwrap_or_else(|| panic!("`{command}`: {answer}"))
}

/// Nothing is left once all runs are over: no job waits or is held, as people see it; and Redis has
/// nothing that ends with its job or its call, with no purse that holds anything back.
#[track_caller]
pub(crate) fn nothing_is_left(cluster: &Cluster) {
    let mut row = Value::Null;
    until("nobody has anything to do", || {
        let asked = cluster.command(&["top", "--once", "--json"]).output();
        let asked = asked.expect("the program starts");
        let text = String::from_utf8_lossy(&asked.stdout);
        let found = text
            .lines()
            .find_map(|line| serde_json::from_str(line).ok());
        row = found.unwrap_or_default();
        row["waiting"] == 0 && row["running"] == 0 && row["reserved_usd"] == 0.0
    });
    nothing_is_left_in("Redis", |script| {
        let asked = format!("EVAL \"{script}\" 0");
        cluster.redis.ask(&asked).expect("Redis answers")
    });
}

/// Waits until a Redis that runs scripts through `ask` has nothing of ended runs. What may stay is what
/// `docs/redis.md` says that it stays.
#[track_caller]
pub(crate) fn nothing_is_left_in(what: &str, ask: impl Fn(&str) -> String) {
    let mut said = String::new();
    let is_clean = for_some(LONG, || {
        said = ask(LEFT);
        said.contains(NOTHING).then_some(())
    });
    assert!(is_clean.is_some(), "left in {what}: {said}");
}

/// What [`LEFT`] answers if all is well.
const NOTHING: &str = "nothing is left";

/// Names the keys that should be gone: records of jobs and their texts, those that came back, what
/// happened to them, leases, delays, counts of what waits; reservations, and calls under way of
/// accounts; and purses that hold something back.
const LEFT: &str = "\
    local gone = { j = 1, l = 1, d = 1, q = 1, u = 1, ledger = 1, ['ledger:ends'] = 1 } \
    local left = {} \
    for _, key in ipairs(redis.call('KEYS', 'skillopt:{q}:*')) do \
      local name = string.sub(key, 14) \
      local told = string.gsub(name, '[^ -~]', '?') \
      if gone[name] or string.find(name, '^[wbe]:') or string.find(name, '^rates:[ec]:') then \
        left[#left + 1] = told \
      elseif string.find(name, '^ledger:p:') then \
        for _, part in ipairs({ 'rr', 'rp', 'rc', 'ru' }) do \
          local held = redis.call('HGET', key, part) \
          if held and held ~= '0' then left[#left + 1] = told .. ' ' .. part .. '=' .. held end \
        end \
      end \
    end \
    if #left == 0 then return 'nothing is left' end \
    return table.concat(left, ', ')";

/// Lets time pass: the fault lasts, or comes, this long into the run.
pub(crate) fn after(time: Duration) {
    std::thread::sleep(time);
}

/// Takes a value out of an object, or of one that lies in it.
fn taken(json: &mut Value, key: &str) -> Option<Value> {
    let object = json.as_object_mut()?;
    let own = object.remove(key);
    own.or_else(|| object.values_mut().find_map(|value| taken(value, key)))
}
