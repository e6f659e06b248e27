//! A run in a folder, read again and again while another process may be writing it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use skillopt_coordinator::read_model::{NoticeRow, StepRow};
use skillopt_runtime::clock::{Stopwatch, unix_ms};
use skillopt_runtime::files;

use super::pace::Pace;
use crate::commands::show::step_changes;
use crate::commands::train::kept;
use crate::failure::Failure;
use crate::found::Found;
use crate::output::Paint;
use crate::status::FILE_MAX;
use crate::tui::Screen;

/// A run folder that is watched.
pub(super) struct Local {
    path: PathBuf,
    found: Option<Found>,
    pace: Pace,
    /// How long the last look took.
    cost: Duration,
}

impl Local {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            found: None,
            pace: Pace::default(),
            cost: Duration::ZERO,
        }
    }

    /// Reads the folder.
    ///
    /// # Errors
    /// There is no run, or it cannot be read.
    pub(super) fn look(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let watch = Stopwatch::start();
        let found = Found::read(&self.path, None)?;
        screen.view = found.view.clone();
        self.pace.see(&mut screen.view);
        screen.name = self.path.display().to_string();
        screen.kept = kept(&found.view.run);
        screen.notice = found.notice.as_ref().map(|notice| NoticeRow {
            state: notice.state.clone(),
            cause: notice.cause.clone(),
            at_unix_ms: notice.at_unix_ms,
            fix: notice.fix.clone(),
        });
        screen.at_ms = unix_ms();
        self.found = Some(found);
        self.cost = watch.elapsed();
        Ok(())
    }

    /// Returns how long the last look took.
    pub(super) const fn cost(&self) -> Duration {
        self.cost
    }

    /// Returns what a step's candidate changed, as lines of a diff.
    pub(super) fn diff(&self, row: &StepRow) -> Vec<String> {
        let lines = self
            .found
            .as_ref()
            .map(|found| step_changes(found, row).map(|lines| lines(Paint(false))));
        match lines {
            Some(Ok(lines)) if !lines.is_empty() => lines,
            Some(Err(failure)) => failure.errors.into_iter().map(|e| e.message).collect(),
            _ => vec!["the step has no candidate".to_owned()],
        }
    }

    /// Returns which tasks of the val split a step's candidate fixed and broke, against the
    /// initial skill.
    pub(super) fn tasks(&self, row: &StepRow) -> Vec<String> {
        let scores = |stage: String| hard_scores(&self.path.join(stage).join("results.jsonl"));
        let start = scores("selection_eval_baseline".to_owned());
        let now = scores(format!("steps/step_{:04}/selection_eval", row.step));
        let (Some(start), Some(now)) = (start, now) else {
            return vec!["nothing was measured in this step".to_owned()];
        };
        let mut flips = Vec::new();
        let mut same = 0_u64;
        for (item, score) in &now {
            match start.get(item) {
                Some(before) if score > before => flips.push((0, "fixed", item, before, score)),
                Some(before) if score < before => flips.push((1, "broken", item, before, score)),
                _ => same += 1,
            }
        }
        flips.sort_by_key(|(order, _, item, ..)| (*order, (*item).clone()));
        let count = |word| flips.iter().filter(|flip| flip.1 == word).count();
        let mut lines = vec![format!(
            "{} fixed, {} broken, {same} as before, against the initial skill",
            count("fixed"),
            count("broken")
        )];
        lines.extend(flips.iter().map(|(_, word, item, before, score)| {
            format!("{word:<7} {item}   {before} → {score}")
        }));
        lines
    }
}

/// Reads the exact score of each item of a stage.
fn hard_scores(path: &Path) -> Option<BTreeMap<String, f64>> {
    let bytes = files::read_limited(path, FILE_MAX).ok()?;
    let rows = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    rows.map(|line| {
        let row: Value = serde_json::from_slice(line).ok()?;
        let id = row.get("id")?.as_str()?.to_owned();
        Some((id, row.get("hard")?.as_f64()?))
    })
    .collect()
}
