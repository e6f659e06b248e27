//! One training by the `skillopt` program, as a user would start it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::pins::Model;
use super::report::Outcome;
use super::server::now;

pub(super) const CONFIG: &str = "configs/house-style/default.yaml";
const POLL_EVERY: Duration = Duration::from_millis(500);

/// One training.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// The `skillopt` program.
    pub(super) program: &'a Path,
    /// The repository: paths of the configuration start there.
    pub(super) root: &'a Path,
    /// The run folder.
    pub(super) out: PathBuf,
    /// Address of the server.
    pub(super) base_url: String,
    /// The model that is served.
    pub(super) model: Model,
    /// Seed of the run.
    pub(super) seed: u64,
    /// How many answers the server writes at a time; more workers would only wait.
    pub(super) slots: u16,
    /// Further overrides of the configuration, `KEY=VALUE`.
    pub(super) sets: &'a [String],
    /// How long it may take.
    pub(super) minutes_max: u64,
    /// Whether to continue a run folder that is there.
    pub(super) keep: bool,
}

/// Builds the program, optimised; returns its path.
pub(super) fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--release", "--quiet", "--package", "skillopt-cli"])
        .status()
        .context("cannot start `cargo`")?;
    ensure!(status.success(), "building `skillopt` failed ({status})");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join("release/skillopt"))
}

/// Trains and reads what came out.
pub(super) fn run(plan: &Plan<'_>) -> anyhow::Result<Outcome> {
    if plan.out.exists() && !plan.keep {
        fs::remove_dir_all(&plan.out)?;
    }
    fs::create_dir_all(&plan.out)?;
    let log = plan.out.with_extension("log");
    let file = fs::File::create(&log)?;
    let url = &plan.base_url;
    let sets = [
        format!("model.openai_compatible_base_url={url}"),
        format!("model.target={}", plan.model.title()),
        format!("model.optimizer={}", plan.model.title()),
        format!("train.seed={}", plan.seed),
        format!("env.workers={}", plan.slots),
    ];
    let sets = sets.iter().chain(plan.sets);
    let mut child = Command::new(plan.program)
        .current_dir(plan.root)
        .args(["train", CONFIG, "--out"])
        .arg(&plan.out)
        .args(sets.flat_map(|set| ["--set", set.as_str()]))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start {}", plan.program.display()))?;
    let started = now();
    #[expect(clippy::cast_precision_loss, reason = "minutes are few")]
    let seconds_max = plan.minutes_max as f64 * 60.0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed().as_secs_f64() > seconds_max {
            child.kill()?;
            child.wait()?;
            bail!(
                "not done after {} minutes. What is answered is kept: call again with --keep, and \
                 with a larger --minutes-max",
                plan.minutes_max
            );
        }
        std::thread::sleep(POLL_EVERY);
    };
    let summary = plan.out.join("summary.json");
    // "Not improved" has an exit code of its own and is a result; only a run without a summary
    // is none.
    let text = fs::read_to_string(&summary).with_context(|| {
        format!(
            "the training gave no result ({status}); what it said is in {}",
            log.display()
        )
    })?;
    let summary: Value = serde_json::from_str(&text).context("summary.json is no JSON")?;
    let skill = fs::read_to_string(plan.out.join("best_skill.md")).unwrap_or_default();
    Outcome::read(
        plan.seed,
        &summary,
        started.elapsed().as_secs_f64() / 60.0,
        skill,
    )
    .context("summary.json lacks figures of the test split")
}
