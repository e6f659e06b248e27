//! Whole runs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Result;

use super::run::{Measured, Model, Scratch, config, data, measure};
use super::{Figure, Goal, ideal};

/// Start-ups whose least time counts.
const STARTS: usize = 10;

struct Bench<'a> {
    program: &'a Path,
    scratch: Scratch,
}

impl Bench<'_> {
    /// Trains on `sizes` items and returns what the process used; the run folder is `out`.
    fn train(
        &self,
        model: &Model,
        sizes: [usize; 3],
        epochs: usize,
        slots: usize,
    ) -> Result<Measured> {
        let dir = self.scratch.path(&format!("data-{}", sizes[0]));
        if !dir.exists() {
            data(self.program, &dir, sizes[0], sizes[1], sizes[2])?;
        }
        let config_path = self.scratch.path("config.yaml");
        config(&config_path, &dir, &model.base_url(), epochs)?;
        let out = self.scratch.path("out");
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        let args = [
            "train",
            &config_path.display().to_string(),
            "--slots",
            &slots.to_string(),
            "--out",
            &out.display().to_string(),
        ]
        .map(ToString::to_string);
        measure(self.program, &out, &args)
    }

    /// Waits for calls of a second: bounds over the measured time.
    fn waiting(&self, slots: usize) -> Result<(f64, f64)> {
        let model = Model::start(self.program, "fixed:1000")?;
        let measured = self.train(&model, [200, 100, 100], 2, slots)?;
        let bounds = ideal::bounds(&self.scratch.path("out"), slots)?;
        Ok((
            bounds.free_s / measured.wall_s,
            bounds.dependent_s / measured.wall_s,
        ))
    }

    /// Milliseconds until the program has read a configuration and answered.
    #[expect(clippy::disallowed_methods, reason = "a measurement")]
    fn start_ms(&self) -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..STARTS {
            let start = Instant::now();
            Command::new(self.program)
                .args(["config", "check"])
                .arg(self.scratch.path("config.yaml"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?;
            least = least.min(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(least)
    }
}

pub(super) fn figures(program: &Path) -> Result<Vec<Figure>> {
    let bench = Bench {
        program,
        scratch: Scratch::new("train")?,
    };
    let paper = {
        let model = Model::start(program, "fixed:0")?;
        bench.train(&model, [400, 200, 1_400], 4, 24)?
    };
    let start_ms = bench.start_ms()?;
    let (free_24, dependent_24) = bench.waiting(24)?;
    let (free_128, dependent_128) = bench.waiting(128)?;
    Ok(vec![
        Figure::new(
            "full-overlap bound ÷ wall, 1 s, 24 slots",
            free_24,
            "ratio",
            Goal::AtLeast(0.95),
        ),
        Figure::new(
            "dependency bound ÷ wall, 1 s, 24 slots",
            dependent_24,
            "ratio",
            Goal::AtLeast(0.95),
        ),
        Figure::new(
            "full-overlap bound ÷ wall, 1 s, 128 slots",
            free_128,
            "ratio",
            Goal::AtLeast(0.95),
        ),
        Figure::new(
            "dependency bound ÷ wall, 1 s, 128 slots",
            dependent_128,
            "ratio",
            Goal::AtLeast(0.95),
        ),
        Figure::new(
            "memory of a paper-size run",
            paper.peak_rss_mib,
            "MiB",
            Goal::AtMost(60.0),
        ),
        Figure::new(
            "wall time of a paper-size run, no latency",
            paper.wall_s,
            "s",
            Goal::None,
        ),
        Figure::new("start-up", start_ms, "ms", Goal::AtMost(50.0)),
    ])
}
