//! A sweep of 52 paper-size cells without latency.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::cluster::{Cluster, Used};
use super::run::{Model, Scratch, config, data};
use super::{Figure, Goal};

const CELLS: usize = 52;
/// Items of the train, val and test split of a paper-size run.
const SIZES: [usize; 3] = [400, 200, 1_400];

pub(super) fn figures(program: &Path) -> Result<Vec<Figure>> {
    let scratch = Scratch::new("sweep")?;
    let model = Model::start(program, "fixed:0")?;
    let cluster = Cluster::start(program, &scratch, 1, 256)?;
    let dir = scratch.path("data");
    data(program, &dir, SIZES[0], SIZES[1], SIZES[2])?;
    let base = scratch.path("base.yaml");
    config(&base, &dir, &model.base_url(), 4)?;
    // One benchmark and as many models as cells: nothing is shared but the items.
    let mut text = format!(
        "sweep:\n  name: paper-size\n  base: \"{}\"\n  benchmarks: [searchqa]\n  harnesses: [chat]\n  models:\n",
        base.display()
    );
    for n in 1..=CELLS {
        writeln!(text, "    - sim-target-{n}")?;
    }
    let file = scratch.path("sweep.yaml");
    std::fs::write(&file, text)?;
    let out = scratch.path("out");
    let args = [
        "submit",
        &file.display().to_string(),
        "--wait",
        "--out",
        &out.display().to_string(),
    ]
    .map(ToOwned::to_owned);
    let before = cluster.used()?;
    let wall_s = cluster.run(program, &args)?;
    let used = cluster.used()?;
    let cpu_s = used.cpu_s() - before.cpu_s();
    let of = |used: Used, before: Used| used.cpu_s - before.cpu_s;
    let calls = model.stats()?["calls"].as_f64().unwrap_or(0.0);
    Ok(vec![
        Figure::new(
            "wall time of 52 paper-size cells",
            wall_s,
            "s",
            Goal::AtMost(60.0),
        ),
        Figure::new(
            "memory of all processes at their peaks",
            used.peak_mib(),
            "MiB",
            Goal::AtMost(400.0),
        ),
        Figure::new(
            "  of it coordinator",
            used.coordinator.peak_mib,
            "MiB",
            Goal::None,
        ),
        Figure::new("  of it Redis", used.redis.peak_mib, "MiB", Goal::None),
        Figure::new("  of it workers", used.workers.peak_mib, "MiB", Goal::None),
        Figure::new("processor time", cpu_s, "s", Goal::None),
        Figure::new(
            "  of it coordinator",
            of(used.coordinator, before.coordinator),
            "s",
            Goal::None,
        ),
        Figure::new(
            "  of it Redis",
            of(used.redis, before.redis),
            "s",
            Goal::None,
        ),
        Figure::new(
            "  of it workers",
            of(used.workers, before.workers),
            "s",
            Goal::None,
        ),
        Figure::new(
            "processor time per call",
            cpu_s / calls * 1e6,
            "µs",
            Goal::None,
        ),
        Figure::new("calls", calls, "", Goal::None),
    ])
}
