//! Rollouts alone: one skill on many items, over HTTP, artefacts written.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::run::{Measured, Model, Scratch, config, data, measure};
use super::{Figure, Goal};

struct Bench<'a> {
    program: &'a Path,
    scratch: Scratch,
}

/// One evaluation.
struct Case<'a> {
    model: &'a Model,
    items: usize,
    slots: usize,
    /// `all`: the reference's folder per item; `none`: rows only, trajectories in the store.
    predictions: &'a str,
}

impl Bench<'_> {
    fn eval(&self, case: &Case<'_>) -> Result<Measured> {
        let dir = self.scratch.path(&format!("data-{}", case.items));
        if !dir.exists() {
            data(self.program, &dir, 1, 1, case.items)?;
        }
        let config_path = self.scratch.path("config.yaml");
        config(&config_path, &dir, &case.model.base_url(), 1)?;
        let skill = self.scratch.path("skill.md");
        std::fs::write(&skill, "# Skill\n\n- [[RULE:K00]] Copy the code phrase.\n")?;
        let out = self.scratch.path("out");
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        let args: Vec<String> = [
            "eval",
            &config_path.display().to_string(),
            "--skill",
            &skill.display().to_string(),
            "--split",
            "test",
            "--slots",
            &case.slots.to_string(),
            "--out",
            &out.display().to_string(),
            "--set",
            &format!("env.predictions={}", case.predictions),
        ]
        .map(ToString::to_string)
        .to_vec();
        measure(self.program, &out, &args)
    }

    /// Processor time of one rollout in microseconds, start-up taken off; the least of three.
    fn cpu_us(&self, case: &Case<'_>, start: &Measured) -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            least = least.min(self.eval(case)?.cpu_s);
        }
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let n = case.items as f64;
        Ok((least - start.cpu_s) / n * 1e6)
    }
}

pub(super) fn figures(program: &Path) -> Result<Vec<Figure>> {
    let bench = Bench {
        program,
        scratch: Scratch::new("rollouts")?,
    };
    let quick = Model::start(program, "fixed:0")?;
    let case = |items, slots, predictions| Case {
        model: &quick,
        items,
        slots,
        predictions,
    };
    let start = bench.eval(&case(1, 64, "none"))?;
    let small = bench.cpu_us(&case(2_000, 64, "none"), &start)?;
    let large = bench.cpu_us(&case(100_000, 64, "none"), &start)?;
    let folders = bench.cpu_us(&case(2_000, 64, "all"), &start)?;
    let sheer = bench.eval(&case(20_000, 64, "none"))?;
    let server = quick.stats()?;
    let server_us = number(&server, "cpu_seconds")? / number(&server, "calls")? * 1e6;
    drop(quick);
    let slow = Model::start(program, "fixed:1000")?;
    let wide = Case {
        model: &slow,
        items: 8_000,
        slots: 4_000,
        predictions: "none",
    };
    bench.eval(&wide)?;
    let stats = slow.stats()?;
    let most = number(&stats, "in_flight_max")?;
    Ok(vec![
        Figure::new(
            "processor time per rollout, 2,000 items",
            small,
            "µs",
            Goal::AtMost(60.0),
        ),
        Figure::new(
            "the same with a folder per item",
            folders,
            "µs",
            Goal::AtMost(60.0),
        ),
        Figure::new(
            "processor time at 100,000 items ÷ at 2,000",
            large / small,
            "ratio",
            Goal::AtMost(1.1),
        ),
        Figure::new(
            "rollouts a second, no latency",
            20_000.0 / (sheer.wall_s - start.wall_s),
            "1/s",
            Goal::AtLeast(10_000.0),
        ),
        Figure::new(
            "most calls in flight at 4,000 slots",
            most,
            "calls",
            Goal::AtLeast(4_000.0),
        ),
        Figure::new(
            "simulated server, for comparison",
            server_us,
            "µs per call",
            Goal::None,
        ),
    ])
}

/// Returns a statistic of the server.
fn number(stats: &Value, name: &str) -> Result<f64> {
    stats[name]
        .as_f64()
        .with_context(|| format!("the server's statistics have no `{name}`"))
}
