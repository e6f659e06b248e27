//! The whole cluster: a coordinator, Redis with an append-only file, and workers, all processes of
//! their own on this machine, against the simulated model's server. Artefacts are written.

mod parts;

use std::path::Path;

use anyhow::Result;

pub(super) use self::parts::{Cluster, Part, Sum, Used, free_port, listening, redis};
use super::run::{Model, Scratch, config, data};
use super::{Figure, Goal, ideal};

/// Items of the throughput figures.
const ITEMS: usize = 20_000;

struct Bench<'a> {
    program: &'a Path,
    scratch: Scratch,
}

/// What one call of the program took.
struct Taken {
    used: Sum,
    wall_s: f64,
}

impl Bench<'_> {
    fn config(&self, model: &Model, sizes: [usize; 3], epochs: usize) -> Result<String> {
        let dir = self
            .scratch
            .path(&format!("data-{}-{}", sizes[0], sizes[2]));
        if !dir.exists() {
            data(self.program, &dir, sizes[0], sizes[1], sizes[2])?;
        }
        let path = self.scratch.path("config.yaml");
        config(&path, &dir, &model.base_url(), epochs)?;
        Ok(path.display().to_string())
    }

    /// Runs `submit` with `words` and waits; the folder comes to `out`.
    fn submit(&self, cluster: &Cluster, words: &[&str]) -> Result<Taken> {
        let out = self.scratch.path("out");
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        let mut args: Vec<String> = ["submit"]
            .iter()
            .chain(words)
            .map(|w| (*w).to_owned())
            .collect();
        args.extend(["--wait", "--out", &out.display().to_string()].map(ToOwned::to_owned));
        // Nothing is to be answered by an earlier call.
        args.extend(["--set", "env.scope=run"].map(ToOwned::to_owned));
        let before = cluster.used()?;
        let wall_s = cluster.run(self.program, &args)?;
        let mut used = cluster.used()?;
        used.coordinator.cpu_s -= before.coordinator.cpu_s;
        used.redis.cpu_s -= before.redis.cpu_s;
        used.workers.cpu_s -= before.workers.cpu_s;
        Ok(Taken { used, wall_s })
    }

    /// Scores one skill on many items, each time another one, so that nothing is known already.
    /// `predictions` says of which stages each item has a folder of its own.
    fn eval(
        &self,
        cluster: &Cluster,
        config: &str,
        run: usize,
        predictions: &str,
    ) -> Result<Taken> {
        let skill = self.scratch.path("skill.md");
        let text = format!("# Skill {run}\n\n- [[RULE:K00]] Copy the code phrase.\n");
        std::fs::write(&skill, text)?;
        let skill = skill.display().to_string();
        self.submit(
            cluster,
            &[
                "eval",
                config,
                "--skill",
                &skill,
                "--split",
                "test",
                "--set",
                &format!("env.predictions={predictions}"),
            ],
        )
    }

    /// Returns the peak of the coordinator's memory while so many jobs are asked for, in MiB.
    fn memory(&self, items: usize) -> Result<f64> {
        let model = Model::start(self.program, "fixed:0")?;
        let cluster = Cluster::start(self.program, &self.scratch, 1, 128)?;
        let config = self.config(&model, [1, 1, items], 1)?;
        self.eval(&cluster, &config, 0, "none")?;
        Ok(cluster.used()?.coordinator.peak_mib)
    }

    /// Trains workload A of the performance notes.
    fn train(&self, latency: &str, faults: &[&str], slots: usize, sets: &[&str]) -> Result<f64> {
        let model = Model::start_with(self.program, latency, faults)?;
        let cluster = Cluster::start(self.program, &self.scratch, 1, slots)?;
        let config = self.config(&model, [200, 100, 100], 2)?;
        let slots = slots.to_string();
        let words = [&["train", &config, "--slots", &slots], sets].concat();
        Ok(self.submit(&cluster, &words)?.wall_s)
    }
}

pub(super) fn figures(program: &Path) -> Result<Vec<Figure>> {
    let bench = Bench {
        program,
        scratch: Scratch::new("cluster")?,
    };
    let (cpu, parts, rate) = throughput(&bench, "none")?;
    let (with_folders, _, _) = throughput(&bench, "all")?;
    let [few, many] = [10_000, 100_000].map(|items| bench.memory(items));
    let (few, many) = (few?, many?);
    let wall_24 = bench.train("fixed:1000", &[], 24, &[])?;
    let free_24 = ideal::bounds(&bench.scratch.path("out"), 24)?;
    let wall_128 = bench.train("fixed:1000", &[], 128, &[])?;
    let free_128 = ideal::bounds(&bench.scratch.path("out"), 128)?;
    let plain = bench.train("fixed:50", &[], 24, &[])?;
    let throttled = bench.train("fixed:50", &["--p429", "0.05"], 24, &[])?;
    let hedge = &["--set", "env.hedge=0.1"];
    let hung_alone = bench.train("fixed:50", &["--phang", "0.002"], 24, &[])?;
    let hung = bench.train("fixed:50", &["--phang", "0.002"], 24, hedge)?;
    let per_item = |cpu_s: f64| cpu_s / ITEMS as f64 * 1e6;
    Ok(vec![
        Figure::new(
            "processor time per rollout, all processes",
            cpu,
            "µs",
            Goal::AtMost(60.0),
        ),
        Figure::new(
            "  of it coordinator",
            per_item(parts.coordinator.cpu_s),
            "µs",
            Goal::None,
        ),
        Figure::new(
            "  of it Redis",
            per_item(parts.redis.cpu_s),
            "µs",
            Goal::None,
        ),
        Figure::new(
            "  of it workers",
            per_item(parts.workers.cpu_s),
            "µs",
            Goal::None,
        ),
        Figure::new(
            "the same with a folder for each item in the run folder",
            with_folders,
            "µs",
            Goal::AtMost(60.0),
        ),
        Figure::new(
            "memory of the coordinator, 10,000 items",
            few,
            "MiB",
            Goal::None,
        ),
        Figure::new("  with 100,000 items", many, "MiB", Goal::None),
        Figure::new(
            "rollouts a second, no latency",
            rate,
            "1/s",
            Goal::AtLeast(10_000.0),
        ),
        Figure::new(
            "full-overlap bound ÷ wall, 1 s, 24 slots",
            free_24.free_s / wall_24,
            "ratio",
            Goal::AtLeast(0.95),
        ),
        Figure::new(
            "dependency bound ÷ wall, 1 s, 24 slots",
            free_24.dependent_s / wall_24,
            "ratio",
            Goal::None,
        ),
        Figure::new(
            "full-overlap bound ÷ wall, 1 s, 128 slots",
            free_128.free_s / wall_128,
            "ratio",
            Goal::AtLeast(0.95),
        ),
        Figure::new(
            "dependency bound ÷ wall, 1 s, 128 slots",
            free_128.dependent_s / wall_128,
            "ratio",
            Goal::None,
        ),
        Figure::new(
            "slowdown with 5 % HTTP 429",
            throttled / plain,
            "ratio",
            Goal::AtMost(1.15),
        ),
        Figure::new(
            "slowdown with 0.2 % hung calls, by default",
            hung_alone / plain,
            "ratio",
            Goal::AtMost(1.15),
        ),
        Figure::new("  hedged", hung / plain, "ratio", Goal::AtMost(1.15)),
    ])
}

/// Processor time per rollout (the least of three), its parts, and rollouts a second (the best).
fn throughput(bench: &Bench<'_>, predictions: &str) -> Result<(f64, Sum, f64)> {
    let model = Model::start(bench.program, "fixed:0")?;
    let cluster = Cluster::start(bench.program, &bench.scratch, 1, 128)?;
    let config = bench.config(&model, [1, 1, ITEMS], 1)?;
    // The first evaluation also uploads the items.
    bench.eval(&cluster, &config, 0, predictions)?;
    let (mut least, mut fastest) = (None::<Sum>, f64::INFINITY);
    for run in 1..=3 {
        let taken = bench.eval(&cluster, &config, run, predictions)?;
        fastest = fastest.min(taken.wall_s);
        if least.is_none_or(|least| taken.used.cpu_s() < least.cpu_s()) {
            least = Some(taken.used);
        }
    }
    let least = least.unwrap_or_default();
    let items = ITEMS as f64;
    Ok((least.cpu_s() / items * 1e6, least, items / fastest))
}
